"""Queries by day, hour and month with a timestamp index, without one, and by DuckDB on the same rows.

    python -m benchmarks.timestamps

Rows come about in the order of their times, a minute early or late, over a year. `consuming` are the same rows in a segment
that is still being consumed, with the index.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks import report
from benchmarks.joins import median_ms
from benchmarks.report import Report, Shape
from gamay.base.clock import SYSTEM_CLOCK
from gamay.functions.arrow import conformed_schema
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.query.answer.values import python_values
from gamay.query.bind.binder import bind
from gamay.query.execute.executor import execute
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import reduce
from gamay.segment.mutable import MutableSegment
from gamay.segment.read.reader import open_segment
from gamay.segment.spi import Segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.sql.parser import parse_query

_FIRST_MS, _YEAR_MS, _DAY_MS = 1_704_067_200_000, 366 * 86_400_000, 86_400_000
_LATE_MS = 60_000
_BATCH_ROWS = 1 << 16
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "metricFieldSpecs": [{"name": "v", "dataType": "LONG"}],
        "dateTimeFieldSpecs": [
            {"name": "ts", "dataType": "TIMESTAMP", "format": "TIMESTAMP", "granularity": "1:MILLISECONDS"}
        ],
    }
).value
_MARCH, _APRIL = _FIRST_MS + 60 * _DAY_MS, _FIRST_MS + 91 * _DAY_MS
# by what they ask: Gamay's text, and DuckDB's, of the same rows
QUERIES = {
    "sum by day": (
        "SELECT dateTrunc('DAY', ts), COUNT(*), SUM(v) FROM t GROUP BY 1",
        "SELECT epoch_ms(date_trunc('day', ts)), COUNT(*), SUM(v) FROM t GROUP BY 1",
    ),
    "sum by hour": (
        "SELECT dateTrunc('HOUR', ts), SUM(v) FROM t GROUP BY 1",
        "SELECT epoch_ms(date_trunc('hour', ts)), SUM(v) FROM t GROUP BY 1",
    ),
    "count by year and month": (
        "SELECT year(ts), month(ts), COUNT(*) FROM t GROUP BY 1, 2",
        "SELECT year(ts), month(ts), COUNT(*) FROM t GROUP BY 1, 2",
    ),
    "sum of a day": (
        f"SELECT COUNT(*), SUM(v) FROM t WHERE dateTrunc('DAY', ts) = {_MARCH}",
        f"SELECT COUNT(*), SUM(v) FROM t WHERE date_trunc('day', ts) = make_timestamp({_MARCH * 1000})",
    ),
    "days of March": (
        f"SELECT dateTrunc('DAY', ts), SUM(v) FROM t WHERE dateTrunc('DAY', ts) >= {_MARCH} "
        f"AND dateTrunc('DAY', ts) < {_APRIL} GROUP BY 1",
        "SELECT epoch_ms(date_trunc('day', ts)), SUM(v) FROM t "
        f"WHERE date_trunc('day', ts) >= make_timestamp({_MARCH * 1000}) "
        f"AND date_trunc('day', ts) < make_timestamp({_APRIL * 1000}) GROUP BY 1",
    ),
    "days that there are": (
        "SELECT DISTINCT dateTrunc('DAY', ts) FROM t",
        "SELECT DISTINCT epoch_ms(date_trunc('day', ts)) FROM t",
    ),
}
SHAPES = {
    "timestamps": Shape(
        ("query", "with index ms", "consuming ms", "without ms", "× without", "duckdb ms", "× duckdb"), tuple(QUERIES)
    )
}


def rows_of(num_rows: int, seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    times = np.sort(chance.integers(_FIRST_MS, _FIRST_MS + _YEAR_MS, num_rows)) + chance.integers(0, _LATE_MS, num_rows)
    found = {"ts": times, "v": chance.integers(0, 1000, num_rows)}
    return pa.table(
        [pa.array(found[field.name]).cast(field.type) for field in conformed_schema(SCHEMA)], SCHEMA.column_names
    )


def config(*granularities: str) -> TableConfig:
    declared = {"name": "ts", "encodingType": "RAW", "timestampConfig": {"granularities": list(granularities)}}
    kind = {"tableName": "t", "tableType": "OFFLINE", "segmentsConfig": {}, "tenants": {}, "metadata": {}}
    return TableConfig.from_json({**kind, "tableIndexConfig": {}, "fieldConfigList": [declared]}).value


def built(rows: pa.Table, how: TableConfig, name: str, folder: Path) -> Segment:
    begun = time.process_time()
    builder = SegmentBuilder(SCHEMA, how, name, folder)
    for batch in rows.to_batches(_BATCH_ROWS):
        builder.append(batch)
    segment = open_segment(builder.build())
    took = time.process_time() - begun
    print(f"{name}: built in {took:.2f} s of a core, {segment.size_bytes / rows.num_rows:.1f} bytes a row")
    return segment


def consumed(rows: pa.Table, how: TableConfig, name: str, folder: Path) -> Segment:
    segment = MutableSegment(name, SCHEMA, how, folder)
    begun = time.process_time()
    for batch in rows.to_batches(5000):
        segment.append(batch)
    print(f"{name}: taken in {(time.process_time() - begun) / rows.num_rows * 1e9:.0f} ns of a core a row")
    return segment.view()


def ask(text: str, segments: Sequence[Segment], pool: WorkPool) -> list[tuple[Any, ...]]:
    bound = bind(parse_query(f"{text} LIMIT 100000"), SCHEMA)
    answer = reduce(bound, [execute(bound, segments, pool, Deadline.after_ms(60_000, SYSTEM_CLOCK))])
    assert answer.table is not None
    return list(zip(*map(python_values, answer.table.columns), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = report.arguments_of(parser)
    rows = rows_of(arguments.rows, arguments.seed)
    indexed = config("HOUR", "DAY", "MONTH")
    found = Report("timestamps", SHAPES["timestamps"])
    with (
        tempfile.TemporaryDirectory() as made,
        WorkPool(arguments.threads) as pool,
        duckdb.connect(":memory:") as duck,
    ):
        folder = Path(made)
        built(rows.slice(0, 10_000), indexed, "first", folder)  # kernels are loaded
        consumed(rows.slice(0, 10_000), indexed, "consumed_first", folder)
        plain, own = built(rows, config(), "without", folder), built(rows, indexed, "with", folder)
        consumed(rows, config(), "consumed_without", folder)
        growing = consumed(rows, indexed, "consumed_with", folder)
        duck.execute(f"SET threads = {arguments.threads}")
        duck.register("rows", rows)
        duck.execute("CREATE TABLE t AS SELECT * FROM rows")
        for name, (text, other) in QUERIES.items():
            expected = sorted(duck.execute(other).fetchall())
            times = []
            for segment in (own, growing, plain):
                assert sorted(ask(text, [segment], pool)) == expected, name
                times.append(median_ms(lambda text=text, one=segment: ask(text, [one], pool)))  # type: ignore[misc]
            theirs = median_ms(lambda other=other: duck.execute(other).fetchall())  # type: ignore[misc]
            with_index, consuming, without = times
            cells = (with_index, consuming, without, without / with_index, theirs, theirs / with_index)
            found.add(name, *(f"{cell:.1f}" for cell in cells))
    found.finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()
