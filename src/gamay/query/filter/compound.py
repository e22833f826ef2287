"""Predicates of a conjunction that a compound index answers together, as each alone would by an inverted index."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from pyroaring import BitMap

from gamay.query.bind.predicate import Filter, In, Range
from gamay.query.filter.entries import compared_ids
from gamay.segment.spi import Column, Ids, SecondaryIndex, Segment


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """Predicates, one for each column of an index. docs: the rows for which all hold; index: what has told, for EXPLAIN."""

    leaves: tuple[In | Range, ...]
    docs: BitMap
    index: str


def taken_together(
    parts: Sequence[Filter], segment: Segment, skips: Callable[[Column, str], bool], combinations_max: int
) -> Sequence[Filter | Together]:
    """Return the parts of a conjunction, those as one, and first, that an index of several columns answers together.

    skips: whether the query does without an index of a column, by its kind. combinations_max: so many combinations of ids
    are looked up; where there are more, each predicate is left to itself.
    """
    leaves: dict[str, In | Range] = {}
    indexes: dict[SecondaryIndex, None] = {}
    for part in parts:
        if isinstance(part, In | Range) and part.column not in leaves:
            leaves[part.column] = part
            for index in segment.column(part.column).indexes:
                if index.combines:
                    indexes[index] = None
    if not indexes:
        return parts
    found: list[Filter | Together] = []
    for index in sorted(indexes, key=lambda index: -len(index.combines)):
        if all(column in leaves for column in index.combines):
            own = tuple(leaves[column] for column in index.combines)
            columns = [segment.column(column) for column in index.combines]
            if any(skips(column, index.kind) for column in columns):
                continue
            ids = _ids(own, columns, combinations_max)
            docs = None if ids is None else index.combined(ids)
            if docs is not None:
                found.append(Together(own, docs, f"{index.kind}_index"))
                for column in index.combines:
                    del leaves[column]
    taken = {id(leaf) for one in found if isinstance(one, Together) for leaf in one.leaves}
    return [*found, *(part for part in parts if id(part) not in taken)]


def _ids(leaves: Sequence[In | Range], columns: Sequence[Column], combinations_max: int) -> tuple[Ids, ...] | None:
    """Return the ids of the values that satisfy each predicate; None of too many, and where one decides nothing or all."""
    ids: list[Ids] = []
    for leaf, column in zip(leaves, columns, strict=True):
        dictionary = column.dictionary
        assert dictionary is not None
        own = compared_ids(leaf, dictionary)
        count = own[1] - own[0] if isinstance(own, tuple) else len(own)
        if count in (0, len(dictionary)) or count > combinations_max:
            return None
        ids.append(np.arange(*own, dtype=np.int32) if isinstance(own, tuple) else own)
    return tuple(ids) if prod(map(len, ids)) <= combinations_max else None
