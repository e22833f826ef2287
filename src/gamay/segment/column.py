"""One column of an immutable segment, over buffers of a memory-mapped file."""

from functools import cached_property

import numpy as np
from pyroaring import BitMap

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
from gamay.segment.raw_blocks import Blocked
from gamay.segment.rows import ColumnRows
from gamay.segment.spi import DocIds, Ids, SortedValues
from gamay.segment.storage_form import fixed_dtype


class ImmutableColumn(ColumnRows):
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

    def ascii_lengths(self, start: int, stop: int) -> "Ids | None":
        """Return the lengths of the texts of rows [start, stop); None when they are not known to be ASCII throughout."""
        blocks = self._blocks
        return None if blocks is None else blocks.byte_lengths(start, stop)

    def ascii_lengths_at(self, docs: DocIds) -> "Ids | None":
        """Do what `ascii_lengths` does for rows `docs`, ascending."""
        blocks = self._blocks
        return None if blocks is None else blocks.byte_lengths_at(docs)

    @cached_property
    def _blocks(self) -> Blocked | None:
        is_plain = self.single_value and self.data_type.is_text and self.dictionary is None
        return self._raw if is_plain and isinstance(self._raw, Blocked) else None

    @cached_property
    def inverted_index(self) -> RoaringInverted | None:
        return RoaringInverted.read(self._file, self._buffers)

    @cached_property
    def range_index(self) -> BucketedRange | None:
        dtype = fixed_dtype(self.data_type)
        return BucketedRange.read(self._file, self._buffers, self.stored_at, self.dictionary, dtype)

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
