"""Time steps within which an expression is constant: `hour(ts) >= 18` has one value per hour.

So it is evaluated once per step instead of once per time. Units are in UTC.
"""

from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.registry import scalar_function
from gamay.functions.scalar.time.dates import UNIT_MS
from gamay.functions.scalar.time.time_units import unit_read
from gamay.model.types import DataType

_DAY_MS = UNIT_MS["DAY"]
STEPPED = frozenset({DataType.TIMESTAMP, DataType.LONG})
"""Types of columns that may hold times."""


def step_ms(expression: Expression, least: int) -> int:
    """Return the length in milliseconds of the steps of an expression of at most one time column; 0 if it has no steps.

    Steps begin at multiples of their length since 1970. least: of the column's values. Constants have steps of a day.
    """
    if isinstance(expression, Literal):
        return _DAY_MS
    if not isinstance(expression, Call):
        return 0
    if any(isinstance(arg, Column) for arg in expression.args):
        read = unit_read(expression)
        if read is None or (read.since_epoch and least < 0):
            return 0
        return min(UNIT_MS.get(read.unit, _DAY_MS), _DAY_MS)  # longer units are multiples of days
    function = scalar_function(expression.name)
    is_sure = function is not None and function.is_deterministic
    return min((step_ms(arg, least) for arg in expression.args), default=_DAY_MS) if is_sure else 0
