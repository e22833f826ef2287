"""Merges conditions on one column in a conjunction.

`x >= 3 AND x < 9` is one range, `x IN (1, 2, 3) AND x <> 2` one set, `x < 3 AND x > 9` nothing. Merged conditions need not
be looked up or scanned. Rows of a multi-value column can satisfy conditions with different values, so these are not merged.
"""

from collections.abc import Callable, Sequence

from gamay.functions.expression import LiteralValue
from gamay.query.bind.literal_predicates import bounded, union
from gamay.query.bind.predicate import NOTHING, And, Constant, Filter, In, Not, Range, conjunction, negation


def merged_conjunction(parts: Sequence[Filter], is_multi_value: Callable[[str], bool]) -> Filter:
    """Return the conjunction of filters; ranges and sets of one single-value column are merged."""
    first = parts[0] if parts else None
    if len(parts) > 1 and isinstance(first, Range) and not is_multi_value(first.column):
        same_column = [part for part in parts if isinstance(part, Range) and part.column == first.column]
        if len(same_column) == len(parts):  # the most frequent case: a time range
            return _intersection(same_column)
    filter_ = conjunction(parts)
    tests: dict[str, list[Filter]] = {}
    rest: list[Filter] = []
    for part in filter_.parts if isinstance(filter_, And) else (filter_,):
        leaf = part.part if isinstance(part, Not) else part
        if isinstance(leaf, In | Range) and not is_multi_value(leaf.column):
            tests.setdefault(leaf.column, []).append(part)
        else:
            rest.append(part)
    if all(len(same) == 1 for same in tests.values()):
        return filter_
    return conjunction([*(part for same in tests.values() for part in _merged(same)), *rest])


def _merged(parts: list[Filter]) -> list[Filter]:
    """Merge predicates on one column, or their complements."""
    if len(parts) == 1:
        return parts
    ranges = [part for part in parts if isinstance(part, Range)]
    sets = [part for part in parts if isinstance(part, In)]
    within = _intersection(ranges) if ranges else None
    first = sets[0] if sets else within
    if isinstance(within, Constant):
        return [NOTHING]
    if isinstance(first, In):
        tests = [_test(part) for part in parts if part is not first]
        values = tuple(value for value in first.values if all(test(value) for test in tests))
        return [In(first.column, values)] if values else [NOTHING]
    left_out = [part.part for part in parts if isinstance(part, Not) and isinstance(part.part, In)]
    others = [part for part in parts if isinstance(part, Not) and isinstance(part.part, Range)]
    excluded = union(left_out) if left_out else None
    if isinstance(within, Range):
        return [*(_without(within, excluded) if excluded else [within]), *others]
    return [*([negation(excluded)] if excluded else []), *others]


def _without(within: Range, excluded: In) -> list[Filter]:
    """Return the filters for a range without some values, of which only those within it matter."""
    column, lower, upper = within.column, within.lower, within.upper
    open_ = Range(
        column,
        lower,
        upper,
        within.lower_inclusive and lower not in excluded.values,
        within.upper_inclusive and upper not in excluded.values,
    )
    inside = tuple(value for value in excluded.values if _test(open_)(value))
    return [open_, negation(In(column, inside))] if inside else [open_]


def _test(part: Filter) -> Callable[[LiteralValue], bool]:
    """Return a function that tests whether a value satisfies a predicate, or the complement of one."""
    if isinstance(part, Not):
        inner = _test(part.part)
        return lambda value: not inner(value)
    if isinstance(part, In):
        return frozenset(part.values).__contains__
    assert isinstance(part, Range)
    return lambda value: _is_within(value, part)


def _is_within(value: LiteralValue, within: Range) -> bool:
    lower, upper = within.lower, within.upper
    above = lower is None or value > lower or (within.lower_inclusive and value == lower)  # type: ignore[operator]
    return above and (upper is None or value < upper or (within.upper_inclusive and value == upper))  # type: ignore[operator]


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
    return bounded(merged)


def _tighter(one: tuple[LiteralValue, bool], other: tuple[LiteralValue, bool], *, upward: bool) -> tuple[LiteralValue, bool]:
    if one[0] is None or other[0] is None:
        return other if one[0] is None else one
    if one[0] == other[0]:
        return one[0], one[1] and other[1]
    return one if (one[0] > other[0]) == upward else other  # type: ignore[operator]
