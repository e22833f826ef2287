"""Nearest vectors by an index, by a scan, by DuckDB, which scans all vectors, and by chDB.

    python -m benchmarks.index_vector

Vectors are distributed around two thousand centres, like embeddings of texts and pictures, and so are the search vectors.
chDB has an HNSW index, its only kind, on the smaller table, because building it takes minutes on the larger one, where chDB
scans all vectors. Recall is the share of the rows of the scan that an index finds.
"""

import argparse
import statistics
import time
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from chdb import session

import gamay
from benchmarks import report
from benchmarks.joins import median_ms
from benchmarks.report import Report, Shape

_CENTRES = 2000
# by what is searched: the table, how many rows, and the condition beside the search
_CASES = {
    "IVF_FLAT, 10 nearest": ("ivf", 10, ""),
    "IVF_FLAT, 1,000 nearest": ("ivf", 1000, ""),
    "IVF_FLAT, 10 nearest of 1 in 20 rows": ("ivf", 10, "id % 20 = 3"),
    "IVF_FLAT, 10 nearest of 1 in 5,000 rows": ("ivf", 10, "id % 5000 = 3"),
    "HNSW, 10 nearest": ("hnsw", 10, ""),
}
SHAPES = {
    "index_vector": Shape(
        (
            "search",
            "vectors",
            "recall",
            "gamay ms",
            "scan ms",
            "duckdb ms",
            "chdb ms",
            "× scan",
            "× duckdb",
            "× chdb",
            "recall of chdb",
        ),
        tuple(_CASES),
        texts=1,
    )
}


def vectors_of(count: int, dimension: int, rng: np.random.Generator, centres: Any) -> Any:
    """Return vectors around centres: float32 [count, dimension]."""
    around = centres[rng.integers(0, len(centres), count)]
    return around + rng.normal(size=(count, dimension)).astype(np.float32)


def rows_of(vectors: Any) -> pa.Table:
    """Return a table of `id` and the vectors `v`."""
    count, dimension = vectors.shape
    offsets = pa.array(np.arange(0, count * dimension + 1, dimension, dtype=np.int32))
    return pa.table(
        {"id": pa.array(np.arange(count, dtype=np.int32)), "v": pa.ListArray.from_arrays(offsets, pa.array(vectors.ravel()))}
    )


def config(index_type: str, dimension: int) -> dict[str, Any]:
    vector = {"vectorIndexType": index_type, "vectorDimension": dimension, "vectorDistanceFunction": "L2"}
    field = {"name": "v", "encodingType": "RAW", "compressionCodec": "PASS_THROUGH", "indexes": {"vector": vector}}
    return {"fieldConfigList": [field]}


