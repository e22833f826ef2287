"""Merged conditions on one column hold for exactly the values that satisfy all of them."""

import math
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from gamay.functions.expression import Call, LiteralValue
from gamay.query.bind.one_column import merged_conjunction
from gamay.query.bind.predicate import (
    EVERYTHING,
    NOTHING,
    And,
    Constant,
    Filter,
    In,
    Not,
    Range,
    conjunction,
    negation,
)
from gamay.query.bind.predicate import (
    Test as RowTest,
)

NUMBERS = (-math.inf, -2.5, -1.0, -0.0, 0.0, 1.0, 1.5, 2.0, 3.0, math.inf, math.nan)
TEXTS = ("", "a", "ab", "b", "é", "\U0001f600", "\uffff")


def leaves(domain: Sequence[LiteralValue], column: str) -> st.SearchStrategy[Filter]:
    literals = st.sampled_from([value for value in domain if value == value])
    sets = st.lists(literals, min_size=1, max_size=4, unique=True).map(lambda values: In(column, tuple(values)))
    bounds = st.one_of(st.none(), literals)
    ranges = st.builds(Range, st.just(column), bounds, bounds, st.booleans(), st.booleans())
    either = st.one_of(sets, ranges.filter(lambda part: part.lower is not None or part.upper is not None))
    return st.one_of(either, either.map(negation))


def holds(filter_: Filter, row: dict[str, LiteralValue]) -> bool:
    match filter_:
        case Constant(matches):
            return matches
        case And(parts):
            return all(holds(part, row) for part in parts)
        case Not(part):
            return not holds(part, row)
        case In(column, values):
            return row[column] in values
        case Range(column, lower, upper, lower_inclusive, upper_inclusive):
            value = order(row[column])
            above = lower is None or value > order(lower) or (lower_inclusive and value == order(lower))
            below = upper is None or value < order(upper) or (upper_inclusive and value == order(upper))
            return above and below
    raise TypeError(filter_)


def order(value: LiteralValue) -> tuple[bool, LiteralValue]:
    """NaN is greater than all numbers; texts are ordered by their bytes."""
    if isinstance(value, str):
        return False, value.encode()
    return value != value, 0.0 if value != value else value


PARTS = st.lists(st.one_of(leaves(NUMBERS, "d"), leaves(TEXTS, "s")), min_size=1, max_size=5)


@given(PARTS)
def test_merged_conditions_hold_where_all_of_them_do(parts: list[Filter]) -> None:
    merged = merged_conjunction(parts, lambda name: False)
    for number in NUMBERS:
        for text in TEXTS:
            row = {"d": number, "s": text}
            assert holds(merged, row) == all(holds(part, row) for part in parts), (row, merged)
    left = merged.parts if isinstance(merged, And) else (merged,)
    for column in ("d", "s"):
        assert len([part for part in left if isinstance(part, In | Range) and part.column == column]) <= 1


@given(st.lists(leaves(TEXTS, "s"), min_size=1, max_size=4))
def test_a_row_with_several_values_may_satisfy_each_with_another(parts: list[Filter]) -> None:
    assert merged_conjunction(parts, lambda name: True) == conjunction(parts)


def test_what_contradicts_itself_is_nothing() -> None:
    one, other = In("a", (1, 2)), Range("a", 5, None, True, False)
    assert merged_conjunction([one, other], lambda name: False) == NOTHING
    assert merged_conjunction([In("a", (1,)), In("a", (2,))], lambda name: False) == NOTHING
    assert conjunction([one, EVERYTHING, negation(one)]) == NOTHING
    chance = RowTest(Call("rand", ()), ("a",))
    assert conjunction([chance, negation(chance)]) == And((chance, Not(chance)))
