"""The 13 queries of the Star Schema Benchmark over one flat table with star-trees, against DuckDB on the same rows.

    python -m benchmarks.star_trees

The rows are those of `benchmarks.ssb`, joined. Each query must read records of a tree wherever one has what it asks for; the
column `records` says how many, of how many rows.
"""

import argparse
import re
import statistics
import time
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import gamay
from benchmarks import report
from benchmarks.joins import median_ms, queries, same
from benchmarks.report import Report, Shape
from benchmarks.ssb import tables

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
        ("query", "records", "gamay ms", "without trees ms", "duckdb ms", "× duckdb"), (*FLAT, _MEAN), texts=1
    )
}


def flat(num_rows: int, seed: int) -> pa.Table:
    """Return lineorder with the columns of the tables that it refers to."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=12_000_000)
    parser.add_argument("--segments", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = report.arguments_of(parser)
    rows = flat(arguments.rows, arguments.seed)
    found = Report("star_trees", SHAPES["star_trees"])
    times: list[tuple[float, float, float]] = []
    with gamay.connect(":memory:", threads=arguments.threads) as db, duckdb.connect(":memory:") as duck:
        duck.execute(f"SET threads = {arguments.threads}")
        size = -(-rows.num_rows // arguments.segments)
        config = {"tableIndexConfig": {"starTreeIndexConfigs": TREES}}
        db.create_table("flat", None, _metrics(rows.schema), config)
        for start in range(0, rows.num_rows, size):
            begun = time.perf_counter()
            db.append("flat", rows.slice(start, size))
            print(f"{min(size, rows.num_rows - start):,} rows loaded, trees built, in {time.perf_counter() - begun:.1f} s")
        duck.register("rows", rows)
        duck.execute("CREATE TABLE flat AS SELECT * FROM rows")
        for name, sql in FLAT.items():
            mine = f"{sql}\nLIMIT 1000000"
            answer, expected = db.sql(mine), duck.execute(sql).fetchall()
            assert same(answer.rows(), expected), f"{name}: {answer.rows()[:3]} but {expected[:3]}"
            own = median_ms(lambda text=mine: db.sql(text).rows())  # type: ignore[misc]
            scanned = median_ms(lambda text=mine: db.sql(text, useStarTree=False).rows())  # type: ignore[misc]
            other = median_ms(lambda text=sql: duck.execute(text).fetchall())  # type: ignore[misc]
            times.append((own, scanned, other))
            records = f"{answer.stats.num_docs_scanned:,}"
            found.add(name, records, f"{own:.2f}", f"{scanned:.1f}", f"{other:.1f}", f"{other / own:.0f}")
    own, scanned, other = (statistics.geometric_mean(column) for column in zip(*times, strict=True))
    found.add(_MEAN, "", f"{own:.2f}", f"{scanned:.1f}", f"{other:.1f}", f"{other / own:.0f}")
    found.finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()
