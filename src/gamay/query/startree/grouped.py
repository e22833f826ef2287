"""A few records of the cuboids of several segments, grouped together: one numbering of groups, one pass for each aggregate.

Grouping them segment by segment, each with its own dictionaries, states and partials that are merged afterwards, would take
many times as long as reading them.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.aggregate.distinct.coding import HashNumbers
from gamay.functions.aggregate_spi import Aggregate, Partial
from gamay.kernels.rows.records import pack_records
from gamay.query.bind.binder import BoundQuery
from gamay.query.groupby.states import is_narrow
from gamay.query.groupby.stored_partials import StoredPartials, StoredTotals, totals_of
from gamay.query.groupby.table import GroupTable
from gamay.query.startree.choose import Choice
from gamay.query.startree.dictionaries import CODES_MAX, SHORT_MAX, bits_of, coding_of
from gamay.query.startree.lookup import Found

Piece: TypeAlias = tuple[Choice, Found]
"""A cuboid and its records to read."""

_PACKED_BITS = 63
# the most groups for states of more than a few numbers
_WIDE_RECORDS_MAX = 1 << 8


def fit_together(bound: BoundQuery, pieces: Sequence[Piece]) -> bool:
    """Whether records can be grouped together: all dimensions have few values, and large states have few groups."""
    num_codes = num_records = 0
    for choice, found in pieces:
        if not choice.has_short_keys:
            return False
        num_codes += choice.num_codes
        num_records += found.count
    if num_codes > CODES_MAX or len(bound.rows) * bits_of(min(SHORT_MAX * len(pieces), num_codes)) > _PACKED_BITS:
        return False
    return num_records <= _WIDE_RECORDS_MAX or all(is_narrow(call.aggregate) for call in bound.aggregates)


def group_records(pieces: Sequence[Piece], num_keys: int) -> GroupTable:
    """Return the groups of the records of at least one piece, in order of appearance; the pieces must fit together."""
    pieces = [piece for piece in pieces if piece[1].count] or pieces[:1]
    if not num_keys:
        return GroupTable((), _partials(pieces, None, 1), 1)
    coding = coding_of([choice for choice, _ in pieces])
    packed, start = np.empty(sum([found.count for _, found in pieces]), np.int64), 0
    for (choice, found), codes, starts in zip(pieces, coding.codes, coding.starts, strict=True):
        out = packed[start : start + found.count]
        pack_records(choice.cuboid.records.ids, found.numbers(), choice.key_places, codes, starts, out)
        start += found.count
    numbers = HashNumbers()
    groups = numbers.number(packed).view(np.uint32)
    return GroupTable(coding.keys(numbers.keys), _partials(pieces, groups, numbers.count), numbers.count)


def _partials(pieces: Sequence[Piece], groups: Array | None, num_groups: int) -> tuple[Partial, ...]:
    calls = range(len(pieces[0][0].aggregates))
    return tuple([_partial([c.aggregates[call] for c, _ in pieces], pieces, groups, num_groups) for call in calls])


def _partial(aggregates: Sequence[Aggregate], pieces: Sequence[Piece], groups: Array | None, num_groups: int) -> Partial:
    first = aggregates[0]
    if isinstance(first, StoredTotals):
        return totals_of([(one, found.docs) for one, (_, found) in zip(aggregates, pieces, strict=True)], groups, num_groups)
    partials, start = [], 0
    for aggregate, (_, found) in zip(aggregates, pieces, strict=True):
        assert isinstance(aggregate, StoredPartials)
        part = None if groups is None else groups[start : start + found.count]
        partials.append(aggregate.merged(found.numbers(), part, num_groups))
        start += found.count
    every = np.arange(num_groups, dtype=np.int32)
    return partials[0] if len(partials) == 1 else first.merge(partials, [every] * len(partials), num_groups)
