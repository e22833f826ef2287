"""Byte-aligned against bit-packed dictionary ids: the time to sum a column through its dictionary, and the bytes.

    python -m benchmarks.kernels.forward [--rows 10000000]

For each width in bits it prints milliseconds of both forms, packed over aligned time, and packed over aligned size in memory
and in an archive (Zstandard, the level of segment archives). It chose the default of `gamay.segment.forward`.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import zstandard
from rich.console import Console
from rich.table import Table

from gamay.kernels import bitpack
from gamay.kernels.gather import gather
from gamay.query.matches import BLOCK_ROWS
from gamay.segment.forward import AlignedIds, IdReader, PackedIds, id_dtype

WIDTHS = (1, 2, 4, 6, 8, 10, 12, 16, 17, 20)
REPEAT = 5
ARCHIVE_LEVEL = 6


def sum_through(reader: IdReader, values: np.ndarray, num_rows: int) -> float:
    """Sum the column block by block, as a query does."""
    total = 0.0
    decoded = np.empty(BLOCK_ROWS)
    for start in range(0, num_rows, BLOCK_ROWS):
        ids = reader.range(start, min(start + BLOCK_ROWS, num_rows))
        gather(values, ids, decoded[: len(ids)])
        total += float(decoded[: len(ids)].sum())
    return total


def median_ms(run: Callable[[], object]) -> float:
    """Return the median of some runs, one before them unmeasured."""
    run()
    times = []
    for _ in range(REPEAT):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare byte-aligned with bit-packed ids")
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows: int = parser.parse_args().rows
    rng = np.random.default_rng(1)
    compress = zstandard.ZstdCompressor(level=ARCHIVE_LEVEL).compress
    table = Table("bits", "aligned ms", "packed ms", "× time", "× memory", "× archive")
    for bits in WIDTHS:
        cardinality = 1 << bits
        ids = (cardinality * rng.random(rows) ** 2).astype(id_dtype(cardinality))
        words = np.zeros(bitpack.words_needed(rows, bits), np.uint64)
        bitpack.pack(ids, bits, words)
        values = rng.random(cardinality)
        aligned, packed = AlignedIds(ids), PackedIds(words, bits, cardinality)
        if sum_through(aligned, values, rows) != sum_through(packed, values, rows):
            raise SystemExit(f"the forms disagree at {bits} bits")
        ours = median_ms(lambda: sum_through(aligned, values, rows))  # noqa: B023 - called at once
        theirs = median_ms(lambda: sum_through(packed, values, rows))  # noqa: B023 - called at once
        archive = len(compress(words.tobytes())) / len(compress(ids.tobytes()))
        cells = (f"{theirs / ours:.1f}", f"{words.nbytes / ids.nbytes:.2f}", f"{archive:.2f}")
        table.add_row(str(bits), f"{ours:.1f}", f"{theirs:.1f}", *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
