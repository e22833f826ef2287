"""Compound inverted index: the docs of each combination of values of two or three single-value columns.

    combinations := u8 | u16 | u32 | u64 *, ascending, the narrowest for all possible ones: the combinations that occur; ids
                    a, b, c of columns with dictionaries of A, B, C entries have the number (a * B + b) * C + c
    docs.starts docs.counts docs.sets := the docs of each combination, see gamay.segment.index.bitmaps

If combinations rarely repeat, the index would be larger than its columns, and no more selective than an index of one of
them. It is then omitted, with a note.
"""

import logging
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import prod
from operator import mul
from pathlib import Path
from typing import Any

import numpy as np
from pyroaring import BitMap

from gamay.base.errors import InvalidConfigError
from gamay.model.index.kinds import COMPOUND_INVERTED
from gamay.segment.encode.checks import BufferChecker
from gamay.segment.encode.format import BufferMeta, BufferWriter
from gamay.segment.encode.forward import id_dtype
from gamay.segment.index.bitmaps import DocSets, docs_by_key, write_sets
from gamay.segment.secondary.files import read_buffers, write_buffers
from gamay.segment.spi import Ids, IndexSource, SecondaryIndex

_log = logging.getLogger(__name__)
_COMBINATIONS = "combinations"
_DOCS = "docs"
# Least average number of rows per combination for which the index is built.
_ROWS_MIN = 2
_NUMBERS_MAX = 1 << 63


