"""How long the broker takes to prune the segments of a large table that cannot match.

    python -m benchmarks.pruning [--segments 100000] [--write-docs]

A table of daily segments with a partitioned column of numbers and one of text, as the records of its segments describe it.
No segment is made: pruning reads nothing but records. For each kind of condition: the median and the longest time of
queries with other literals every time, and how many segments are left on average.
"""

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np

from benchmarks import report
from gamay.model.schema.schema import Schema
from gamay.query.bind.binder import bind
from gamay.query.prune.by_records import ColumnRange, PruningTable, SegmentRecordStats
from gamay.segment.spi import PartitionInfo
from gamay.sql.parser import parse_query

QUERIES = 200
SEGMENTS_A_DAY = 50
FIRST_DAY = 17_000
PARTITIONS = 1000
SCHEMA = Schema.from_json(
    {
        "schemaName": "visits",
        "dimensionFieldSpecs": [
            {"name": "memberId", "dataType": "LONG"},
            {"name": "country", "dataType": "STRING"},
            {"name": "page", "dataType": "INT"},
        ],
        "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
    }
).value

Draw = Callable[[int], int]
CONDITIONS: dict[str, Callable[[Draw, int], str]] = {
    "one day": lambda draw, days: f"day = {FIRST_DAY + draw(days)}",
    "one week": lambda draw, days: f"day BETWEEN {(first := FIRST_DAY + draw(days))} AND {first + 6}",
    "one member of 1,000 partitions": lambda draw, days: f"memberId = {draw(1_000_000)}",
    "one member, one month": lambda draw, days: (
        f"memberId = {draw(1_000_000)} AND day > {(first := FIRST_DAY + draw(days))} AND day <= {first + 30}"
    ),
    "50 members": lambda draw, days: f"memberId IN ({', '.join(str(draw(1_000_000)) for _ in range(50))})",
    "equality of a text": lambda draw, days: f"country = 'c{draw(200)}'",
    "`NOT (… OR …)` of ranges": lambda draw, days: f"NOT (day < {FIRST_DAY + draw(days)} OR page > {draw(100)})",
}
UNPRUNED: dict[str, Callable[[Draw, int], str]] = {"nothing to prune by": lambda draw, days: f"page = {draw(100)}"}
SHAPES = {
    "pruning": report.Shape(("condition", "median ms", "segments left of 100,000"), tuple(CONDITIONS), ("longest ms",))
}


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--segments", type=int, default=100_000)
    arguments = report.arguments_of(parser)
    segments: int = arguments.segments
    started = time.perf_counter()
    pruning = PruningTable.build([record(number) for number in range(segments)])
    built_s = time.perf_counter() - started
    found = report.Report("pruning", SHAPES["pruning"])
    rng = np.random.default_rng(7)
    for name, condition in (CONDITIONS | UNPRUNED).items():
        times, kept = [], 0
        for _ in range(QUERIES):
            where = condition(lambda below: int(rng.integers(below)), segments // SEGMENTS_A_DAY)
            bound = bind(parse_query(f"SELECT COUNT(*) FROM visits WHERE {where}"), SCHEMA)
            started = time.perf_counter()
            mask = pruning.prune(bound)
            times.append((time.perf_counter() - started) * 1000)
            kept += int(mask.sum())
        cells = f"{np.median(times):.2f}", f"{kept / QUERIES:,.0f}", f"{max(times):.2f}"
        if name in CONDITIONS:
            found.add(name, *cells)
        else:
            print(f"{name}: {cells[0]} ms, {cells[2]} ms at most")
    print(f"{segments:,} segments; arrays made in {built_s:.1f} s")
    found.finish(writes=arguments.write_docs)
    return 0


def record(number: int) -> SegmentRecordStats:
    """Return the record of a segment: a day, one partition of the members, two of 400 countries."""
    day = FIRST_DAY + number // SEGMENTS_A_DAY
    partition = PartitionInfo("Murmur", PARTITIONS, (number % PARTITIONS,), {})
    first = number % 399
    columns: dict[str, ColumnRange] = {
        "day": (day, day, None),
        "memberId": (number % 97, 999_999 - number % 89, partition),
        "country": (f"c{first}", f"c{first}z", None),
        "page": (0, 99, None),
    }
    return SegmentRecordStats(f"visits_{number}", 2000, columns)


if __name__ == "__main__":
    sys.exit(main())
