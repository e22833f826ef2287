"""Expressions of timestamps, such as `hour(ts) >= 18` or `GROUP BY dateTrunc('day', ts)`, over times in or nearly in order.

They are evaluated once per time step (`gamay.query.columns.time_steps`). In dictionaries, and in raw columns whose rows
ascend, a binary search finds where steps begin. In other columns a division gives the step of a time, and the zones tell
which zones contain matching steps.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from gamay.base.arrays import Array, Mask
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.evaluate import evaluate_entries
from gamay.functions.expression import Expression
from gamay.functions.vector import Vector, take
from gamay.model.types import DataType
from gamay.query.columns.operations import truth
from gamay.query.columns.time_steps import STEPPED, step_ms
from gamay.query.view.docset import DocFlags, DocRange, DocSet
from gamay.query.view.whole_codes import step_codes
from gamay.segment.spi import Column as SegmentColumn
from gamay.segment.zones import Zones

# with fewer times per step, on average, testing each time is as fast
_TIMES_PER_STEP = 8
# the most steps to evaluate for zones
_STEPS_MAX = 1 << 14


Times: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class CalendarSteps:
    """Ascending times, divided into steps within which an expression is constant.

    starts: a representative of each step, TIMESTAMP or LONG [n]; cuts: step i has the times [cuts[i], cuts[i + 1]), or none.
    """

    starts: Vector
    cuts: Array

    @property
    def counts(self) -> Array:
        """The number of times in each step."""
        return np.diff(self.cuts)


def calendar_steps(expression: Expression, data_type: DataType, times: Times) -> CalendarSteps | None:
    """Return the steps for which to evaluate an expression of one column; None if it must be evaluated for each time.

    times: ascending, perhaps with repeats.
    """
    step = step_ms(expression, int(times[0])) if data_type in STEPPED and len(times) else 0
    if not step:
        return None
    first, last = int(times[0]) // step, int(times[-1]) // step
    if (last - first + 1) * _TIMES_PER_STEP > len(times):
        return None
    starts = np.arange(first, last + 1, dtype=np.int64) * step
    starts[0] = times[0]  # the start of the first step may not fit in 64 bits
    cuts = np.concatenate(([0], np.searchsorted(times, starts[1:]), [len(times)]))
    return CalendarSteps(Vector(data_type, starts), cuts)


def calendar_docs(condition: Expression, column: SegmentColumn) -> DocSet | None:
    """Return the rows that match a condition on one column; None if it must be tested row by row."""
    times = None if column.sorted_values is None else column.sorted_values.in_memory()
    steps = None if times is None else calendar_steps(condition, column.data_type, times)
    if steps is None:
        return None
    holds, cuts = _holds(condition, steps.starts), steps.cuts
    if holds is None:
        return None
    changes = np.flatnonzero(np.diff(np.concatenate(([False], holds, [False]))))  # where runs of True begin and end
    begins, ends = cuts[changes[::2]].tolist(), cuts[changes[1::2]].tolist()
    if len(begins) <= 1:
        return DocRange(begins[0], ends[0]) if begins else DocRange(0, 0)
    mask = np.zeros(column.num_docs, np.bool_)
    for begin, end in zip(begins, ends, strict=True):
        mask[begin:end] = True
    return DocFlags(mask, sum(ends) - sum(begins))


def calendar_test(condition: Expression, column: SegmentColumn) -> Callable[[Vector], Mask] | None:
    """Return a test of a raw column's times by their steps; None if each time must be tested."""
    codes = step_codes(column, [condition], column.num_docs // _TIMES_PER_STEP)
    holds = None if codes is None else _holds(condition, codes.dictionary)
    return None if codes is None or holds is None else lambda times: take(holds, codes.ids(times))


def calendar_zones(condition: Expression, data_type: DataType, zones: Zones) -> Mask | None:
    """Return the zones in which a condition on a time column may hold; None if unknown."""
    step = step_ms(condition, int(zones.low.min())) if data_type in STEPPED else 0
    if not step:
        return None
    low, high = zones.low // step, zones.high // step
    first, last = int(low.min()), int(high.max())
    if last - first >= _STEPS_MAX:
        return None
    starts = np.arange(first, last + 1, dtype=np.int64) * step
    starts[0] = zones.low.min()  # the start of the first step may not fit in 64 bits
    holds = _holds(condition, Vector(data_type, starts))
    if holds is None:
        return None
    held = np.concatenate(([0], np.cumsum(holds)))
    found: Mask = held[high - first + 1] > held[low - first]
    return found


def calendar_entries(condition: Expression, entries: Vector) -> Mask | None:
    """Return the matches of a condition among the entries of an ascending dictionary; None if each must be tested."""
    steps = calendar_steps(condition, entries.type, entries.values) if entries.ascends else None
    holds = None if steps is None else _holds(condition, steps.starts)
    return None if steps is None or holds is None else np.repeat(holds, steps.counts)


def _holds(condition: Expression, starts: Vector) -> Mask | None:
    """Return the steps in which a condition holds; None if it fails for one, as no relevant row may have that step."""
    try:
        return truth(evaluate_entries(condition, starts), len(starts))
    except QueryError as error:
        if error.code is not ErrorCode.QUERY_EXECUTION:
            raise
        return None
