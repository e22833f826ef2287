"""Fields of points in time, `hour(ts) >= 18` or `GROUP BY dateTrunc('day', ts)`, over times that ascend.

Within an hour nothing changes for a function that reads hours: it is computed once for each hour that there is, and where
hours begin is found by search. Times ascend in dictionaries, and in raw columns whose rows do. Fields are those of UTC.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from gamay.base.arrays import Array, Mask
from gamay.functions.evaluate import evaluate_entries
from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.vector import Vector
from gamay.model.types import DataType
from gamay.query.columns.operations import truth
from gamay.query.view.docset import DocFlags, DocRange, DocSet
from gamay.segment.spi import Column as SegmentColumn

_MINUTE_MS, _HOUR_MS, _DAY_MS = 60_000, 3_600_000, 86_400_000
_FIELDS = {"minute": _MINUTE_MS, "hour": _HOUR_MS} | dict.fromkeys(
    [
        "year",
        "quarter",
        "month",
        "monthofyear",
        "week",
        "weekofyear",
        "yearofweek",
        "yow",
        "dayofyear",
        "doy",
        "day",
        "dayofmonth",
        "dayofweek",
        "dow",
    ],
    _DAY_MS,
)
_UNITS = {"minute": _MINUTE_MS, "hour": _HOUR_MS} | dict.fromkeys(("day", "week", "month", "quarter", "year"), _DAY_MS)
# fewer times in each step, on average, are looked at as quickly one by one
_TIMES_PER_STEP = 8


Times: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class CalendarSteps:
    """Points in time, ascending, in steps within which an expression does not change.

    starts: what stands for each step, TIMESTAMP or LONG [n]; cuts: step i has the times [cuts[i], cuts[i + 1]), or none.
    """

    starts: Vector
    cuts: Array

    @property
    def counts(self) -> Array:
        """How many times are in each step."""
        return np.diff(self.cuts)


def calendar_steps(expression: Expression, data_type: DataType, times: Times) -> CalendarSteps | None:
    """Return the steps in which to compute an expression of one column; None where it must be computed for each time.

    times: ascending, perhaps with repeats.
    """
    if data_type not in (DataType.TIMESTAMP, DataType.LONG) or not len(times):
        return None
    step = _step(expression)
    if not step:
        return None
    first, last = int(times[0]) // step, int(times[-1]) // step
    if (last - first + 1) * _TIMES_PER_STEP > len(times):
        return None
    starts = np.arange(first, last + 1, dtype=np.int64) * step
    starts[0] = times[0]  # where it begins may be beyond 64 bits
    cuts = np.concatenate(([0], np.searchsorted(times, starts[1:]), [len(times)]))
    return CalendarSteps(Vector(data_type, starts), cuts)


def calendar_docs(condition: Expression, column: SegmentColumn) -> DocSet | None:
    """Return the rows for which a condition on one column holds; None where it must be tested row by row.

    Raises what the condition raises.
    """
    times = None if column.sorted_values is None else column.sorted_values.in_memory()
    steps = None if times is None else calendar_steps(condition, column.data_type, times)
    if steps is None:
        return None
    holds, cuts = _holds(condition, steps), steps.cuts
    changes = np.flatnonzero(np.diff(np.concatenate(([False], holds, [False]))))  # where runs of True begin and end
    begins, ends = cuts[changes[::2]].tolist(), cuts[changes[1::2]].tolist()
    if len(begins) <= 1:
        return DocRange(begins[0], ends[0]) if begins else DocRange(0, 0)
    mask = np.zeros(column.num_docs, np.bool_)
    for begin, end in zip(begins, ends, strict=True):
        mask[begin:end] = True
    return DocFlags(mask, sum(ends) - sum(begins))


def calendar_entries(condition: Expression, entries: Vector) -> Mask | None:
    """Return for which entries of an ascending dictionary a condition holds; None where each must be tested."""
    steps = calendar_steps(condition, entries.type, entries.values) if entries.ascends else None
    return None if steps is None else np.repeat(_holds(condition, steps), steps.counts)


def _holds(condition: Expression, steps: CalendarSteps) -> Mask:
    return truth(evaluate_entries(condition, steps.starts), len(steps.starts))


def _step(expression: Expression) -> int:
    """Return the milliseconds within which an expression does not change, 0 when that is not known; of constants, a day."""
    if isinstance(expression, Literal):
        return _DAY_MS
    if not isinstance(expression, Call):
        return 0
    name, args = expression.name, expression.args
    if any(isinstance(arg, Column) for arg in args):
        if len(args) == 1:
            return _FIELDS.get(name, 0)
        unit = args[0]
        is_cut = name == "datetrunc" and len(args) == 2 and isinstance(unit, Literal) and isinstance(unit.value, str)
        return _UNITS.get(str(unit.value).lower(), 0) if is_cut and isinstance(unit, Literal) else 0
    return min(map(_step, args)) if name in _ELEMENTWISE else 0


_ELEMENTWISE = frozenset(
    [
        "equals",
        "notequals",
        "lessthan",
        "lessthanorequal",
        "greaterthan",
        "greaterthanorequal",
        "between",
        "in",
        "notin",
        "and",
        "or",
        "not",
        "plus",
        "minus",
        "times",
        "mod",
    ]
)
