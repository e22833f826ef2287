"""Predicates of one column with literals: `a = 1`, `a BETWEEN 1 AND 2`, `a IN (1, 2)`."""

from collections.abc import Sequence

from gamay.functions.expression import Expression, Literal
from gamay.model.types import DataType
from gamay.query.bind.coerce import coerce_each_equal, coerce_equal, coerce_lower, coerce_upper
from gamay.query.bind.predicate import NOTHING, Filter, In, Range, negation

# comparisons, with their equivalents for exchanged operands
MIRRORED = {
    "equals": "equals",
    "notequals": "notequals",
    "lessthan": "greaterthan",
    "lessthanorequal": "greaterthanorequal",
    "greaterthan": "lessthan",
    "greaterthanorequal": "lessthanorequal",
}


def literal_predicate(name: str, column: str, data_type: DataType, operands: Sequence[Expression]) -> Filter | None:
    """Return the predicate of a function call on a column, with the literals in the column's type.

    name: of the function; operands: its arguments after the column. None if these are not literals, or for other functions.
    Raises QueryError if a literal cannot be compared with the column.
    """
    literals = [operand for operand in operands if isinstance(operand, Literal)]
    if not literals or len(literals) != len(operands):
        return None
    if name in MIRRORED and len(literals) == 1:
        return _comparison(name, column, data_type, literals[0])
    if name == "between" and len(literals) == 2:
        return _between(column, data_type, literals)
    if name in ("in", "notin"):
        values = dict.fromkeys(coerce_each_equal(literals, data_type, column))
        values.pop(None, None)
        found: Filter = In(column, tuple(values)) if values else NOTHING
        return found if name == "in" else negation(found)
    return None


def _comparison(name: str, column: str, data_type: DataType, literal: Literal) -> Filter:
    if name in ("equals", "notequals"):
        value = coerce_equal(literal, data_type, column)
        equal: Filter = NOTHING if value is None else In(column, (value,))
        return equal if name == "equals" else negation(equal)
    inclusive = name.endswith("orequal")
    if name.startswith("less"):
        upper, inclusive = coerce_upper(literal, data_type, column, inclusive)
        return Range(column, None, upper, False, inclusive)
    lower, inclusive = coerce_lower(literal, data_type, column, inclusive)
    return Range(column, lower, None, inclusive, False)


def _between(column: str, data_type: DataType, literals: Sequence[Literal]) -> Filter:
    lower, lower_inclusive = coerce_lower(literals[0], data_type, column, True)
    upper, upper_inclusive = coerce_upper(literals[1], data_type, column, True)
    return bounded(Range(column, lower, upper, lower_inclusive, upper_inclusive))


def union(sets: Sequence[In]) -> In:
    """Return the union of sets of one column."""
    if len(sets) == 1:
        return sets[0]
    values = tuple(dict.fromkeys(value for one in sets for value in one.values))
    return In(sets[0].column, values)


def bounded(filter_: Range) -> Filter:
    """Return the range, or NOTHING if its bounds exclude every value."""
    lower, upper = filter_.lower, filter_.upper
    if lower is not None and upper is not None:
        if lower > upper or (lower == upper and not (filter_.lower_inclusive and filter_.upper_inclusive)):  # type: ignore[operator]
            return NOTHING
        if lower == upper:
            return In(filter_.column, (lower,))
    return filter_
