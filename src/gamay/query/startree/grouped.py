"""Few records of the cuboids of several segments, grouped together: one numbering of groups, one pass for each aggregate.

Grouping them segment by segment, each with its own dictionaries, states and partials that are merged afterwards, would take
many times as long as reading them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias
from weakref import ref

import numpy as np

from gamay.functions.aggregate.coding import HashNumbers
from gamay.functions.aggregate.spi import Aggregate, Partial
from gamay.functions.vector import EncodedVector, Vector
from gamay.query.bind import BoundQuery
from gamay.query.groupby.numbering import unpack
from gamay.query.groupby.states import is_narrow
from gamay.query.groupby.table import GroupTable
from gamay.query.startree.choose import Choice
from gamay.query.startree.lookup import Found
from gamay.query.startree.stored_partials import StoredPartials, StoredTotals, TotalsOfRecords, totals_at
from gamay.segment.dictionary import SortedDictionary, sort_distinct
from gamay.segment.storage_form import to_values

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Piece: TypeAlias = tuple[Choice, Found]
"""A cuboid and those of its records that are read."""

_KEPT_VALUES_MAX = 1 << 20
_PACKED_MAX = 1 << 62
# states of more than a few numbers are kept for so many groups at most
_WIDE_RECORDS_MAX = 1 << 8


@dataclass(frozen=True, slots=True)
class _Common:
    """One dictionary for several. ids: for each of those, its ids by their own; None where they are the same.

    of: those dictionaries, which need not live any longer.
    """

    of: tuple["ref[SortedDictionary]", ...]
    values: Vector
    ids: tuple[Array, ...] | None


_common: dict[tuple[int, ...], _Common] = {}


def fit_together(bound: BoundQuery, pieces: Sequence[Piece]) -> bool:
    """Whether records can be grouped together: by dimensions that have not too many values, few where states are large."""
    num_records = 0
    widths = [1] * len(bound.rows)
    for choice, found in pieces:
        num_records += found.count
        if not choice.has_short_keys:
            return False
        for place, dictionary in enumerate(choice.key_dictionaries):
            widths[place] += len(dictionary)
    if prod(widths) >= _PACKED_MAX:
        return False
    return num_records <= _WIDE_RECORDS_MAX or all([is_narrow(call.aggregate) for call in bound.aggregates])


def group_records(pieces: Sequence[Piece], num_keys: int) -> GroupTable:
    """Return the groups of records, at least one piece of them, in the order in which they come; they fit together."""
    pieces = [piece for piece in pieces if piece[1].count] or pieces[:1]
    if not num_keys:
        return GroupTable((), _partials(pieces, None, 1), 1)
    dictionaries, codes = zip(*(_codes(pieces, place) for place in range(num_keys)), strict=True)
    widths = [len(dictionary) for dictionary in dictionaries]
    packed = codes[0].astype(np.int64)
    for width, part in zip(widths[1:], codes[1:], strict=True):
        packed = packed * width + part
    numbers = HashNumbers()
    groups = numbers.number(packed).view(np.uint32)
    keys = tuple(
        [
            EncodedVector(part.astype(np.uint32), dictionary)
            for part, dictionary in zip(unpack(numbers.keys, widths), dictionaries, strict=True)
        ]
    )
    return GroupTable(keys, _partials(pieces, groups, numbers.count), numbers.count)


def _codes(pieces: Sequence[Piece], place: int) -> tuple[Vector, Array]:
    """Return the dictionary of a key, and the key of each record by it."""
    parts = [choice.key_ids[place][found.docs] for choice, found in pieces]
    if len(pieces) == 1:
        return pieces[0][0].key_dictionaries[place].values, parts[0]
    common = _common_dictionary([choice.key_dictionaries[place] for choice, _ in pieces])
    if common.ids is not None:
        parts = [ids[part] for ids, part in zip(common.ids, parts, strict=True)]
    return common.values, np.concatenate(parts)


def _common_dictionary(dictionaries: Sequence[SortedDictionary]) -> _Common:
    key = tuple(map(id, dictionaries))
    kept = _common.get(key)
    if kept is not None and all(one() is other for one, other in zip(kept.of, dictionaries, strict=True)):
        return kept
    if sum(len(common.values) for common in list(_common.values())) > _KEPT_VALUES_MAX:
        _common.clear()
    first = dictionaries[0]
    stored, ids = sort_distinct([dictionary.stored for dictionary in dictionaries], first.data_type)
    refs = tuple(map(ref, dictionaries))
    if all(len(dictionary) == len(stored) for dictionary in dictionaries):
        made = _Common(refs, first.values, None)
    else:
        values = Vector(first.data_type, to_values(stored, first.data_type), derived={}, ascends=True)
        made = _Common(refs, values, tuple([part.astype(np.uint32) for part in ids]))
    _common[key] = made
    return made


def _partials(pieces: Sequence[Piece], groups: Array | None, num_groups: int) -> tuple[Partial, ...]:
    calls = range(len(pieces[0][0].aggregates))
    return tuple([_partial([c.aggregates[call] for c, _ in pieces], pieces, groups, num_groups) for call in calls])


def _partial(aggregates: Sequence[Aggregate], pieces: Sequence[Piece], groups: Array | None, num_groups: int) -> Partial:
    first = aggregates[0]
    if isinstance(first, StoredTotals):
        fields = totals_at([(one, found.docs) for one, (_, found) in zip(aggregates, pieces, strict=True)])
        state = TotalsOfRecords(fields, num_groups)
        state.add(groups, fields)
        return first.seal(state)
    partials, start = [], 0
    for aggregate, (_, found) in zip(aggregates, pieces, strict=True):
        assert isinstance(aggregate, StoredPartials)
        part = None if groups is None else groups[start : start + found.count]
        partials.append(aggregate.merged(found.numbers(), part, num_groups))
        start += found.count
    return partials[0] if len(partials) == 1 else first.merge(partials, [np.arange(num_groups, dtype=np.int32)] * len(partials), num_groups)
