"""One column of an immutable segment, over buffers of a memory-mapped file."""

from functools import cached_property

import numpy as np
from pyroaring import BitMap

from gamay.functions.vector import Vector, take
from gamay.kernels.encoding import list_indices
from gamay.segment.dictionary import SortedDictionary
from gamay.segment.format import BufferFile, BufferMeta
from gamay.segment.forward import IdReader, read_ids
from gamay.segment.index.bloom import BloomBits
from gamay.segment.index.inverted import RoaringInverted
from gamay.segment.index.null import read_nulls
from gamay.segment.index.range import BucketedRange
from gamay.segment.index.sorted import SortedStarts
from gamay.segment.metadata import ColumnMeta
from gamay.segment.raw import Chunked, PlainFixed, RawReader, read_raw
from gamay.segment.spi import DocIds, Ids, SortedValues
from gamay.segment.storage_form import fixed_dtype, to_values


class ImmutableColumn:
    """Implements `segment.spi.Column`; dictionary and indexes are opened when first asked for."""

    def __init__(self, meta: ColumnMeta, file: BufferFile, num_docs: int) -> None:
        self.meta = meta
        self.name = meta.name
        self.data_type = meta.data_type
        self.single_value = meta.single_value
        self.num_docs = num_docs
        self.stats = meta.stats
        self._file = file
        self._buffers: dict[str, BufferMeta] = dict(meta.buffers)

    @cached_property
    def dictionary(self) -> SortedDictionary | None:
        if not any(kind.startswith("dictionary.") for kind in self._buffers):
            return None
        return SortedDictionary.read(self._file, self._buffers, self.data_type)

    @cached_property
    def sorted_index(self) -> SortedStarts | None:
        return SortedStarts.read(self._file, self._buffers)

    @cached_property
    def sorted_values(self) -> SortedValues | None:
        """The values themselves, where they ascend and all have one width."""
        if not (self.stats.is_sorted and self.single_value) or self.dictionary is not None:
            return None
        raw = self._raw if fixed_dtype(self.data_type) is not None else None
        return raw if isinstance(raw, PlainFixed | Chunked) else None

    @cached_property
    def inverted_index(self) -> RoaringInverted | None:
        return RoaringInverted.read(self._file, self._buffers)

    @cached_property
    def range_index(self) -> BucketedRange | None:
        dtype = fixed_dtype(self.data_type)
        return BucketedRange.read(self._file, self._buffers, self._range_keys_at, self.dictionary, dtype)

    @cached_property
    def bloom_filter(self) -> BloomBits | None:
        return BloomBits.read(self._file, self._buffers, self.data_type)

    @cached_property
    def null_docs(self) -> BitMap | None:
        return read_nulls(self._file, self._buffers)

    @cached_property
    def _ids(self) -> IdReader:
        if self.meta.id_bits is None or self.meta.stats.cardinality is None:
            raise ValueError(f"column '{self.name}' has no dictionary, so it has no ids")
        return read_ids(self._file, self._buffers, self.meta.stats.cardinality, self.meta.id_bits)

    @cached_property
    def _raw(self) -> RawReader:
        return read_raw(self._file, self._buffers, self.data_type, self.meta.codec or "")

    @cached_property
    def _offsets(self) -> Ids:
        if self.single_value:
            raise ValueError(f"column '{self.name}' is single-value, so it has no offsets")
        return self._file.array(self._buffers["forward.offsets"], np.int32)

    def ids(self, start: int, stop: int) -> Ids:
        """Return the dictionary ids of rows [start, stop), of all their values for a multi-value column."""
        return self._ids.range(*self._positions(start, stop))

    def offsets(self, start: int, stop: int) -> Ids:
        """Return int32 [stop - start + 1], beginning with 0: where each row's values begin."""
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

    def _range_keys_at(self, docs: Ids) -> tuple[Ids, "Ids | None"]:
        """What the range index compares: ids, or a raw column's values, of rows `docs`."""
        offsets, positions = (None, docs) if self.single_value else self._value_positions(docs)
        return (self._raw if self.dictionary is None else self._ids).at(positions), offsets

    def _positions(self, start: int, stop: int) -> tuple[int, int]:
        """Where the values of rows [start, stop) lie."""
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
