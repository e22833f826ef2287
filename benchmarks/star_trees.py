"""The 13 queries of the Star Schema Benchmark over one flat table with star-trees, against DuckDB and chDB on its rows.

    python -m benchmarks.star_trees

The rows are those of `benchmarks.ssb`, joined; in chDB (ClickHouse in process) ordered by the order's date, texts by number.
Each query must read records of a tree wherever one has what it asks for; the column `records` says how many. What building
trees takes is the processor time of one thread, for the rows of one segment.
"""

import argparse
import json
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from chdb import session

import gamay
from benchmarks import report
from benchmarks.joins import median_ms, queries, same
from benchmarks.report import Report, Shape
from benchmarks.ssb import tables
from gamay.base.clock import SYSTEM_CLOCK
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.query.startree.build import add_star_trees
from gamay.segment.encode.format import COLUMNS_FILE
from gamay.segment.encode.metadata import read_metadata
from gamay.segment.star_tree_file import read_star_trees, remove_star_trees
from gamay.segment.write.builder import SegmentBuilder

_JOIN = re.compile(r"\b(?:lo_\w+key|lo_orderdate) = \w+(?:\s+AND\s+)?")
_FROM = re.compile(r"\bFROM .*")
_MEAN = "geometric mean"
_KEYS = {"date_dim": "d_datekey", "customer": "c_custkey", "supplier": "s_suppkey", "part": "p_partkey"}
_REFERENCES = {"date_dim": "lo_orderdate", "customer": "lo_custkey", "supplier": "lo_suppkey", "part": "lo_partkey"}

TREES: list[dict[str, Any]] = [
    {
        "dimensionsSplitOrder": ["d_year", "d_yearmonthnum", "d_weeknuminyear", "lo_discount", "lo_quantity"],
        "functionColumnPairs": ["SUM__lo_extendedprice * lo_discount"],
    },
    {
        "dimensionsSplitOrder": ["d_year", "p_category", "p_brand", "s_region"],
        "functionColumnPairs": ["SUM__lo_revenue"],
    },
    {
        "dimensionsSplitOrder": ["d_year", "c_nation", "c_city", "s_nation", "s_city", "c_region", "s_region"],
        "functionColumnPairs": ["SUM__lo_revenue"],
    },
    {
        "dimensionsSplitOrder": ["c_city", "s_city", "d_yearmonth", "d_year"],
        "functionColumnPairs": ["SUM__lo_revenue"],
    },
    {
        "dimensionsSplitOrder": ["d_year", "c_region", "c_nation", "s_region", "s_nation", "p_mfgr", "p_category"],
        "functionColumnPairs": ["SUM__lo_revenue - lo_supplycost"],
    },
    {
        "dimensionsSplitOrder": ["d_year", "s_nation", "s_city", "p_category", "p_brand"],
        "functionColumnPairs": ["SUM__lo_revenue - lo_supplycost"],
    },
]
FLAT = {name: _JOIN.sub("", _FROM.sub("FROM flat", sql)) for name, sql in queries("ssb.sql").items()}
SHAPES = {
    "star_trees": Shape(
        (
            "query",
            "records",
            "gamay ms",
            "p99 ms",
            "without trees ms",
            "duckdb ms",
            "chdb ms",
            "× duckdb",
            "× chdb",
        ),
        (*FLAT, _MEAN),
    ),
    "star_trees: build": Shape(
        ("dimensions", "records", "% of the segment", "million rows/s and core"),
        tuple(", ".join(tree["dimensionsSplitOrder"]) for tree in TREES),
    ),
}
_ASKED = 300
_FROM_FLAT = re.compile(r"\bFROM flat\b")
_ROWS = "JSONCompactEachRow"


def flat(num_rows: int, seed: int) -> pa.Table:
    """Return lineorder joined with the tables that it refers to."""
    found = dict(tables(num_rows, seed))
    rows = found.pop("lineorder")
    columns = {name: rows[name] for name in rows.column_names}
    for name, other in found.items():
        keys = other[_KEYS[name]].to_numpy()
        places = pa.array(np.searchsorted(keys, rows[_REFERENCES[name]].to_numpy()))
        columns |= {c: other[c].combine_chunks().take(places) for c in other.column_names if c != _KEYS[name]}
    return pa.table(columns)


def _metrics(schema: pa.Schema) -> dict[str, Any]:
    metrics = ("lo_extendedprice", "lo_revenue", "lo_supplycost")
    types = {pa.int32(): "INT", pa.int64(): "LONG", pa.string(): "STRING"}
    specs = [{"name": field.name, "dataType": types[field.type]} for field in schema]
    return {
        "dimensionFieldSpecs": [spec for spec in specs if spec["name"] not in metrics],
        "metricFieldSpecs": [spec for spec in specs if spec["name"] in metrics],
    }


