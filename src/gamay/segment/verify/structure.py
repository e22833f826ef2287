"""Checks of a column's buffers against its metadata, and against each other, at memory bandwidth.

The assumptions of readers and kernels are checked once, when a segment is pushed and when it is loaded: sizes that agree
with
the number of docs, offsets that ascend and stay inside, ids below the cardinality, dictionaries that ascend, sets of docs
within the segment. Compressed chunks are checked when they are decompressed (`gamay.segment.encode.raw`).
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.functions.frame import EXACT_MAX
from gamay.kernels.encode import bitpack
from gamay.model.types import DataType
from gamay.segment.encode.checks import BufferChecker
from gamay.segment.encode.format import BufferFile
from gamay.segment.encode.forward import id_dtype, packed_bits
from gamay.segment.encode.frames import FRAME, HIGH, LOW, PATCH_ROWS, PATCHES, WIDTHS, FrameMeta
from gamay.segment.encode.metadata import ColumnMeta, Encoding
from gamay.segment.encode.raw import COMPRESSIONS
from gamay.segment.encode.storage_form import decimals_of, fixed_dtype, to_python
from gamay.segment.index.inverted import SETS
from gamay.segment.index.registry import COLUMN_INDEXES
from gamay.segment.index.sorted import STARTS
from gamay.segment.spi import Ids

_BLOCK = 1 << 20
_FRAMED = (DataType.INT, DataType.LONG, DataType.TIMESTAMP, DataType.DOUBLE)
_UUID_BYTES = 16
_DECIMAL = r"\A-?[0-9]+(?:\.[0-9]+)?\z"


def check_column(meta: ColumnMeta, file: BufferFile, num_docs: int) -> None:
    """Raise CorruptSegmentError unless all buffers of a column have the structure described by its metadata."""
    _Checker(meta, file, num_docs).check()


class _Checker(BufferChecker):
    """Checker of the buffers of one column; the prefix of a buffer's kind selects the method."""

    def __init__(self, meta: ColumnMeta, file: BufferFile, num_docs: int) -> None:
        super().__init__(file, meta.buffers, f"column '{meta.name}'")
        self._meta = meta
        self._num_docs = num_docs
        self._num_values = meta.stats.num_values
        self._cardinality = meta.stats.cardinality or 0

    def check(self) -> None:
        kinds = {kind.partition(".")[0] for kind in self._meta.buffers}
        known: dict[str, Callable[[], None]] = {
            "dictionary": self._dictionary,
            "forward": self._forward,
            **{each.key.name: partial(each.check, self, self._meta, self._num_docs) for each in COLUMN_INDEXES},
        }
        self._counts()
        self.expect("metadata", kinds <= known.keys(), f"unknown buffers {sorted(kinds - known.keys())}")
        for part, check in known.items():
            if part in kinds:
                check()

    def _counts(self) -> None:
        meta, stats = self._meta, self._meta.stats
        self.expect("metadata", stats.num_nulls <= self._num_docs, f"{stats.num_nulls} nulls in {self._num_docs} docs")
        if meta.single_value:
            self.expect(
                "metadata", self._num_values == self._num_docs, f"{self._num_values} values in {self._num_docs} docs"
            )
        is_encoded = meta.encoding is Encoding.DICTIONARY
        self.expect("metadata", is_encoded == (meta.id_bits is not None), "the width of ids does not fit the encoding")
        if is_encoded:
            width = packed_bits(self._cardinality) if meta.packed else 8 * id_dtype(self._cardinality).itemsize
            problem = f"ids of {meta.id_bits} bits for a cardinality of {stats.cardinality}"
            self.expect("metadata", stats.cardinality is not None and meta.id_bits == width, problem)
            needed = {"dictionary.values", "dictionary.offsets"} & meta.buffers.keys()
            self.expect("metadata", needed, "no dictionary")
        if meta.has_forward or STARTS in meta.buffers:
            return
        self.expect("metadata", is_encoded and SETS in meta.buffers, "no forward index, and none in its place")

    # -- dictionary

    def _dictionary(self) -> None:
        data_type, stats = self._meta.data_type, self._meta.stats
        dtype = fixed_dtype(data_type)
        if dtype is not None:
            stored = self.array("dictionary.values", dtype, self._cardinality)
            ascends = (stored[1:] > stored[:-1]).all() and (dtype != np.uint8 or stored.max(initial=0) <= 1)
        else:
            offsets = self.array("dictionary.offsets", np.int32, self._cardinality + 1)
            data = self.array("dictionary.data", np.uint8)
            self.offsets("dictionary.offsets", offsets, len(data))
            stored = self._texts("dictionary.data", offsets, data)
            if data_type is DataType.BIG_DECIMAL:
                ascends = all(one < other for one, other in pairwise(decimals_of(stored.to_pylist())))
            else:
                ascends = pc.all(pc.greater(stored[1:], stored[:-1])).as_py() is not False
        self.expect("dictionary", ascends, "values do not ascend")
        for place, bound in ((0, stats.minimum), (-1, stats.maximum)):
            if len(stored) and bound is not None and (data_type is not DataType.BIG_DECIMAL):
                found = to_python(stored, place, data_type)
                self.expect("metadata", found == bound, f"the bound {bound!r} is not {found!r}, that of its dictionary")

    def _texts(self, kind: str, offsets: Ids, data: Ids) -> pa.BinaryArray:
        """Check values of variable width, whose offsets have been checked, for the requirements of their type, and return
        them."""
        data_type = self._meta.data_type
        stored = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
        if data_type.is_text:
            try:
                stored.view(pa.string()).validate(full=True)
            except pa.ArrowInvalid:
                self.expect(kind, False, "texts that are not UTF-8")
        elif data_type is DataType.UUID:
            self.expect(kind, (np.diff(offsets) == _UUID_BYTES).all(), "UUIDs that have not 16 bytes")
        elif data_type is DataType.BIG_DECIMAL:
            plain = pc.all(pc.match_substring_regex(stored, _DECIMAL)).as_py() is not False
            self.expect(kind, plain, "decimals that are no plain numbers")
        return stored

    # -- forward

    def _forward(self) -> None:
        meta = self._meta
        if not meta.single_value:
            offsets = self.array("forward.offsets", np.int32, self._num_docs + 1)
            self.offsets("forward.offsets", offsets, self._num_values)
            longest = int(np.diff(offsets).max(initial=0))
            self.expect("forward.offsets", longest <= meta.stats.max_values_per_row, f"a row has {longest} values")
        if meta.encoding is Encoding.DICTIONARY:
            for ids in self._ids():
                self.expect("forward", ids.max(initial=0) < max(1, self._cardinality), "ids beyond the dictionary")
        elif meta.frame is not None:
            self._framed(meta.frame)
        elif "forward.blocks" in meta.buffers:
            self._blocks()
        elif "forward.chunks" in meta.buffers:
            self._chunks()
        else:
            self._plain()

    def _ids(self) -> Iterator[Ids]:
        dtype = id_dtype(self._cardinality)
        if "forward.packed" not in self._meta.buffers:
            yield self.array("forward.ids", dtype, self._num_values)
            return
        bits = self._meta.id_bits or 1
        words = self.array("forward.packed", np.uint64, bitpack.words_needed(self._num_values, bits))
        for start in range(0, self._num_values, _BLOCK):
            ids = np.empty(min(_BLOCK, self._num_values - start), dtype)
            bitpack.unpack(words, bits, start, ids)
            yield ids

    def _framed(self, frame: FrameMeta) -> None:
        meta = self._meta
        is_double, num_values = meta.data_type is DataType.DOUBLE, self._num_values
        fits = meta.data_type in _FRAMED and meta.codec == FRAME and (is_double or frame == FrameMeta(frame.base))
        self.expect("metadata", fits, "a frame that its type or codec does not have")
        sizes = {kind: buffer.size for kind, buffer in meta.buffers.items()}
        widths = sizes.get(LOW, 0) // max(1, num_values), sizes.get(HIGH, 0) // max(1, num_values)
        self.expect(LOW, any(widths == (low, high) for _, low, high in WIDTHS), f"codes of {widths} bytes")
        low = self.array(LOW, f"<u{widths[0]}", num_values)
        high = self.array(HIGH, f"<u{widths[1]}", num_values) if widths[1] else np.zeros(1, np.uint8)
        top = int(high.max())
        greatest = frame.base + (top << 8 * widths[0]) + int((low[high == top] if widths[1] else low).max())
        first, last = -EXACT_MAX, EXACT_MAX
        if not is_double:
            bounds = np.iinfo(np.int32 if meta.data_type is DataType.INT else np.int64)
            first, last = int(bounds.min), int(bounds.max)
        problem = f"values from {frame.base} to {greatest} in a column of {meta.data_type.value}"
        self.expect("metadata", first <= frame.base and greatest <= last, problem)
        if PATCHES in meta.buffers:
            rows = self.array(PATCH_ROWS, np.int32, len(self.array(PATCHES, fixed_dtype(meta.data_type))))
            inside = len(rows) == 0 or (rows[0] >= 0 and rows[-1] < num_values and (rows[1:] > rows[:-1]).all())
            self.expect(PATCH_ROWS, inside, f"places that do not ascend below {num_values}")

    def _plain(self) -> None:
        dtype = fixed_dtype(self._meta.data_type)
        if dtype is not None:
            values = self.array("forward.values", dtype, self._num_values)
            if dtype == np.uint8:
                self.expect("forward.values", values.max(initial=0) <= 1, "truth values other than 0 and 1")
            return
        offsets = self.array("forward.value_offsets", np.int64, self._num_values + 1)
        data = self.array("forward.data", np.uint8)
        self.offsets("forward.value_offsets", offsets, len(data))
        for start in range(0, self._num_values, _BLOCK):
            part = offsets[start : start + _BLOCK + 1]
            shifted = (part - part[0]).astype(np.int32)
            self.expect("forward.value_offsets", shifted[-1] == part[-1] - part[0], "values of more than 2 GB")
            self._texts("forward.data", shifted, data[part[0] : part[-1]])

    def _index(self, kind: str) -> tuple[int, int, Ids]:
        """Return values per part, number of parts, and the rest of the index of compressed parts."""
        index = self.array(kind, np.int64)
        self.expect(kind, len(index) > 2 and index[0] > 0 and index[1] == self._num_values, "counts that do not agree")
        return int(index[0]), -(-self._num_values // int(index[0])), index[2:]

    def _chunks(self) -> None:
        kind = "forward.chunk_index"
        self.expect("metadata", self._meta.codec in COMPRESSIONS, f"the codec {self._meta.codec!r} of chunks")
        per_chunk, count, rest = self._index(kind)
        self.expect(kind, len(rest) == 2 * count + 1, f"not {count} chunks")
        self.offsets(kind, rest[: count + 1], len(self.array("forward.chunks", np.uint8)))
        lengths = np.full(count, per_chunk, np.int64)
        lengths[count - 1 :] = self._num_values - per_chunk * (count - 1)
        dtype, sizes = fixed_dtype(self._meta.data_type), rest[count + 1 :]
        fits = (sizes == lengths * dtype.itemsize) if dtype is not None else (sizes >= 4 * (lengths + 1)) & (sizes < 2**31)
        self.expect(kind, fits.all(), "sizes that do not fit the number of values")

    def _blocks(self) -> None:
        kind = "forward.block_index"
        per_block, count, rest = self._index(kind)
        self.expect(kind, len(rest) == 2 * (count + 1), f"not {count} blocks")
        self.array("forward.block_ascii", np.uint8, count)
        self.offsets(kind, rest[: count + 1], len(self.array("forward.blocks", np.uint8)))
        width = self._meta.buffers["forward.lengths"].size // max(1, self._num_values) or 1
        self.expect("forward.lengths", width in (1, 2, 4), f"lengths of {width} bytes")
        lengths = self.array("forward.lengths", f"<u{width}", self._num_values)
        ends = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        at_blocks = ends[np.minimum(np.arange(count + 1) * per_block, self._num_values)]
        self.expect(kind, np.array_equal(rest[count + 1 :], at_blocks), "blocks of another size than their values")
