"""Access to the rows of a column by range and by doc, common to both kinds of segments."""

from abc import ABC, abstractmethod

import numpy as np

from gamay.functions.vector import Vector, take
from gamay.kernels.encode.encoding import list_indices
from gamay.model.types import DataType
from gamay.segment.encode.forward import IdReader
from gamay.segment.encode.raw import RawReader
from gamay.segment.encode.storage_form import to_values
from gamay.segment.spi import Dictionary, DocIds, Ids


class ColumnRows(ABC):
    """The part of `segment.spi.Column` that reads rows; a subclass provides dictionary, ids, values and offsets."""

    name: str
    data_type: DataType
    single_value: bool
    has_forward: bool = True

    @property
    @abstractmethod
    def dictionary(self) -> Dictionary | None: ...
    @property
    @abstractmethod
    def _ids(self) -> IdReader: ...
    @property
    @abstractmethod
    def _raw(self) -> RawReader: ...
    @property
    @abstractmethod
    def _offsets(self) -> Ids: ...

    def ids(self, start: int, stop: int) -> Ids:
        """Return the dictionary ids of rows [start, stop), of all their values for a multi-value column."""
        return self._ids.range(*self._positions(start, stop))

    def offsets(self, start: int, stop: int) -> Ids:
        """Return the offsets of each row's values, starting with 0: int32 [stop - start + 1]."""
        offsets = self._offsets[start : max(start, stop) + 1]
        return offsets if start == 0 else offsets - offsets[0]

    def values(self, start: int, stop: int) -> Vector:
        """Return the values of rows [start, stop), decoded."""
        offsets = None if self.single_value else self.offsets(start, stop)
        dictionary = self.dictionary
        if dictionary is not None:
            return Vector(self.data_type, take(dictionary.values.values, self.ids(start, stop)), offsets)
        stored = self._raw.range(*self._positions(start, stop))
        return Vector(self.data_type, to_values(stored, self.data_type), offsets)

    def ids_at(self, docs: DocIds) -> Ids:
        """Return the ids of single-value rows `docs`, ascending."""
        if not self.single_value:
            raise ValueError(f"column '{self.name}' is multi-value; use values_at")
        return self._ids.at(docs)

    def values_at(self, docs: DocIds) -> Vector:
        """Return the values of rows `docs` (ascending), decoded; multi-value rows come with offsets."""
        offsets = None
        positions: Ids = docs
        if not self.single_value:
            offsets, positions = self._value_positions(docs)
        dictionary = self.dictionary
        if dictionary is not None:
            return Vector(self.data_type, take(dictionary.values.values, self._ids.at(positions)), offsets)
        return Vector(self.data_type, to_values(self._raw.at(positions), self.data_type), offsets)

    def stored_at(self, docs: Ids) -> tuple[Ids, "Ids | None"]:
        """Return the dictionary ids of rows `docs` (ascending), or a raw column's values in stored form, and the offsets of
        multi-value rows.
        """
        offsets, positions = (None, docs) if self.single_value else self._value_positions(docs)
        return (self._raw if self.dictionary is None else self._ids).at(positions), offsets

    def _positions(self, start: int, stop: int) -> tuple[int, int]:
        """Return the range of positions of the values of rows [start, stop)."""
        if self.single_value:
            return start, stop
        return int(self._offsets[start]), int(self._offsets[max(start, stop)])

    def _value_positions(self, docs: DocIds) -> tuple[Ids, Ids]:
        """Return (int32 offsets [n + 1], int32 positions of all values) of multi-value rows `docs`."""
        rows = np.asarray(docs, np.int64)
        starts, ends = self._offsets[rows], self._offsets[rows + 1]
        offsets = np.zeros(len(rows) + 1, np.int32)
        np.cumsum(ends - starts, out=offsets[1:])
        positions = np.empty(offsets[-1], np.int32)
        list_indices(starts, ends, positions)
        return offsets, positions