def _clickhouse(rows: pa.Table, threads: int) -> Any:
    peer = session.Session()
    peer.query(f"SET max_threads = {threads}")
    globals()["peer_rows"] = rows  # found by name
    types = {pa.int32(): "Int32", pa.int64(): "Int64", pa.string(): "LowCardinality(String)"}
    columns = ", ".join(f"{field.name} {types[field.type]}" for field in rows.schema)
    peer.query("CREATE DATABASE b")
    peer.query(f"CREATE TABLE b.flat ({columns}) ENGINE = MergeTree ORDER BY lo_orderdate")
    peer.query("INSERT INTO b.flat SELECT * FROM Python(peer_rows)")
    peer.query("OPTIMIZE TABLE b.flat FINAL")
    return peer


def times_ms(run: Callable[[], object]) -> list[float]:
    """Return the times of many runs of a small query, ascending."""
    times = []
    for _ in range(_ASKED):
        begun = time.perf_counter()
        run()
        times.append((time.perf_counter() - begun) * 1000)
    return sorted(times)


def built(rows: pa.Table) -> Report:
    """Build each tree for the rows of one segment, on one thread, and return the cost."""
    found = Report("star_trees: build", SHAPES["star_trees: build"])
    schema = Schema.from_json({"schemaName": "flat", **_metrics(rows.schema)}).value
    with tempfile.TemporaryDirectory() as folder:
        plain = TableConfig.offline("flat")
        builder = SegmentBuilder(schema, plain, "flat", Path(folder), clock=SYSTEM_CLOCK)
        names = [field.name for field in schema.stored_fields]
        for batch in rows.select(names).to_batches(1 << 20):
            builder.append(batch)
        segment = builder.build()
        for tree in TREES:
            indexing = {**plain.to_json()["tableIndexConfig"], "starTreeIndexConfigs": [tree]}
            config = TableConfig.from_json({**plain.to_json(), "tableIndexConfig": indexing}).value
            begun_s = time.thread_time()
            add_star_trees(segment, schema, config, SYSTEM_CLOCK)
            took_s = time.thread_time() - begun_s
            info = read_metadata(segment)
            (stored,) = read_star_trees(segment, info.crc, verify=False)
            share = stored.size_bytes / (segment / COLUMNS_FILE).stat().st_size
            rate = info.num_docs / took_s / 1e6
            found.add(
                ", ".join(tree["dimensionsSplitOrder"]), f"{stored.num_records:,}", f"{share * 100:.1f}", f"{rate:.1f}"
            )
            remove_star_trees(segment)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=12_000_000)
    parser.add_argument("--segments", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = report.arguments_of(parser)
    rows = flat(arguments.rows, arguments.seed)
    found = Report("star_trees", SHAPES["star_trees"])
    times: list[tuple[float, ...]] = []
    with gamay.connect(":memory:", threads=arguments.threads) as db, duckdb.connect(":memory:") as duck:
        duck.execute(f"SET threads = {arguments.threads}")
        size = -(-rows.num_rows // arguments.segments)
        building = built(rows.slice(0, size))
        config = {"tableIndexConfig": {"starTreeIndexConfigs": TREES}}
        db.create_table("flat", None, _metrics(rows.schema), config)
        for start in range(0, rows.num_rows, size):
            begun = time.perf_counter()
            db.append("flat", rows.slice(start, size))
            print(f"{min(size, rows.num_rows - start):,} rows loaded, trees built, in {time.perf_counter() - begun:.1f} s")
        duck.register("rows", rows)
        duck.execute("CREATE TABLE flat AS SELECT * FROM rows")
        peer = _clickhouse(rows, arguments.threads)
        for name, sql in FLAT.items():
            mine = f"{sql}\nLIMIT 1000000"
            answer, expected = db.sql(mine), duck.execute(sql).fetchall()
            assert same(answer.rows(), expected), f"{name}: {answer.rows()[:3]} but {expected[:3]}"
            own = times_ms(lambda text=mine: db.sql(text).rows())  # type: ignore[misc]
            half, most = own[_ASKED // 2], own[_ASKED * 99 // 100]
            scanned = median_ms(lambda text=mine: db.sql(text, useStarTree=False).rows())  # type: ignore[misc]
            other = median_ms(lambda text=sql: duck.execute(text).fetchall())  # type: ignore[misc]
            third_sql = f"{_FROM_FLAT.sub('FROM b.flat', sql)} SETTINGS use_query_cache = 0, use_query_condition_cache = 0"
            third_rows = [tuple(json.loads(row)) for row in str(peer.query(third_sql, _ROWS)).splitlines()]
            assert same(third_rows, expected), f"{name}: {third_rows[:3]} but {expected[:3]}"
            third = median_ms(lambda text=third_sql: peer.query(text, _ROWS))  # type: ignore[misc]
            times.append((half, most, scanned, other, third))
            records = f"{answer.stats.num_docs_scanned:,}"
            found.add(name, records, *_cells(*times[-1]))
    means = [statistics.geometric_mean(column) for column in zip(*times, strict=True)]
    found.add(_MEAN, "", *_cells(*means))
    found.finish(writes=arguments.write_docs)
    building.finish(writes=arguments.write_docs)


def _cells(half: float, most: float, *others: float) -> list[str]:
    ratios = [f"{other / half:.0f}" for other in others[1:]]
    return [f"{half:.2f}", f"{most:.2f}", *(f"{other:.1f}" for other in others), *ratios]


if __name__ == "__main__":
    main()
