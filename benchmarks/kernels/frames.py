"""Columns of prices without a dictionary, with one, and in frame of reference: the time to scan them, and the bytes.

    python -m benchmarks.kernels.frames [--rows 10000000]

For each form it prints nanoseconds of CPU time a row to sum the column, to sum half of its rows, to count and sum it by 50
groups, and to mark the rows of a range; and the bytes a row. Scans are those of queries, block by block. It chose the form
of raw numbers in `gamay.segment.write.forms`.
"""

import argparse
import operator
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks import report
from gamay.functions.aggregate.totals.totals import Needs, Totals
from gamay.functions.frame import Frame, FramedVector
from gamay.functions.vector import EncodedVector, Operand, Vector
from gamay.kernels.rows.filter import mark_between, mark_id_range
from gamay.kernels.tuning import AGGREGATED_BLOCK_ROWS as BLOCK
from gamay.model.types import DataType
from gamay.segment.encode.frames import find_framing

_REPEAT = 5
_FORMS = ("plain", "dictionary", "frame, 24 bits", "frame, 32 bits", "frame, 32 bits, divided")
_SCANS = ("SUM", "SUM of half", "by 50 groups", "range")
SHAPES = {"kernels.frames": report.Shape(("form", *(f"{scan}, ns" for scan in _SCANS), "bytes a row"), _FORMS)}


def frame_of(values: np.ndarray) -> FramedVector:
    """Return the frame of values, as in a segment."""
    framing = find_framing(values, DataType.DOUBLE)
    assert framing is not None
    assert not len(framing.patch_rows)
    low = framing.codes.astype(f"u{framing.low_bytes}")
    high = (framing.codes >> np.uint64(8 * framing.low_bytes)).astype(f"u{framing.high_bytes or 1}")
    meta = framing.meta
    high = high if framing.high_bytes else high[:0]
    return FramedVector(Frame(DataType.DOUBLE, low, high, meta.base, meta.exponent, meta.divides))


def blocks_of(operand: Operand, rows: int) -> list[Operand]:
    """Return the blocks of a column, none of which is decoded yet."""
    starts = range(0, rows, BLOCK)
    if isinstance(operand, FramedVector):
        return [operand.cut(start, min(start + BLOCK, rows)) for start in starts]
    if isinstance(operand, EncodedVector):
        return [EncodedVector(operand.ids[start : start + BLOCK], operand.dictionary) for start in starts]
    assert isinstance(operand, Vector)
    return [Vector(operand.type, operand.values[start : start + BLOCK]) for start in starts]


def sum_all(operand: Operand, rows: int) -> None:
    totals = Totals(Needs.SUM, DataType.DOUBLE, 1)
    for block in blocks_of(operand, rows):
        totals.update(None, block, len(block))  # type: ignore[arg-type]


def sum_kept(operand: Operand, rows: int, mask: np.ndarray) -> None:
    totals = Totals(Needs.SUM, DataType.DOUBLE, 1)
    for number, block in enumerate(blocks_of(operand, rows)):
        flags = mask[number * BLOCK : (number + 1) * BLOCK]
        totals.update_kept(flags, int(flags.sum()), block)


def sum_groups(operand: Operand, rows: int, groups: np.ndarray) -> None:
    totals = Totals(Needs.COUNT | Needs.SUM, DataType.DOUBLE, 50)
    for number, block in enumerate(blocks_of(operand, rows)):
        totals.update(groups[number * BLOCK : (number + 1) * BLOCK], block, len(block))  # type: ignore[arg-type]


def mark_range(operand: Operand, rows: int, low: float, high: float) -> None:
    for block in blocks_of(operand, rows):
        if isinstance(block, FramedVector):
            first, last = (block.frame.first_code(partial(operator.le, bound)) for bound in (low, high))
            block.frame.mark(first, last)
            continue
        marks = np.empty(len(block), np.bool_)  # type: ignore[arg-type]
        if isinstance(block, EncodedVector):
            first, last = block.dictionary.values.searchsorted([low, high]).tolist()
            mark_id_range(block.ids, first, last, marks)
        elif isinstance(block, Vector):
            mark_between(block.values, low, high, marks)


def least_ns(run: Callable[[], None], rows: int) -> str:
    run()
    times = []
    for _ in range(_REPEAT):
        begun = time.process_time()
        run()
        times.append(time.process_time() - begun)
    return f"{min(times) / rows * 1e9:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the forms of columns of prices")
    parser.add_argument("--rows", type=int, default=10_000_000)
    arguments = report.arguments_of(parser)
    rows: int = arguments.rows
    rng = np.random.default_rng(1)
    cents = rng.integers(90_000, 10_000_000, rows)
    few = cents * 0.01
    distinct, ids = np.unique(few, return_inverse=True)
    wide = np.append(cents[:-1], 1 << 30)
    columns: dict[str, tuple[Operand, float]] = {
        "plain": (Vector(DataType.DOUBLE, few), 8),
        "dictionary": (
            EncodedVector(ids.astype(np.uint32), Vector(DataType.DOUBLE, distinct, ascends=True)),
            4 + distinct.nbytes / rows,
        ),
        "frame, 24 bits": (frame_of(few), 3),
        "frame, 32 bits": (frame_of(wide * 0.01), 4),
        "frame, 32 bits, divided": (frame_of(wide / 100), 4),
    }
    mask, groups = (rng.random(rows) < 0.5).view(np.uint8), rng.integers(0, 50, rows).astype(np.uint8)
    found = report.Report("kernels.frames", SHAPES["kernels.frames"])
    for form, (operand, size) in columns.items():
        scans = (
            partial(sum_all, operand, rows),
            partial(sum_kept, operand, rows, mask),
            partial(sum_groups, operand, rows, groups),
            partial(mark_range, operand, rows, 20_000.0, 30_000.0),
        )
        found.add(form, *(least_ns(scan, rows) for scan in scans), f"{size:.1f}")
    found.finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()
