"""A consuming segment compared with the sealed one of the same rows: queries, memory, appending, viewing, sealing.

    python -m benchmarks.consuming [--rows 1000000] [--batch 5000] [--repeat 15] [--write-docs]

Everything is processor time of all threads, since other programs may keep the cores busy; of appending and sealing the least
of three runs. The rows are the generated events (10 columns, two of them with an inverted index; see `benchmarks.data`), the
queries those of `benchmarks.compare`.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks import data, report
from benchmarks.compare import parameters, read_queries
from gamay.base.clock import SYSTEM_CLOCK
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.query.bind.binder import bind
from gamay.query.execute.executor import execute
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import reduce
from gamay.segment.mutable import MutableSegment, Sizing
from gamay.segment.read.reader import open_segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.sql.parser import parse_query

SCHEMA = Schema.from_json(data.EVENTS_SCHEMA).value
CONFIG = TableConfig.from_json(data.EVENTS_CONFIG).value

_BATCH = 5_000
_REPEAT = 15
_RUNS = 3
_APPENDED = f"rows appended a second of a core, in batches of {_BATCH:,}"
_SIZED = "the same, buffers sized by the history of earlier segments"
_VIEWED = "a view, all columns opened"
_SEALED = "rows sealed a second of a core"
_MAPPED = "bytes a row, sealed and mapped"
_IN_USE = "bytes a row in use while it consumes"
_RESERVED = "bytes a row reserved"
_MEAN = f"time of a query against the sealed segment: mean of all queries, the least of {_REPEAT} runs each"
_SLOWEST = "the slowest in comparison"
SHAPES = {
    "consuming": report.Shape(
        ("measure", "value"),
        (_APPENDED, _SIZED, _VIEWED, _SEALED, _MAPPED, _IN_USE, _RESERVED, _MEAN, _SLOWEST),
    )
}


def batches(rows: int, size: int) -> list[pa.RecordBatch]:
    """Return conformed batches of the events."""
    table = pa.concat_tables(pq.read_table(path) for path in data.events(rows))
    pipeline = Pipeline(SCHEMA, CONFIG)
    return [pipeline.apply(batch) for batch in table.combine_chunks().to_batches(max_chunksize=size)]


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of processor time, and the result."""
    start = time.process_time()
    result = action()
    return time.process_time() - start, result


def least(actions: Sequence[Callable[[Path], Any]], folder: Path) -> tuple[float, list[Any]]:
    """Return the least processor time in seconds of some runs, each in a separate folder, and their results."""
    runs = [timed(partial(action, folder / str(number))) for number, action in enumerate(actions)]
    return min(seconds for seconds, _ in runs), [result for _, result in runs]


def append_all(folder: Path, rows: list[pa.RecordBatch], sizing: Sizing | None) -> MutableSegment:
    """Return a consuming segment of the rows."""
    segment = MutableSegment("events__0__0", SCHEMA, CONFIG, folder, sizing)
    for batch in rows:
        segment.append(batch)
    return segment


def view_s(folder: Path, rows: list[pa.RecordBatch], sizing: Sizing) -> float:
    """Return the median seconds of processor time of a view after each batch, every column of which is opened."""
    segment = MutableSegment("events__0__0", SCHEMA, CONFIG, folder, sizing)
    spent = []
    for batch in rows:
        segment.append(batch)
        began = time.process_time()
        view = segment.view()
        for name in view.column_names:
            view.column(name)
        spent.append(time.process_time() - began)
    return median(spent)


def compare_queries(console: Console, found: report.Report, sealed: Any, view: Any, repeat: int) -> None:
    """Print the time of each query on either segment, in turn: the least of `repeat`, which other work changes least."""
    table = Table("query", "consuming ms", "sealed ms", "ratio")
    ratios = []
    with WorkPool(1) as pool:

        def answer(segment: Any, sql: str) -> Any:
            bound = bind(parse_query(sql), SCHEMA)
            return reduce(bound, [execute(bound, [segment], pool, Deadline.after_ms(60_000, SYSTEM_CLOCK))])

        for query in read_queries("events"):
            times: dict[str, list[float]] = {"view": [], "sealed": []}
            for filling in parameters(repeat + 1):
                sql = query.texts[""].format(**filling)
                for name, segment in (("view", view), ("sealed", sealed)):
                    times[name].append(timed(partial(answer, segment, sql))[0])
            consuming, immutable = (1000 * min(times[name][1:]) for name in ("view", "sealed"))
            ratios.append(consuming / immutable)
            table.add_row(query.name, f"{consuming:.2f}", f"{immutable:.2f}", f"{ratios[-1]:.2f}")
    console.print(table)
    found.add(_MEAN, f"{fmean(ratios):.2f}")
    found.add(_SLOWEST, f"{max(ratios):.1f}")


def compare_memory(console: Console, found: report.Report, segment: MutableSegment, sealed: Any) -> None:
    """Print the bytes of each column."""
    table = Table("column", "part", "used a row", "reserved a row", "sealed a row")
    rows = segment.num_docs
    used = reserved = 0
    for name, parts in segment.memory().items():
        sizes = sealed.info.columns[name].index_sizes()
        for part in sorted({*parts, *sizes}):
            use = parts.get(part)
            used += use.used if use else 0
            reserved += use.reserved if use else 0
            cells = [f"{use.used / rows:.2f}", f"{use.reserved / rows:.2f}"] if use else ["", ""]
            table.add_row(name, part, *cells, f"{sizes[part] / rows:.2f}" if part in sizes else "")
    console.print(table)
    for case, size in ((_MAPPED, sealed.size_bytes), (_IN_USE, used), (_RESERVED, reserved)):
        found.add(case, f"{size / rows:.1f}")


def main() -> None:
    """Run everything and print it."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--batch", type=int, default=_BATCH)
    arguments.add_argument("--repeat", type=int, default=_REPEAT)
    chosen = report.arguments_of(arguments)
    found = report.Report("consuming", SHAPES["consuming"])
    console = Console(width=120)
    rows = batches(chosen.rows, chosen.batch)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        append_all(root / "warm", rows[:2], None).seal(root / "warm-sealed")
        cold, segments = least([lambda place: append_all(place, rows, None)] * _RUNS, root / "first")
        segment = segments[-1]
        sizing = Sizing(chosen.rows, segment.sizing().columns)
        warm, _ = least([lambda place: append_all(place, rows, sizing)] * _RUNS, root / "second")
        found.add(_APPENDED, f"{chosen.rows / cold / 1e6:.1f} million")
        found.add(_SIZED, f"{chosen.rows / warm / 1e6:.1f} million")
        found.add(_VIEWED, f"{1e6 * view_s(root / 'third', rows, sizing):.0f} µs")
        sealing, paths = least([each.seal for each in segments], root / "sealed")
        found.add(_SEALED, f"{chosen.rows / sealing / 1e6:.1f} million")
        builder = SegmentBuilder(SCHEMA, CONFIG, "events__0__0", root / "built")

        def build() -> None:
            for batch in rows:
                builder.append(batch)
            builder.build()

        building, _ = timed(build)
        console.print(f"rows a second of a core sealed by the builder, from batches: {chosen.rows / building:,.0f}")
        sealed = open_segment(paths[-1])
        compare_memory(console, found, segment, sealed)
        compare_queries(console, found, sealed, segment.view(), chosen.repeat)
    found.finish(writes=chosen.write_docs)


if __name__ == "__main__":
    main()
