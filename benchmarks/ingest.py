"""From CSV text to segment archives on one core, beside DuckDB from the same text to sorted Parquet with Zstandard.

    python -m benchmarks.ingest [--repeat 5]

The flights of 2013 as the CSV that the quickstart reads. Gamay's rate is measured twice: as a file becomes a segment in a
batch job (read, convert, encode, write, pack), in the order of the file; and with the rows brought into the order of time
first, which is what DuckDB does, too. Rates are rows a second of processor time, over all threads of the process; sizes are
of the files that are left. Prints a table.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa

from benchmarks import report
from gamay.cli.json_file import read_json
from gamay.cli.quickstart import SAMPLES, unpack_flights
from gamay.ingest.read.readers import open_reader
from gamay.ingest.run import conformed_batches
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.segment.write.builder import SegmentBuilder
from gamay.storage.archive import pack

CASES = (
    "segment",
    "segment, sorted by time",
    "the same with the quickstart's four secondary indexes",
    "Parquet by DuckDB, sorted by time",
)
SHAPES = {
    "ingest": report.Shape(("CSV to", "rows/s a core", "× DuckDB", "MB", "size over Parquet"), CASES, ("MB/s of text",))
}
TIME = "time_hour"
READER = {"nullStringValue": "NA"}
DUCKDB = """
COPY (SELECT * FROM read_csv({files}, nullstr = 'NA') ORDER BY {time}) TO '{out}' (FORMAT parquet, COMPRESSION zstd)
"""


def gamay(files: list[Path], out: Path, config: TableConfig, *, sort: bool) -> Path:
    """Build one segment from CSV files and return its archive."""
    schema = Schema.from_json(read_json(SAMPLES / "schema.json")).value
    pipeline = Pipeline(schema, config)
    builder = SegmentBuilder(schema, config, "flights", out)
    batches = [b for file in files for b in conformed_batches(open_reader(str(file), "csv", READER), pipeline)]
    if sort:
        batches = pa.Table.from_batches(batches).sort_by(TIME).combine_chunks().to_batches()
    for batch in batches:
        builder.append(batch)
    return pack(builder.build(), out / "flights.tar.zst")


def duckdb(files: list[Path], out: Path) -> Path:
    """Turn CSV files into one sorted Parquet file and return it."""
    import duckdb as peer

    parquet = out / "flights.parquet"
    with peer.connect(config={"threads": 1}) as connection:
        connection.execute(DUCKDB.format(files=[str(f) for f in files], time=TIME, out=parquet))
    return parquet


def measure(make: Callable[[Path], Path], rows: int, repeat: int) -> tuple[float, int]:
    """Return (rows a second of processor time, bytes of the result): the best of `repeat`."""
    rates, size = [], 0
    for _ in range(repeat):
        out = Path(tempfile.mkdtemp(prefix="gamay-ingest-"))
        try:
            start = time.process_time()
            made = make(out)
            rates.append(rows / (time.process_time() - start))
            size = made.stat().st_size
        finally:
            shutil.rmtree(out)
    return max(rates), size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    arguments = report.arguments_of(parser)
    repeat: int = arguments.repeat
    plain = TableConfig.offline("flights")
    sample = TableConfig.from_json(read_json(SAMPLES / "table.json")).value
    with tempfile.TemporaryDirectory() as folder:
        files = unpack_flights(Path(folder))
        text = sum(os.path.getsize(file) for file in files)
        rows = sum(file.read_bytes().count(b"\n") - 1 for file in files)
        peer_rate, peer_size = measure(partial(duckdb, files), rows, repeat)
        found = report.Report("ingest", SHAPES["ingest"])
        for name, config, sort in (
            (CASES[0], plain, False),
            (CASES[1], plain, True),
            (CASES[2], sample, True),
        ):
            rate, size = measure(partial(gamay, files, config=config, sort=sort), rows, repeat)
            _add(found, name, rate, size, text / rows, peer_rate, peer_size)
        _add(found, CASES[3], peer_rate, peer_size, text / rows, peer_rate, peer_size)
    found.finish(writes=arguments.write_docs)


def _add(
    found: report.Report, name: str, rate: float, size: int, row_bytes: float, peer_rate: float, peer_size: int
) -> None:
    ratios = ("", "") if name == CASES[3] else (f"{rate / peer_rate:.2f}", f"{size / peer_size:.2f}")
    found.add(name, f"{rate:,.0f}", ratios[0], f"{size / 1e6:.2f}", ratios[1], f"{rate * row_bytes / 1e6:.0f}")


if __name__ == "__main__":
    main()
