"""Predicates that a compound index answers together: of a conjunction, or negated ones of a disjunction."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from pyroaring import BitMap

from gamay.query.bind.predicate import And, Filter, In, IsNull, Not, Range, conjunction, disjunction
from gamay.query.filter.entries import compared_ids
from gamay.segment.spi import Column, Ids, SecondaryIndex, Segment

# Up to this many combinations, uniting their docs is always faster than uniting the docs of each column's values and
# intersecting the results; so it is with a few times as many combinations as values (measured with 2 million rows).
_FEW = 64
_COMBINATIONS_PER_VALUE = 4


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """Predicates, one for each column of an index. ids: the matching dictionary ids of each."""

    leaves: tuple[In | Range, ...]
    index: SecondaryIndex
    ids: Sequence[Ids]

    @property
    def name(self) -> str:
        """The name of the index, for EXPLAIN."""
        return f"{self.index.kind}_index"

    def docs(self) -> BitMap:
        """Look up the rows that match all of them."""
        docs = self.index.combined(self.ids)
        assert docs is not None
        return docs


def taken_together(
    parts: Sequence[Filter], segment: Segment, skips: Callable[[Column, str], bool], combinations_max: int
) -> Sequence[Filter | Together]:
    """Return the parts of a conjunction; those that a compound index answers together become one part, which comes first.

    skips: whether the query disables a column's index, by its kind. combinations_max: the most combinations of ids to look
    up; if there are more, each predicate is answered separately.
    """
    compared = [part for part in parts if type(part) is In or type(part) is Range]
    indexes = {index: None for part in compared for index in segment.column(part.column).indexes if index.combines}
    if not indexes:
        return parts
    leaves = {part.column: part for part in reversed(compared)}  # if a column has several predicates, the first
    found: list[Together] = []
    for index in sorted(indexes, key=_num_columns, reverse=True):
        own = [leaves.get(column) for column in index.combines]
        together = _together(index, [leaf for leaf in own if leaf is not None], segment, skips, combinations_max)
        if together is not None:
            found.append(together)
            for column in index.combines:
                del leaves[column]
    taken = {id(leaf) for one in found for leaf in one.leaves}
    return [*found, *(part for part in parts if id(part) not in taken)]


def denied_together(
    parts: Sequence[Filter], segment: Segment, skips: Callable[[Column, str], bool], combinations_max: int
) -> Sequence[Filter]:
    """Return the parts of a disjunction, those as one whose denials an index of several columns knows together.

    A predicate L is denied as such, or where its column is not null (N) besides. That one of some L is denied is the
    complement of all (L or N): all L hold, or one N does and each of the others is L or N.
    """
    denied = {leaf: part for part in parts if (leaf := _denied(part)) is not None}
    if len(denied) < 2:
        return parts
    found = taken_together(list(denied), segment, skips, combinations_max)
    together = [one.leaves for one in found if isinstance(one, Together)]
    if not together:
        return parts
    taken = [denied[leaf] for leaves in together for leaf in leaves]
    return [
        *(part for part in parts if part not in taken),
        *(_all_but_nulls(leaves, [leaf.column for leaf in leaves if type(denied[leaf]) is And]) for leaves in together),
    ]


def _denied(part: Filter) -> In | Range | None:
    """Return the predicate that a part denies where it is, or is not null; None of other parts."""
    if type(part) is And and len(part.parts) == 2:
        first, second = part.parts
        leaf = _denied(first) if type(first) is Not else None
        return None if leaf is None or second != Not(IsNull(leaf.column)) else leaf
    return part.part if type(part) is Not and isinstance(part.part, In | Range) else None


def _all_but_nulls(leaves: Sequence[In | Range], nullable: Sequence[str]) -> Filter:
    """Return the filter of rows of which one of some predicates is denied, of a column `nullable` where it is not null."""
    hold_or_null = {
        leaf.column: disjunction([leaf, IsNull(leaf.column)]) if leaf.column in nullable else leaf for leaf in leaves
    }
    undecided = [
        conjunction([IsNull(name), *(part for column, part in hold_or_null.items() if column != name)]) for name in nullable
    ]
    return Not(disjunction([And(tuple(leaves)), *undecided]))


def _num_columns(index: SecondaryIndex) -> int:
    return len(index.combines)


def _together(
    index: SecondaryIndex,
    leaves: Sequence[In | Range],
    segment: Segment,
    skips: Callable[[Column, str], bool],
    combinations_max: int,
) -> Together | None:
    """Return the answer of an index to some predicates.

    None if a column has no predicate or one that matches no value or all, or if there are too many combinations.
    """
    if len(leaves) < len(index.combines):
        return None
    ids: list[Ids] = []
    room = combinations_max
    for leaf in leaves:
        column = segment.column(leaf.column)
        dictionary = column.dictionary
        if dictionary is None or skips(column, index.kind):
            return None
        own = compared_ids(leaf, dictionary)
        count = own[1] - own[0] if isinstance(own, tuple) else len(own)
        if count > room or count in (0, len(dictionary)):
            return None
        room //= count
        ids.append(np.arange(own[0], own[1], dtype=np.int32) if isinstance(own, tuple) else own)
    if not _is_worth_it([len(own) for own in ids]):
        return None
    return Together(tuple(leaves), index, ids)


def _is_worth_it(counts: Sequence[int]) -> bool:
    """Return whether looking up this many values of each column together is faster."""
    return prod(counts) <= max(_FEW, _COMBINATIONS_PER_VALUE * sum(counts))
