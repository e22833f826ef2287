"""Byte-aligned against bit-packed dictionary ids: the time to scan a column, and the bytes.

    python -m benchmarks.kernels.forward [--rows 10000000]

For each width in bits it prints milliseconds of CPU time of both forms, to sum a column through its dictionary and to mark
rows of a range of ids; packed over aligned time; packed over aligned size in memory and in an archive (Zstandard, the level
of segment archives). For 1, 2 and 4 bits, where no id crosses a word, `words` unpacks whole words, the fastest form known.
It chose the default of `gamay.segment.encode.forward`; see docs/decisions.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import zstandard

from benchmarks import report
from gamay.kernels.encode import bitpack
from gamay.kernels.jit import kernel
from gamay.kernels.rows.filter import mark_id_range
from gamay.kernels.rows.gather import gather
from gamay.query.view.matches import BLOCK_ROWS
from gamay.segment.encode.forward import AlignedIds, IdReader, PackedIds, id_dtype

WIDTHS = (1, 4, 8, 12, 16, 20)
REPEAT = 5
ARCHIVE_LEVEL = 6
SCANS = ("sum", "filter")
_HEADINGS = ("bits, scan", "aligned ms", "packed ms", "words ms", "packed × time", "words × time", "× memory", "× archive")
SHAPES = {
    "kernels.forward": report.Shape(_HEADINGS, tuple(f"{bits}, {scan}" for bits in WIDTHS for scan in SCANS)),
}


def sum_through(reader: IdReader, values: np.ndarray, num_rows: int) -> float:
    """Sum the column block by block, as a query does."""
    total = 0.0
    decoded = np.empty(BLOCK_ROWS)
    for start in range(0, num_rows, BLOCK_ROWS):
        ids = reader.range(start, min(start + BLOCK_ROWS, num_rows))
        gather(values, ids, decoded[: len(ids)])
        total += float(decoded[: len(ids)].sum())
    return total


def mark_range(reader: IdReader, cardinality: int, num_rows: int) -> int:
    """Count the rows whose ids are in the lower half, block by block, as a filter does."""
    found = 0
    marks = np.empty(BLOCK_ROWS, np.bool_)
    for start in range(0, num_rows, BLOCK_ROWS):
        ids = reader.range(start, min(start + BLOCK_ROWS, num_rows))
        mark_id_range(ids, 0, cardinality // 2, marks[: len(ids)])
        found += int(np.count_nonzero(marks[: len(ids)]))
    return found


@kernel
def unpack_words(words: np.ndarray, bits: int, out: np.ndarray) -> None:
    """Unpack all values of words [n] into `out` [n * 64 / bits]; `bits` divides 64."""
    per_word = 64 // bits
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    for i in range(words.size):
        word = words[i]
        for j in range(per_word):
            out[i * per_word + j] = (word >> np.uint64(j * bits)) & mask


class WordIds:
    """Packed ids of a width that divides 64, from a row that begins a word: an `IdReader` of ranges."""

    def __init__(self, words: np.ndarray, bits: int) -> None:
        self._words = words
        self._bits = bits

    def range(self, start: int, stop: int) -> np.ndarray:
        words = self._words[start * self._bits // 64 : -(-stop * self._bits // 64)]
        out = np.empty(len(words) * 64 // self._bits, np.uint8)
        unpack_words(words, self._bits, out)
        return out[: stop - start]

    def at(self, positions: np.ndarray) -> np.ndarray:
        raise NotImplementedError


def median_ms(run: Callable[[], object]) -> float:
    """Return the median of some runs, after an unmeasured one."""
    run()
    times = []
    for _ in range(REPEAT):
        start = time.process_time()
        run()
        times.append((time.process_time() - start) * 1000)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare byte-aligned with bit-packed ids")
    parser.add_argument("--rows", type=int, default=10_000_000)
    arguments = report.arguments_of(parser)
    rows: int = arguments.rows
    rng = np.random.default_rng(1)
    compress = zstandard.ZstdCompressor(level=ARCHIVE_LEVEL).compress
    found = report.Report("kernels.forward", SHAPES["kernels.forward"])
    for bits in WIDTHS:
        cardinality = 1 << bits
        ids = (cardinality * rng.random(rows) ** 2).astype(id_dtype(cardinality))
        words = np.zeros(bitpack.words_needed(rows, bits), np.uint64)
        bitpack.pack(ids, bits, words)
        values = rng.random(cardinality)
        forms: list[IdReader] = [AlignedIds(ids), PackedIds(words, bits, cardinality)]
        forms += [WordIds(words, bits)] if bits in (1, 2, 4) else []
        archive = len(compress(words.tobytes())) / len(compress(ids.tobytes()))
        sizes = (f"{words.nbytes / ids.nbytes:.2f}", f"{archive:.2f}")
        scans: dict[str, Callable[[IdReader], float]] = {"sum": partial(sum_through, values=values, num_rows=rows)}
        scans["filter"] = partial(mark_range, cardinality=cardinality, num_rows=rows)
        for name, scan in scans.items():
            if len({scan(form) for form in forms}) > 1:
                raise SystemExit(f"the forms disagree at {bits} bits")
            times = [median_ms(partial(scan, form)) for form in forms]
            shown = [f"{ms:.1f}" for ms in times] + [""] * (3 - len(times))
            ratios = [f"{ms / times[0]:.1f}" for ms in times[1:]] + [""] * (3 - len(times))
            found.add(f"{bits}, {name}", *shown, *ratios, *sizes)
    found.finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()