class CompoundIndexType:
    """Implements `IndexType` for single-value columns with dictionaries."""

    kind = COMPOUND_INVERTED
    needs = None
    extra = None
    of_blocks = False
    is_portable = True

    def build(self, columns: Sequence[IndexSource], settings: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        cardinalities = _cardinalities(columns)
        named, num_docs = ", ".join(column.name for column in columns), columns[0].num_docs
        if prod(cardinalities) > _NUMBERS_MAX:
            return _left_out(named, f"{' x '.join(map(str, cardinalities))} combinations are beyond 63 bits")
        numbers, docs = _numbered([column.ids(0, num_docs) for column in columns], cardinalities)
        is_first = np.ones(num_docs, np.bool_)
        np.not_equal(numbers[1:], numbers[:-1], out=is_first[1:])
        starts = np.append(np.flatnonzero(is_first), num_docs)
        if (len(starts) - 1) * _ROWS_MIN > num_docs:
            return _left_out(named, f"{len(starts) - 1} combinations in {num_docs} rows hardly repeat")

        def write(writer: BufferWriter) -> list[BufferMeta]:
            return [writer.add(_COMBINATIONS, [numbers[starts[:-1]]]), *write_sets(writer, _DOCS, starts, docs)]

        return {"buffers": write_buffers(folder, write), "cardinalities": cardinalities}

    def open(
        self, folder: Path, content: Mapping[str, Any], columns: Sequence[IndexSource], settings: Mapping[str, Any]
    ) -> SecondaryIndex:
        if "buffers" not in content:
            return _NoIndex()
        file, buffers = read_buffers(folder, content["buffers"])
        cardinalities = content["cardinalities"]
        occurring = file.array(buffers[_COMBINATIONS], _dtype(cardinalities))
        names = tuple(column.name for column in columns)
        return CompoundIndex(names, cardinalities, occurring, DocSets(file, buffers, _DOCS))

    def check(self, folder: Path, content: Mapping[str, Any], columns: Sequence[IndexSource]) -> None:
        if "buffers" not in content:
            return
        file, buffers = read_buffers(folder, content["buffers"])
        cardinalities, num_docs = content["cardinalities"], columns[0].num_docs
        names = ", ".join(column.name for column in columns)
        checker = BufferChecker(file, buffers, f"{COMPOUND_INVERTED} index of {names}")
        checker.expect(_COMBINATIONS, cardinalities == _cardinalities(columns), "not of these dictionaries")
        occurring = checker.array(_COMBINATIONS, _dtype(cardinalities))
        checker.expect(_COMBINATIONS, (occurring[1:] > occurring[:-1]).all(), "combinations do not ascend")
        is_within = len(occurring) == 0 or int(occurring[-1]) < prod(cardinalities)
        checker.expect(_COMBINATIONS, is_within, "combinations beyond the dictionaries")
        checker.sets(_DOCS, len(occurring), num_docs)
        counts = checker.array(f"{_DOCS}.counts", np.int32)
        checker.expect(f"{_DOCS}.counts", int(counts.sum(dtype=np.int64)) == num_docs, "not one combination for each row")


def _cardinalities(columns: Sequence[IndexSource]) -> list[int]:
    found = [len(column.dictionary) for column in columns if column.single_value and column.dictionary is not None]
    if len(found) < len(columns):
        named = ", ".join(column.name for column in columns)
        raise InvalidConfigError(f"the {COMPOUND_INVERTED} index of {named} needs single-value columns with dictionaries")
    return found


def _left_out(columns: str, why: str) -> Mapping[str, Any]:
    _log.warning("there is no %s index of %s: %s", COMPOUND_INVERTED, columns, why)
    return {"note": f"left out: {why}"}


def _dtype(cardinalities: Sequence[int]) -> "np.dtype[np.unsignedinteger]":
    """Return the narrowest type for the numbers of all possible combinations."""
    could_be = prod(cardinalities)
    return np.dtype(np.uint64) if could_be > 1 << 32 else id_dtype(could_be)


def _factors(cardinalities: Sequence[int]) -> list[int]:
    """Return the factor of each column's id in the number of a combination."""
    return list(accumulate(reversed(cardinalities[1:]), mul, initial=1))[::-1]


def _numbered(ids: Sequence[Ids], cardinalities: Sequence[int]) -> tuple[Ids, Ids]:
    """Return the combination numbers of all docs, ascending, and these docs, uint32, ascending within each number."""
    docs: Ids | None = None
    for column, count in zip(reversed(ids), reversed(cardinalities), strict=True):
        _, places = docs_by_key(column if docs is None else column[docs], count, None)
        docs = places if docs is None else docs[places]
    assert docs is not None
    numbers = np.zeros(len(docs), _dtype(cardinalities))
    for column, count, factor in zip(ids, cardinalities, _factors(cardinalities), strict=True):
        if count > 1:  # else its ids are 0, and the factor may exceed the type
            numbers += column[docs].astype(numbers.dtype) * numbers.dtype.type(factor)
    return numbers, docs


class CompoundIndex(SecondaryIndex):
    """An open index: the docs of each combination of ids."""

    kind = COMPOUND_INVERTED

    def __init__(self, columns: tuple[str, ...], cardinalities: Sequence[int], occurring: Ids, docs: DocSets) -> None:
        """occurring: the numbers of the combinations, ascending; docs: of each of them."""
        self.combines = columns
        self._factors = _factors(cardinalities)
        self._occurring = occurring
        self._docs = docs

    def combined(self, ids: Sequence[Ids]) -> BitMap:
        occurring = self._occurring
        wanted: Ids | int = 0
        for of_column, factor in zip(ids, self._factors, strict=True):
            added = of_column.item() * factor if len(of_column) == 1 else of_column.astype(np.int64) * factor
            wanted = np.add.outer(wanted, added).ravel() if isinstance(added, np.ndarray) else wanted + added
        sought = np.array(wanted, occurring.dtype, ndmin=1)  # another type would convert all of `occurring`
        places = occurring.searchsorted(sought)
        places = places[places < len(occurring)]
        found = places[occurring[places] == sought[: len(places)]]
        return self._docs.union(found) if len(found) else BitMap()


class _NoIndex(SecondaryIndex):
    """Placeholder for an omitted index; it answers no query."""

    kind = COMPOUND_INVERTED


COMPOUND = CompoundIndexType()
