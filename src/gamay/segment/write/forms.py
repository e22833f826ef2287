"""Choice of a column's storage form, if the table config leaves it open: by the cost of scans, and by size.

`benchmarks/kernels/frames.py` measures sums, groups and ranges of each form; its numbers are in docs/performance.md. A frame
is never slower than plain values and is smaller, so it is chosen if one fits. A dictionary that fits the cache
of a core is read about as fast, and also numbers groups, so it is kept. A larger one costs a cache miss for each
value, several times the cost of reading the value.
"""

from dataclasses import dataclass

import numpy as np

from gamay.model.index.column_index import ColumnIndexConfig
from gamay.model.types import DataType, FieldRole
from gamay.segment.encode.format import BufferMeta, BufferWriter
from gamay.segment.encode.forward import id_dtype
from gamay.segment.encode.frames import FRAME, FrameMeta, Framing, find_framing, write_frame
from gamay.segment.encode.raw import PASS_THROUGH, write_raw
from gamay.segment.encode.storage_form import Stored

# size of a dictionary that fits a core's cache, and the factor by which raw values may be larger
CACHED_BYTES = 1 << 20
RAW_MOST = 1.6


@dataclass(frozen=True, slots=True)
class RawForm:
    """The storage form of raw values, and the reason. framing: set if `codec` is FRAME."""

    codec: str
    framing: Framing | None
    reason: str

    @property
    def frame(self) -> FrameMeta | None:
        """The frame for the metadata."""
        return None if self.framing is None else self.framing.meta

    def write(self, writer: BufferWriter, values: Stored, config: ColumnIndexConfig) -> list[BufferMeta]:
        """Write all values."""
        if self.framing is not None:
            return write_frame(writer, self.framing, values)
        return write_raw(writer, values, self.codec, config.target_docs_per_chunk, config.target_max_chunk_size)


def raw_form(config: ColumnIndexConfig, role: FieldRole, data_type: DataType, values: Stored, is_sorted: bool) -> RawForm:
    """Choose the form of raw values: metrics are scanned, sorted rows are searched, both in place.

    is_sorted: the values of single-value rows ascend.
    """
    if config.codec is not None:
        return RawForm(config.codec, None, "its compressionCodec is declared")
    if is_sorted:
        return RawForm(PASS_THROUGH, None, "rows ascend, and are searched in place")
    framing = find_framing(values, data_type) if isinstance(values, np.ndarray) else None
    if framing is not None:
        return RawForm(FRAME, framing, f"{framing.width} bytes a value instead of {values.itemsize}, and scans are faster")
    if role is FieldRole.METRIC:
        return RawForm(PASS_THROUGH, None, "metrics are read whole")
    return RawForm("LZ4", None, "dimensions are compressed")


def dictionary_costs_time(num_values: int, cardinality: int, width: int, raw_width: float) -> bool:
    """Whether metrics are summed faster as raw values, which are not much larger.

    width: bytes of a distinct value; raw_width: of a value in its raw form.
    """
    if cardinality * width <= CACHED_BYTES:
        return False
    encoded_bytes = cardinality * width + num_values * id_dtype(cardinality).itemsize
    return num_values * raw_width <= RAW_MOST * encoded_bytes
