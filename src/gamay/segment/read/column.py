"""One column of an immutable segment, over buffers of a memory-mapped file."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from pyroaring import BitMap

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.frame import FramedVector
from gamay.functions.vector import Vector
from gamay.model.index.timestamp_index import MILLIS_SUFFIX
from gamay.model.types import DataType
from gamay.segment.encode.dictionary import SortedDictionary
from gamay.segment.encode.format import BufferFile, BufferMeta
from gamay.segment.encode.forward import AlignedIds, IdReader, SortedIds, read_ids
from gamay.segment.encode.frames import Framed
from gamay.segment.encode.metadata import ColumnMeta
from gamay.segment.encode.raw import Chunked, PlainFixed, RawReader, read_raw
from gamay.segment.encode.raw_blocks import Blocked
from gamay.segment.encode.storage_form import fixed_dtype
from gamay.segment.index.inverted import RoaringInverted
from gamay.segment.index.registry import BY_KEY
from gamay.segment.index.sorted import STARTS
from gamay.segment.read.rows import ColumnRows
from gamay.segment.spi import INVERTED, NULLS, SORTED, DocIds, Ids, IndexKey, SecondaryIndex, SortedValues, T
from gamay.segment.zones import Zones, zones_of


class ImmutableColumn(ColumnRows):
    """Implements `segment.spi.Column`; dictionary and indexes are opened on first use."""

    def __init__(
        self,
        meta: ColumnMeta,
        file: BufferFile,
        num_docs: int,
        *,
        indexes_of: Callable[[str], tuple[SecondaryIndex, ...]],
        reconstructs: bool = False,
    ) -> None:
        """indexes_of: opens the secondary indexes of a column by its name.

        reconstructs: if there is no forward index, read rows from the inverted index rather than raise.
        """
        self.meta = meta
        self.name = meta.name
        self.data_type = meta.data_type
        self.single_value = meta.single_value
        self.num_docs = num_docs
        self.stats = meta.stats
        self._file = file
        self._buffers: dict[str, BufferMeta] = dict(meta.buffers)
        self._indexes_of = indexes_of
        self._reconstructs = reconstructs
        self._opened: dict[IndexKey[Any], Any] = {}
        self.has_forward = meta.has_forward or STARTS in self._buffers or reconstructs

    def with_forward(self) -> "ImmutableColumn":
        """Return the column with readable rows: without a forward index, reconstructed from the inverted index."""
        if self.has_forward:
            return self
        return ImmutableColumn(self.meta, self._file, self.num_docs, indexes_of=self._indexes_of, reconstructs=True)

    @cached_property
    def indexes(self) -> tuple[SecondaryIndex, ...]:
        return self._indexes_of(self.name)

    @cached_property
    def millis(self) -> "ImmutableColumn":
        """Return a TIMESTAMP column as LONG, with the same rows and indexes under another name."""
        meta = replace(self.meta, name=self.name + MILLIS_SUFFIX, data_type=DataType.LONG)
        return ImmutableColumn(meta, self._file, self.num_docs, indexes_of=self._indexes_of)

    @cached_property
    def dictionary(self) -> SortedDictionary | None:
        if not any(kind.startswith("dictionary.") for kind in self._buffers):
            return None
        return SortedDictionary.read(self._file, self._buffers, self.data_type)

    def index(self, key: IndexKey[T]) -> T | None:
        found: T | None
        try:
            found = self._opened[key]
        except KeyError:
            has_it = any(kind.partition(".")[0] == key.name for kind in self._buffers)
            read = BY_KEY[key].read(self._file, self._buffers, self) if has_it else None
            found = self._opened.setdefault(key, read)
        return found

    @cached_property
    def sorted_values(self) -> SortedValues | None:
        """The raw values if they are fixed-width and ascend."""
        if not (self.stats.is_sorted and self.single_value) or self.dictionary is not None:
            return None
        raw = self._raw if fixed_dtype(self.data_type) is not None else None
        return raw if isinstance(raw, PlainFixed | Chunked) else None

    @cached_property
    def zones(self) -> Zones | None:
        """The bounds of ids or numbers by zone, if rows are not sorted but still clustered enough to be useful."""
        if not self.single_value or not self.has_forward or self.stats.is_sorted:
            return None
        if self.dictionary is not None:
            return zones_of(self.ids, self.num_docs)
        if not self.data_type.is_fixed_width or self.data_type is DataType.BOOLEAN:
            return None
        return zones_of(lambda start, stop: self.values(start, stop).values, self.num_docs)

    def values(self, start: int, stop: int) -> Vector:
        framed = self.framed
        return super().values(start, stop) if framed is None else framed.cut(start, max(start, stop))

    def values_at(self, docs: DocIds) -> Vector:
        framed = self.framed
        return super().values_at(docs) if framed is None else framed.at(docs)

    def ascii_lengths(self, start: int, stop: int) -> "Ids | None":
        """Return the lengths of the texts of rows [start, stop); None unless they are known to be all ASCII."""
        blocks = self._blocks
        return None if blocks is None else blocks.byte_lengths(start, stop)

    def ascii_lengths_at(self, docs: DocIds) -> "Ids | None":
        """Return what `ascii_lengths` returns, for rows `docs`, ascending."""
        blocks = self._blocks
        return None if blocks is None else blocks.byte_lengths_at(docs)

    @cached_property
    def _blocks(self) -> Blocked | None:
        is_plain = self.single_value and self.data_type.is_text and self.dictionary is None
        return self._raw if is_plain and isinstance(self._raw, Blocked) else None

    @cached_property
    def null_docs(self) -> BitMap | None:
        return self.index(NULLS)

    @cached_property
    def _ids(self) -> IdReader:
        if self.meta.id_bits is None or self.meta.stats.cardinality is None:
            raise ValueError(f"column '{self.name}' has no dictionary, so it has no ids")
        if self.meta.has_forward:
            return read_ids(self._file, self._buffers, self.meta.stats.cardinality, self.meta.id_bits)
        ascending = self.index(SORTED)
        return AlignedIds(self._rows[0]) if ascending is None else SortedIds(ascending.starts)

    @cached_property
    def _rows(self) -> "tuple[Ids, Ids | None]":
        inverted = self.index(INVERTED)
        if not self._reconstructs or not isinstance(inverted, RoaringInverted):
            raise QueryError(
                ErrorCode.QUERY_VALIDATION,
                f"Column '{self.name}' has no forward index (forwardIndexDisabled): the query can filter by it, but not "
                "read its values. Omit it, or enable its forward index and reload the table",
            )
        return inverted.rows(self.num_docs, single_value=self.single_value)

    @cached_property
    def _raw(self) -> RawReader:
        frame = self.meta.frame
        if frame is not None:
            return Framed.read(self._file, self._buffers, self.data_type, frame, self.stats.num_values)
        return read_raw(self._file, self._buffers, self.data_type, self.meta.codec or "")

    @cached_property
    def framed(self) -> FramedVector | None:
        """All values, if the column is single-value and in frame of reference; else None."""
        raw = self._raw if self.meta.frame is not None and self.single_value else None
        return raw.vector if isinstance(raw, Framed) else None

    @cached_property
    def _offsets(self) -> Ids:
        if self.single_value:
            raise ValueError(f"column '{self.name}' is single-value, so it has no offsets")
        if self.meta.has_forward:
            return self._file.array(self._buffers["forward.offsets"], np.int32)
        offsets = self._rows[1]
        assert offsets is not None
        return offsets
