"""Keys of several segments as ids of one common dictionary.

Most segments of a table have the same few values of a group key. The mapping from each segment's ids to those of the common
dictionary is computed once for the same segments.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias
from weakref import ref

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.vector import EncodedVector, Vector
from gamay.query.groupby.numbering import unsigned_for
from gamay.query.view.matches import AllDocs, Block, DocList
from gamay.segment.encode.dictionary import SortedDictionary, sort_distinct
from gamay.segment.encode.storage_form import to_values
from gamay.segment.spi import Column, Dictionary, Segment

Pieces: TypeAlias = Sequence[tuple[Segment, Block]]
"""Rows of several segments, in order."""

# dictionaries with more values in total are not merged
_VALUES_MAX = 1 << 16
_UNIONS_MAX = 256
# the cached values are limited too: the segments that have rows differ between queries, and each choice has its own entry
_KEPT_VALUES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class _Union:
    """The merged values of several dictionaries. of: weak references to these. ids: the positions of their values in
    `values`."""

    of: "tuple[ref[Dictionary], ...]"
    values: Vector
    ids: tuple[Array, ...]


_unions: dict[tuple[int, ...], _Union] = {}


def coded(name: str, pieces: Pieces) -> EncodedVector | None:
    """Return a single-value column at the rows of all pieces as ids of one dictionary; None if there is no such dictionary.

    A merged dictionary is ascending.
    """
    columns = [segment.column(name) for segment, _ in pieces]
    dictionaries = [column.dictionary for column in columns]
    if len(columns) == 1:
        (column,), (only,) = columns, dictionaries
        return None if only is None else EncodedVector(_ids(column, pieces[0][1]), only.values)
    union = _union(dictionaries)
    if union is None:
        return None
    parts = [ids[_ids(column, block)] for ids, column, (_, block) in zip(union.ids, columns, pieces, strict=True)]
    return EncodedVector(np.concatenate(parts), union.values)


def _ids(column: Column, block: Block) -> Array:
    if isinstance(block, AllDocs):
        return column.ids(block.start, block.stop)
    assert isinstance(block, DocList)
    return column.ids_at(block.ids)


def _union(dictionaries: Sequence[Dictionary | None]) -> _Union | None:
    place = tuple(map(id, dictionaries))
    kept = _unions.get(place)
    if kept is not None and all(one() is other for one, other in zip(kept.of, dictionaries, strict=True)):
        return kept
    sorted_ones = [one for one in dictionaries if isinstance(one, SortedDictionary)]
    if len(sorted_ones) < len(dictionaries) or sum(map(len, sorted_ones)) > _VALUES_MAX:
        return None
    num_kept = sum([len(one.values) for one in list(_unions.values())])
    if len(_unions) >= _UNIONS_MAX or num_kept >= _KEPT_VALUES_MAX:
        _unions.clear()
    data_type = sorted_ones[0].data_type
    stored, ids = sort_distinct([one.stored for one in sorted_ones], data_type)
    values = Vector(data_type, to_values(stored, data_type), derived={}, ascends=True)
    narrow = tuple([part.astype(unsigned_for(len(stored))) for part in ids])
    made = _unions[place] = _Union(tuple(map(ref, sorted_ones)), values, narrow)
    return made
