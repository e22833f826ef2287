"""Conditions on fields of points in time, `hour(ts) >= 18`, over a raw column whose rows ascend.

Within an hour nothing changes for a function that reads hours: the condition is tested once for each hour that there is,
and where hours begin is found by search. Fields are those of UTC.
"""

import numpy as np

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
# fewer rows in each step are tested as quickly one by one
_ROWS_PER_STEP = 64


def calendar_docs(condition: Expression, column: SegmentColumn) -> DocSet | None:
    """Return the rows for which a condition on one column holds; None where it must be tested row by row.

    Raises what the condition raises.
    """
    if column.data_type not in (DataType.TIMESTAMP, DataType.LONG) or column.sorted_values is None or not column.num_docs:
        return None
    step, times = _step(condition), column.sorted_values.in_memory()
    if not step or times is None:
        return None
    first, last = int(times[0]) // step, int(times[-1]) // step
    if (last - first + 1) * _ROWS_PER_STEP > column.num_docs:
        return None
    steps = np.arange(first, last + 1, dtype=np.int64) * step
    holds = truth(evaluate_entries(condition, Vector(column.data_type, steps)), len(steps))
    cuts = np.concatenate(([0], np.searchsorted(times, steps[1:]), [column.num_docs]))
    changes = np.flatnonzero(np.diff(np.concatenate(([False], holds, [False]))))  # where runs of True begin and end
    begins, ends = cuts[changes[::2]].tolist(), cuts[changes[1::2]].tolist()
    if len(begins) <= 1:
        return DocRange(begins[0], ends[0]) if begins else DocRange(0, 0)
    mask = np.zeros(column.num_docs, np.bool_)
    for begin, end in zip(begins, ends, strict=True):
        mask[begin:end] = True
    return DocFlags(mask, sum(ends) - sum(begins))


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
