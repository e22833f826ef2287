"""Filters of bound queries: trees of predicates whose literals have the types of their columns.

A predicate on a multi-value column holds if any of the row's values satisfies it; `Not` is the exact complement, so `<>` and
NOT IN, which are bound as `Not` of `=` and IN, hold if no value is in the set.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gamay.functions.expression import Expression, LiteralValue


@dataclass(frozen=True, slots=True)
class Constant:
    """Matches every row, or none."""

    matches: bool


@dataclass(frozen=True, slots=True)
class And:
    """All parts hold; has at least two parts."""

    parts: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any part holds; has at least two parts."""

    parts: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: "Filter"


@dataclass(slots=True, unsafe_hash=True)  # not frozen: creation would take five times as long
class In:
    """The column's value is one of `values`, which are distinct, of the column's type, and at least one."""

    column: str
    values: tuple[LiteralValue, ...]


@dataclass(slots=True, unsafe_hash=True)  # not frozen: creation would take five times as long
class Range:
    """The column's value is between the bounds; None for no bound. NaN is greater than every number."""

    column: str
    lower: LiteralValue
    upper: LiteralValue
    lower_inclusive: bool
    upper_inclusive: bool


@dataclass(frozen=True, slots=True)
class IsNull:
    """The column is null in this row, according to its null vector."""

    column: str


@dataclass(frozen=True, slots=True)
class Match:
    """A deterministic boolean expression over one column, evaluated per value."""

    column: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Test:
    """A boolean expression over entire rows of `columns` (at least one)."""

    expression: Expression
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Near:
    """The column's vector is among the `count` nearest of its segment, or within `radius`; the other one is None.

    distance: one of `gamay.model.table.search_settings.DISTANCES`.
    """

    column: str
    vector: tuple[float, ...]
    distance: str
    count: int | None
    radius: float | None


Leaf: TypeAlias = In | Range | IsNull | Match | Test | Near
Filter: TypeAlias = Constant | And | Or | Not | Leaf

EVERYTHING = Constant(True)
NOTHING = Constant(False)


def negation(part: Filter) -> Filter:
    """Return the complement; double negations cancel."""
    if isinstance(part, Constant):
        return Constant(not part.matches)
    return part.part if isinstance(part, Not) else Not(part)


def conjunction(parts: Sequence[Filter]) -> Filter:
    """Return the conjunction of filters: flattened, without constants and duplicates."""
    flat = dict.fromkeys(inner for part in parts for inner in (part.parts if isinstance(part, And) else (part,)))
    if NOTHING in flat or any(_is_denied(part, flat) for part in flat if type(part) is Not):
        return NOTHING
    flat.pop(EVERYTHING, None)
    return And(tuple(flat)) if len(flat) > 1 else next(iter(flat), EVERYTHING)


def narrowed(where: Filter, clause: Filter) -> Filter:
    """Return the filter of the rows of WHERE that meet another condition as well.

    Nearest-neighbour searches are kept separate, since they search among the rows that meet the conditions beside them.
    """
    apart = [part if isinstance(part, And) else And((part,)) for part in (where, clause)]
    has_search = any(isinstance(part, Near) for whole in apart for part in whole.parts)
    return And(tuple(apart)) if has_search else conjunction([where, clause])


def _is_denied(part: Not, others: Container[Filter]) -> bool:
    """Whether a part is the complement of another one; not for expressions, since `rand() < 0.5` can change its value."""
    return not isinstance(part.part, Test) and part.part in others


def disjunction(parts: list[Filter]) -> Filter:
    """Return the disjunction of filters: flattened, without constants and duplicates."""
    flat = dict.fromkeys(inner for part in parts for inner in (part.parts if isinstance(part, Or) else (part,)))
    if EVERYTHING in flat:
        return EVERYTHING
    flat.pop(NOTHING, None)
    return Or(tuple(flat)) if len(flat) > 1 else next(iter(flat), NOTHING)


def filter_columns(filter_: Filter) -> list[str]:
    """Return the distinct names of the columns that a filter reads, in order of appearance."""
    if isinstance(filter_, And | Or):
        return list(dict.fromkeys(name for part in filter_.parts for name in filter_columns(part)))
    if isinstance(filter_, Not):
        return filter_columns(filter_.part)
    if isinstance(filter_, Test):
        return list(filter_.columns)
    return [] if isinstance(filter_, Constant) else [filter_.column]
