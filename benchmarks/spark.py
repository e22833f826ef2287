"""Building and writing on Spark by processor time, compared with the embedded builder and Spark's own Parquet.

    python -m benchmarks.spark [--rows 1250000] [--repeat 2] [--small-files 10000] [--csv-mb 400]

1.25 million generated rows of 12 columns, in no order, in two Parquet files, on a local master of two cores. Each way runs
once before it is measured; then all of them take turns. Processor seconds are those of Java and all of its Python workers,
of the embedded builder those of its process; the best of the runs counts, for whatever else the machine does only adds. Rows
are counted in what was made before anything is printed. Then many small files are packed into segments, and one CSV file is
built on one core and on two, by the clock, the better of two runs each: this process, Java and its Python workers are pinned
to as many processors, for with one core of Spark's alone Java and the Python worker run side by side on two of them.
"""

import argparse
import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from benchmarks import report
from gamay.embedded.cluster import EmbeddedCluster
from gamay.ingest.read.readers import open_reader
from gamay.ingest.run import conformed_batches
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.segment.write.builder import SegmentBuilder
from gamay.spark import build_segments, local_session, register
from gamay.spark.building.segments import InputFiles
from gamay.storage.archive import ZSTD_LEVEL_JOBS, pack

ROWS, FILES, SEED = 1_250_000, 2, 20130101
ROWS_PER_SEGMENT = 320_000
START_MS, GAP_MS = 1_672_531_200_000, 1_500
CORES = 2
SMALL_FILES, ROWS_PER_SMALL_FILE, SMALL_BYTES_PER_TASK = 10_000, 40, 4 << 20
CSV_MB = 400
CSV_BYTES_PER_TASK = 32 << 20
TICKS = os.sysconf("SC_CLK_TCK")

EMBEDDED, FILE, WRITE = (
    "embedded builder, a segment of each file",
    "a segment of each file, on Spark",
    "`df.write`, unsorted",
)
SORTED, PARQUET = "`partitionAndSort`, four segments", "Spark's own: Parquet in four sorted ranges"
COST = report.Shape(
    ("way", "processor s", "× embedded", "× Spark's Parquet"), (EMBEDDED, FILE, WRITE, SORTED, PARQUET), ("s",)
)
SMALL, ONE, TWO = "10,000 CSV files of 40 rows", "CSV of 400 MB, one core", "CSV of 400 MB, two cores"
FILES_SHAPE = report.Shape(("input", "segments", "s", "× one core"), (SMALL, ONE, TWO))
SHAPES = {"spark: cost": COST, "spark: files": FILES_SHAPE}

SCHEMA = {
    "schemaName": "events",
    "dimensionFieldSpecs": [
        {"name": "id", "dataType": "LONG"},
        {"name": "user_id", "dataType": "LONG"},
        {"name": "country", "dataType": "STRING"},
        {"name": "city", "dataType": "STRING"},
        {"name": "device", "dataType": "STRING"},
        {"name": "url", "dataType": "STRING"},
        {"name": "status", "dataType": "INT"},
        {"name": "is_new", "dataType": "BOOLEAN"},
    ],
    "metricFieldSpecs": [
        {"name": "clicks", "dataType": "INT"},
        {"name": "latency", "dataType": "FLOAT"},
        {"name": "price", "dataType": "DOUBLE"},
    ],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "LONG", "format": "EPOCH|MILLISECONDS", "granularity": "1:MILLISECONDS"}
    ],
}


def table_config() -> TableConfig:
    """Return the config of a table sorted by time."""
    document = TableConfig.offline("events").to_json()
    document["segmentsConfig"]["timeColumnName"] = "ts"
    document["tableIndexConfig"]["sortedColumn"] = ["ts"]
    return TableConfig.from_json(document).value


def generated(rng: np.random.Generator, first: int, rows: int) -> pa.Table:
    """Return rows with times in no order."""

    def pick(prefix: str, count: int) -> pa.Array:
        names = pa.array([f"{prefix}_{i:05d}" for i in range(count)])
        return names.take(pa.array(rng.zipf(1.3, rows) % count))

    return pa.table(
        {
            "id": pa.array(np.arange(first, first + rows)),
            "user_id": pa.array(rng.integers(0, 100_000, rows)),
            "country": pick("country", 200),
            "city": pick("city", 5_000),
            "device": pick("device", 12),
            "url": pick("/shop/item", 50_000),
            "status": pa.array(rng.choice([200, 200, 200, 304, 404, 500], rows).astype(np.int32)),
            "is_new": pa.array(rng.random(rows) < 0.1),
            "clicks": pa.array(rng.integers(0, 50, rows).astype(np.int32)),
            "latency": pa.array(rng.gamma(2, 40, rows).astype(np.float32)),
            "price": pa.array(rng.integers(0, 100_000, rows) / 100),
            "ts": pa.array(START_MS + rng.integers(0, ROWS * GAP_MS, rows)),
        }
    )