_SCHEMA = {
    "dimensionFieldSpecs": [
        {"name": "id", "dataType": "INT"},
        {"name": "v", "dataType": "FLOAT", "singleValueField": False},
    ]
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument(
        "--graph-rows", type=int, default=100_000, help="rows of the table with HNSW, which is slow to build"
    )
    parser.add_argument("--dimension", type=int, default=96)
    parser.add_argument("--searches", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = report.arguments_of(parser)
    rng = np.random.default_rng(arguments.seed)
    centres = (2 * rng.normal(size=(_CENTRES, arguments.dimension))).astype(np.float32)
    everything = vectors_of(arguments.rows, arguments.dimension, rng, centres)
    searched = vectors_of(arguments.searches, arguments.dimension, rng, centres)
    sizes = {"ivf": arguments.rows, "hnsw": min(arguments.graph_rows, arguments.rows)}
    found = Report("index_vector", SHAPES["index_vector"])
    with gamay.connect(":memory:", threads=arguments.threads) as db, duckdb.connect(":memory:") as duck:
        duck.execute(f"SET threads = {arguments.threads}")
        peer = session.Session()
        peer.query(f"SET max_threads = {arguments.threads}")
        peer.query("CREATE DATABASE b")
        for table, index_type in (("ivf", "IVF_FLAT"), ("hnsw", "HNSW")):
            rows, begun = rows_of(everything[: sizes[table]]), time.perf_counter()
            db.create_table(table, rows, _SCHEMA, config(index_type, arguments.dimension))
            print(f"{sizes[table]:,} vectors loaded and indexed by {index_type} in {time.perf_counter() - begun:.1f} s")
            duck.execute(f"CREATE TABLE {table} AS SELECT id, v::FLOAT[{arguments.dimension}] AS v FROM rows")
            graph = f", INDEX v v TYPE vector_similarity('hnsw', 'L2Distance', {arguments.dimension})"
            _load(peer, table, rows, graph if index_type == "HNSW" else "")
        for case, (table, count, condition) in _CASES.items():
            found.add(case, f"{sizes[table]:,}", *_measured(db, duck, peer, table, count, searched, condition))
        peer.close()
    found.finish(writes=arguments.write_docs)


def _load(peer: Any, table: str, rows: pa.Table, index: str) -> None:
    """Load rows into chDB as one part. index: the declaration of an index."""
    globals()["peer_rows"] = rows  # found by name
    peer.query(f"CREATE TABLE b.{table} (id Int32, v Array(Float32){index}) ENGINE = MergeTree ORDER BY id")
    begun = time.perf_counter()
    whole = f"SETTINGS min_insert_block_size_rows = {rows.num_rows}, min_insert_block_size_bytes = 0"
    peer.query(f"INSERT INTO b.{table} SELECT id, v FROM Python(peer_rows) {whole}")
    print(f"{rows.num_rows:,} vectors loaded by chDB{index and ' with its index'} in {time.perf_counter() - begun:.1f} s")


def _measured(db: Any, duck: Any, peer: Any, table: str, count: int, searched: Any, condition: str) -> tuple[str, ...]:
    times: list[tuple[float, float, float, float]] = []
    shares, peer_shares = [], []
    for vector in searched:
        array = f"ARRAY[{', '.join(map(str, vector.tolist()))}]"
        where, beside = (f"WHERE {condition}", f"{condition} AND") if condition else ("", "")
        mine = f"SELECT id FROM {table} WHERE {beside} VECTOR_SIMILARITY(v, {array}, {count}) LIMIT {count}"
        other = f"SELECT id FROM {table} {where} ORDER BY array_distance(v, {array}::FLOAT[{len(vector)}]) LIMIT {count}"
        another = f"SELECT id FROM b.{table} {where} ORDER BY L2Distance(v, {array[5:]}) LIMIT {count}"
        wanted = {row[0] for row in duck.execute(other).fetchall()}
        scanned = {row[0] for row in db.sql(mine, skipIndexes="v=vector").rows()}
        assert len(scanned & wanted) >= len(wanted) - 1, "the scan and DuckDB find other rows"  # but for rounding
        shares.append(len(scanned & {row[0] for row in db.sql(mine).rows()}) / count)
        peer_shares.append(len(scanned & set(map(int, str(peer.query(another, "CSV")).split()))) / count)
        own = median_ms(lambda text=mine: db.sql(text).rows())  # type: ignore[misc]
        scan = median_ms(lambda text=mine: db.sql(text, skipIndexes="v=vector").rows())  # type: ignore[misc]
        duck_ms = median_ms(lambda text=other: duck.execute(text).fetchall())  # type: ignore[misc]
        chdb_ms = median_ms(lambda text=another: peer.query(text, "CSV"))  # type: ignore[misc]
        times.append((own, scan, duck_ms, chdb_ms))
    own, *others = (statistics.geometric_mean(column) for column in zip(*times, strict=True))
    recall, peer_recall = (f"{statistics.mean(found):.3f}" for found in (shares, peer_shares))
    ratios = (f"{other_ms / own:.2g}" for other_ms in others)
    return recall, f"{own:.2f}", *(f"{other_ms:.1f}" for other_ms in others), *ratios, peer_recall


if __name__ == "__main__":
    main()
