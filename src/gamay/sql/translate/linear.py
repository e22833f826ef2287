"""Aggregates of a column and a constant, `sum(a + 1)`, as aggregates of the column alone.

| written                    | equals                           |
| -------------------------- | -------------------------------- |
| `sum(a + 2)`, `sum(2 + a)` | `add(sum(a), mult(2, count(a)))` |
| `sum(2 - a)`               | `sub(mult(2, count(a)), sum(a))` |
| `avg(a - 2)`               | `sub(avg(a), 2)`                 |
| `min(2 - a)`               | `sub(2, max(a))`                 |
| `max(a * -2)`              | `mult(min(a), -2)`               |

Only the names of result columns show this form; `gamay.query.bind.aggregates` decides which are computed in this way.
"""

from decimal import Decimal

from gamay.functions.expression import Call, Column, Expression, Literal

_OPERATIONS = {"plus": "add", "add": "add", "minus": "sub", "sub": "sub", "times": "mult", "mult": "mult"}
_TURNED = {"sum": "sum", "avg": "avg", "min": "max", "max": "min"}


def linear_form(expression: Expression) -> Call | None:
    """Rewrite SUM, AVG, MIN or MAX of `column ± constant`, `constant ± column` or `column * constant` to one of the column
    alone.

    Returns None for every other expression, including `sum(2 * a)`.
    """
    if not isinstance(expression, Call) or expression.name not in _TURNED or len(expression.args) != 1:
        return None
    inner = expression.args[0]
    operation = _OPERATIONS.get(inner.name) if isinstance(inner, Call) and len(inner.args) == 2 else None
    if operation is None or not isinstance(inner, Call):
        return None
    left, right = inner.args
    if isinstance(left, Column) and _is_number(right):
        column, constant = left, right
    elif operation != "mult" and _is_number(left) and isinstance(right, Column):
        column, constant = right, left
    else:
        return None
    is_subtracted = operation == "sub" and column is right
    turns = is_subtracted or (operation == "mult" and _is_negative(constant))
    aggregate = Call(_TURNED[expression.name] if turns else expression.name, (column,))
    if expression.name == "sum" and operation != "mult":
        constant = Call("mult", (constant, Call("count", (column,))))
    return Call(operation, (constant, aggregate) if is_subtracted else (aggregate, constant))


def _is_number(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.type.is_numeric


def _is_negative(constant: Expression) -> bool:
    return isinstance(constant, Literal) and isinstance(constant.value, int | float | Decimal) and constant.value < 0