def processes_below(root: int) -> dict[int, float]:
    """Return the processor time of a process and of each of its descendants, with those of their ended children."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        parents[int(entry.name)], used[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15])) / TICKS

    def is_below(pid: int) -> bool:
        while pid and pid != root:
            pid = parents.get(pid, 0)
        return bool(pid)

    return {pid: seconds for pid, seconds in used.items() if is_below(pid)}


def processor_seconds(root: int) -> float:
    """Return the processor time of a process and all its descendants, including ended ones."""
    return sum(processes_below(root).values())


@contextmanager
def pinned(root: int, count: int) -> Iterator[None]:
    """Restrict this process, another one and all its children to a number of the processors."""
    allowed = sorted(os.sched_getaffinity(0))

    def pin(processors: Iterable[int]) -> None:
        for pid in (os.getpid(), *processes_below(root)):
            with suppress(FileNotFoundError):  # it has ended meanwhile, as threads of it may have
                for thread in Path(f"/proc/{pid}/task").iterdir():
                    with suppress(ProcessLookupError):
                        os.sched_setaffinity(int(thread.name), processors)

    pin(allowed[:count])
    try:
        yield
    finally:
        pin(allowed)


class Bench:
    """The input, a session, and the methods to measure; each writes into a new folder and returns the number of its rows."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.rows = rows
        self.folder = folder
        self.schema, self.config = Schema.from_json(SCHEMA).value, table_config()
        self.input = folder / "input"
        self.input.mkdir()
        rng = np.random.default_rng(SEED)
        for number in range(FILES):
            part = generated(rng, number * rows // FILES, rows // FILES)
            pq.write_table(part, self.input / f"{number}.parquet")
        self.spark = local_session("gamay-bench", cores=CORES, work_dir=folder / "spark")
        from pyspark import SparkContext

        gateway: Any = SparkContext._gateway
        self.java = int(gateway.proc.pid)
        register(self.spark)

    def embedded(self, out: Path) -> int:
        """Read, convert, build and pack in this process."""
        rows = 0
        for number, file in enumerate(sorted(self.input.iterdir())):
            pipeline = Pipeline(self.schema, self.config)
            builder = SegmentBuilder(self.schema, self.config, f"events_{number}", out)
            for batch in conformed_batches(open_reader(str(file), "parquet", {}), pipeline):
                builder.append(batch)
            rows += builder.num_docs
            pack(builder.build(), out / f"events_{number}.tar.zst", ZSTD_LEVEL_JOBS)
        return rows

    def per_file(self, out: Path) -> int:
        made = build_segments(self.spark, self.schema, self.config, str(self.input), str(out))
        return int(made.rows_written)

    def sorted_ranges(self, out: Path) -> int:
        made = build_segments(
            self.spark, self.schema, self.config, str(self.input), str(out),
            partition_and_sort=True, rows_per_segment=self.rows // 4,
        )  # fmt: skip
        assert len(made.segments) == FILES * 2, made.segments
        return int(made.rows_written)

    def sorted_parquet(self, out: Path) -> int:
        frame = self.spark.read.parquet(str(self.input))
        ranges = frame.repartitionByRange(4, "ts").sortWithinPartitions("ts")
        ranges.write.option("compression", "zstd").parquet(str(out / "parquet"))
        return sum(pq.read_metadata(file).num_rows for file in (out / "parquet").glob("*.parquet"))

    def write(self, out: Path) -> int:
        """Write into a table of a cluster in this process, whose own work is not measured."""
        cluster = EmbeddedCluster(out / "data", 0, 0, 0, threads=1, warm_up=False).start()
        try:
            frame = self.spark.read.parquet(str(self.input))
            options = {"controller": cluster.controller_url, "table": "events", "createTable": "true", "timeColumn": "ts"}
            options |= {"timeFormat": "1:MILLISECONDS:EPOCH", "summary": str(out / "summary.json")}
            frame.write.format("gamay").mode("append").options(**options).save()
            return int(json.loads((out / "summary.json").read_text())["build"]["rowsWritten"])
        finally:
            cluster.stop()

    def cost(self, way: Callable[[Path], int], *, here: bool) -> tuple[float, float]:
        """Return the processor seconds and the elapsed seconds of one run. here: count this process instead of Spark's."""
        out = Path(tempfile.mkdtemp(dir=self.folder))
        before, begun = self._used(here), time.perf_counter()
        rows = way(out)
        seconds, spent = time.perf_counter() - begun, self._used(here) - before
        assert rows == self.rows, f"{rows} rows of {self.rows}"
        shutil.rmtree(out)
        return spent, seconds

    def _used(self, here: bool) -> float:
        return time.process_time() if here else processor_seconds(self.java)


def measure_cost(bench: Bench, repeat: int, only: list[str]) -> report.Report:
    """Measure the cost of each method."""
    ways = {
        EMBEDDED: bench.embedded, FILE: bench.per_file, WRITE: bench.write, SORTED: bench.sorted_ranges,
        PARQUET: bench.sorted_parquet,
    }  # fmt: skip
    found: dict[str, list[tuple[float, float]]] = {case: [] for case in ways if not only or any(o in case for o in only)}
    for number in range(repeat + 1):
        for case in found:
            cost = bench.cost(ways[case], here=case == EMBEDDED)
            if number:
                found[case].append(cost)
    best = {case: min(costs) for case, costs in found.items()}
    told = report.Report("spark: cost", COST)
    for case, (spent, seconds) in best.items():
        ratios = [f"{spent / best[of][0]:.2f}" if of in best else "" for of in (EMBEDDED, PARQUET)]
        told.add(case, f"{spent:.1f}", *ratios, f"{seconds:.1f}")
    return told


def measure_files(bench: Bench, small_files: int, csv_mb: int) -> report.Report:
    """Pack small files, and build one large CSV file on one core and on two."""
    told = report.Report("spark: files", FILES_SHAPE)
    many = bench.folder / "many"
    many.mkdir()
    rng = np.random.default_rng(SEED)
    table = generated(rng, 0, ROWS_PER_SMALL_FILE * 100)
    for number in range(small_files):
        part = table.slice(number % 100 * ROWS_PER_SMALL_FILE, ROWS_PER_SMALL_FILE)
        csv.write_csv(part, many / f"{number:05d}.csv")
    begun = time.perf_counter()
    made = build_segments(
        bench.spark, bench.schema, bench.config, InputFiles(str(many)), str(bench.folder / "packed"),
        bytes_per_task=SMALL_BYTES_PER_TASK,
    )  # fmt: skip
    assert made.rows_written == small_files * ROWS_PER_SMALL_FILE
    told.add(SMALL, str(len(made.segments)), f"{time.perf_counter() - begun:.1f}", "")
    shutil.rmtree(many)
    large = bench.folder / "large.csv"
    with csv.CSVWriter(large, (part := generated(rng, 0, 100_000)).schema) as writer:
        writer.write_table(part)
        size = large.stat().st_size
        for _ in range(math.ceil((csv_mb << 20) / max(size, 1)) - 1):
            writer.write_table(part)
    seconds = {ONE: math.inf, TWO: math.inf}
    for _ in range(2):
        for case, cores in ((ONE, 1), (TWO, 2)):
            out = Path(tempfile.mkdtemp(dir=bench.folder))
            with pinned(bench.java, cores):
                begun = time.perf_counter()
                made = build_segments(
                    bench.spark, bench.schema, bench.config, str(large), str(out),
                    bytes_per_task=CSV_BYTES_PER_TASK, parallelism=cores,
                )  # fmt: skip
                seconds[case] = min(seconds[case], time.perf_counter() - begun)
            shutil.rmtree(out)
    for case, taken in seconds.items():
        told.add(case, str(len(made.segments)), f"{taken:.1f}", f"{seconds[ONE] / taken:.2f}")
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--small-files", type=int, default=SMALL_FILES)
    parser.add_argument("--csv-mb", type=int, default=CSV_MB)
    parser.add_argument("--only", nargs="*", default=[], metavar="TEXT", help="ways whose names have one of these texts")
    arguments = report.arguments_of(parser)
    with tempfile.TemporaryDirectory(prefix="gamay-spark-") as folder:
        bench = Bench(Path(folder), arguments.rows)
        try:
            cost = measure_cost(bench, arguments.repeat, arguments.only)
            cost.finish(writes=arguments.write_docs)
            if not arguments.only:
                measure_files(bench, arguments.small_files, arguments.csv_mb).finish(writes=arguments.write_docs)
        finally:
            bench.spark.stop()


if __name__ == "__main__":
    main()
