"""Predicates on one column whose other operands are literals: `a = 1`, `a BETWEEN 1 AND 2`, `a IN (1, 2)`."""

from collections.abc import Callable, Sequence

from gamay.functions.expression import Expression, Literal, LiteralValue
from gamay.model.types import DataType
from gamay.query.bind.coerce import coerce_each_equal, coerce_equal, coerce_lower, coerce_upper
from gamay.query.bind.predicate import NOTHING, And, Filter, In, Range, conjunction, negation

# comparisons, and what each becomes when its operands change places
MIRRORED = {
    "equals": "equals",
    "notequals": "notequals",
    "lessthan": "greaterthan",
    "lessthanorequal": "greaterthanorequal",
    "greaterthan": "lessthan",
    "greaterthanorequal": "lessthanorequal",
}


def literal_predicate(name: str, column: str, data_type: DataType, operands: Sequence[Expression]) -> Filter | None:
    """Return the predicate that a function states of a column, with the literals in the column's type.

    name: of the function; operands: its arguments behind the column. None when these are not literals, or the function says
    something else. Raises QueryError when a literal cannot be compared with the column.
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
    return _range(Range(column, lower, upper, lower_inclusive, upper_inclusive))


def union(sets: Sequence[In]) -> In:
    """Return the predicate that holds where any of the sets of one column does."""
    if len(sets) == 1:
        return sets[0]
    values = tuple(dict.fromkeys(value for one in sets for value in one.values))
    return In(sets[0].column, values)


def conjunction_of_ranges(parts: Sequence[Filter], is_multi_value: Callable[[str], bool]) -> Filter:
    """Return the filter that holds when all parts do; ranges of one single-value column, `x >= 3 AND x < 9`, become one."""
    first = parts[0] if parts else None
    if len(parts) > 1 and isinstance(first, Range) and not is_multi_value(first.column):
        same_column = [part for part in parts if isinstance(part, Range) and part.column == first.column]
        if len(same_column) == len(parts):  # the most frequent: from one time on, and before another
            return _intersection(same_column)
    filter_ = conjunction(parts)
    ranges: dict[str, list[Range]] = {}
    rest: list[Filter] = []
    for part in filter_.parts if isinstance(filter_, And) else (filter_,):
        if isinstance(part, Range) and not is_multi_value(part.column):
            ranges.setdefault(part.column, []).append(part)
        else:
            rest.append(part)
    if all(len(same) == 1 for same in ranges.values()):
        return filter_
    return conjunction([*(_intersection(same) for same in ranges.values()), *rest])


def _intersection(ranges: Sequence[Range]) -> Filter:
    merged = ranges[0]
    for other in ranges[1:]:
        lower, lower_inclusive = _tighter(
            (merged.lower, merged.lower_inclusive), (other.lower, other.lower_inclusive), upward=True
        )
        upper, upper_inclusive = _tighter(
            (merged.upper, merged.upper_inclusive), (other.upper, other.upper_inclusive), upward=False
        )
        merged = Range(merged.column, lower, upper, lower_inclusive, upper_inclusive)
    return _range(merged)


def _tighter(one: tuple[LiteralValue, bool], other: tuple[LiteralValue, bool], *, upward: bool) -> tuple[LiteralValue, bool]:
    if one[0] is None or other[0] is None:
        return other if one[0] is None else one
    if one[0] == other[0]:
        return one[0], one[1] and other[1]
    return one if (one[0] > other[0]) == upward else other  # type: ignore[operator]


def _range(filter_: Range) -> Filter:
    """Return the range, or nothing when its bounds exclude every value."""
    lower, upper = filter_.lower, filter_.upper
    if lower is not None and upper is not None:
        if lower > upper or (lower == upper and not (filter_.lower_inclusive and filter_.upper_inclusive)):  # type: ignore[operator]
            return NOTHING
        if lower == upper:
            return In(filter_.column, (lower,))
    return filter_
