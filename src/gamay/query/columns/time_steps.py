"""Steps of time within which an expression does not change: `hour(ts) >= 18` is the same for all times of an hour.

So it is computed once for each step that there is, not for each time. Units are those of UTC.
"""

from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.registry import scalar_function
from gamay.functions.scalar.time.dates import UNIT_MS
from gamay.functions.scalar.time.time_units import unit_read
from gamay.model.types import DataType

_DAY_MS = UNIT_MS["DAY"]
STEPPED = frozenset({DataType.TIMESTAMP, DataType.LONG})
"""The types of columns that may be of times."""


def step_ms(expression: Expression, least: int) -> int:
    """Return the milliseconds of the steps of an expression of one column of times, or none; 0 where it has no steps.

    Steps begin at multiples of their length, counted from 1970. least: of the column's values. Those of constants are days.
    """
    if isinstance(expression, Literal):
        return _DAY_MS
    if not isinstance(expression, Call):
        return 0
    if any(isinstance(arg, Column) for arg in expression.args):
        read = unit_read(expression)
        if read is None or (read.since_epoch and least < 0):
            return 0
        return min(UNIT_MS.get(read.unit, _DAY_MS), _DAY_MS)  # longer units are of whole days
    function = scalar_function(expression.name)
    is_sure = function is not None and function.is_deterministic
    return min((step_ms(arg, least) for arg in expression.args), default=_DAY_MS) if is_sure else 0
