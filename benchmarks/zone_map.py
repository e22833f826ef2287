"""Queries of columns that rows are approximately sorted by: with zone maps, by full scans, and by DuckDB.

    python -m benchmarks.zone_map [--rows 8000000] [--write-docs]

Rows come in the order of their times, up to a minute late, from devices that report in turns. DuckDB keeps the bounds of its
row groups, of 122,880 rows, as it does by itself. `number` is in no order: no zone map helps, and none is in the way.
"""

import argparse
import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import gamay
from benchmarks import report
from benchmarks.joins import median_ms

_FIRST_MS, _LATE_MS, _HOUR_MS = 1_704_067_200_000, 60_000, 3_600_000
_COLUMNS = ("ts", "seen", "device", "total", "number")
_SCHEMA = {
    "schemaName": "t",
    "dimensionFieldSpecs": [
        *({"name": name, "dataType": "LONG"} for name in ("seen", "total", "number")),
        *({"name": name, "dataType": "INT"} for name in ("device", "kind")),
    ],
    "metricFieldSpecs": [{"name": "v", "dataType": "INT"}],
    "dateTimeFieldSpecs": [{"name": "ts", "dataType": "TIMESTAMP", "format": "TIMESTAMP", "granularity": "1:MILLISECONDS"}],
}
QUERIES = {
    "an hour": "SELECT COUNT(*), SUM(v) FROM t WHERE seen BETWEEN {0} AND {0} + 3600000",
    "a day by kind": (
        "SELECT kind, SUM(v) FROM t WHERE seen >= {0} AND seen < {0} + 86400000 GROUP BY kind ORDER BY kind LIMIT 20"
    ),
    "one device": "SELECT COUNT(*), SUM(v) FROM t WHERE device = 234",
    "three devices": "SELECT device, SUM(v) FROM t WHERE device IN (7, 300, 1900) GROUP BY device ORDER BY device LIMIT 3",
    "a range of a counter": "SELECT COUNT(*), MAX(v) FROM t WHERE total BETWEEN 5000000 AND 5010000",
    "the last 20 rows": "SELECT seen, number FROM t ORDER BY seen DESC, number LIMIT 20",
    "the last 20 rows of a kind": "SELECT seen, number FROM t WHERE kind = 3 ORDER BY seen DESC, number LIMIT 20",
    "a number, no order": "SELECT COUNT(*), SUM(v) FROM t WHERE number < 1000000000",
    "the first 20 numbers, no order": "SELECT number, v FROM t ORDER BY number, v LIMIT 20",
}
SHAPES = {
    "zone_map": report.Shape(("query", "with zone maps ms", "scan ms", "× scan", "duckdb ms", "× duckdb"), tuple(QUERIES))
}


def rows_of(count: int, seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    number = np.arange(count)
    times = _FIRST_MS + number * 300 + chance.integers(0, _LATE_MS, count)
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("ms")),
            "seen": times,
            "device": (number // 4_000 % 2_000).astype(np.int32),
            "total": np.cumsum(chance.integers(0, 5, count)) - chance.integers(0, 1_000, count),
            "number": chance.integers(0, 1 << 40, count),
            "kind": chance.integers(0, 20, count).astype(np.int32),
            "v": chance.integers(0, 1_000, count).astype(np.int32),
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = report.arguments_of(parser)
    rows = rows_of(arguments.rows, arguments.seed)
    indexing = {"noDictionaryColumns": ["ts", "seen", "total", "number"]}
    config = {"tableName": "t", "tableType": "OFFLINE", "tableIndexConfig": indexing}
    unzoned = "SET skipIndexes='" + "&".join(f"{name}=zone_map" for name in _COLUMNS) + "'; "
    found = report.Report("zone_map", SHAPES["zone_map"])
    with (
        tempfile.TemporaryDirectory() as folder,
        gamay.connect(Path(folder), threads=arguments.threads) as db,
        duckdb.connect(str(Path(folder) / "duck.db")) as duck,
    ):
        db.create_table("t", rows, schema=_SCHEMA, config=config)
        duck.execute(f"SET threads = {arguments.threads}")
        duck.execute("CREATE TABLE t AS SELECT * FROM rows")
        for name, form in QUERIES.items():
            query = form.format(_FIRST_MS + arguments.rows * 150)
            expected = duck.execute(query).fetchall()
            times = []
            for asked in (query, unzoned + query):
                assert db.sql(asked).rows() == expected, name
                times.append(median_ms(lambda asked=asked: db.sql(asked).rows()))  # type: ignore[misc]
            zoned, scanned = times
            theirs = median_ms(lambda query=query: duck.execute(query).fetchall())  # type: ignore[misc]
            found.add(name, *(f"{cell:.1f}" for cell in (zoned, scanned, scanned / zoned, theirs, theirs / zoned)))
    found.finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()
