"""Which form a column is stored in, where the table config leaves it to the rows: by what scans cost, and by room.

`benchmarks/kernels/frames.py` measures sums, groups and ranges of each form; its numbers are in docs/performance.md. A frame
is never slower than plain values and takes less room, so it is chosen wherever one fits. A dictionary that stays in the
cache of a core is read about as quickly, and numbers groups, too: it stays. One that does not costs a cache miss for each
value, some times what reading it costs.
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

# of a dictionary: what stays in the cache of a core; and how many times as much room raw values may take
CACHED_BYTES = 1 << 20
RAW_MOST = 1.6


@dataclass(frozen=True, slots=True)
class RawForm:
    """How raw values are stored, and why. framing: where `codec` is FRAME."""

    codec: str
    framing: Framing | None
    reason: str

    @property
    def frame(self) -> FrameMeta | None:
        """What the metadata says of the codes."""
        return None if self.framing is None else self.framing.meta

    def write(self, writer: BufferWriter, values: Stored, config: ColumnIndexConfig) -> list[BufferMeta]:
        """Write all values."""
        if self.framing is not None:
            return write_frame(writer, self.framing, values)
        return write_raw(writer, values, self.codec, config.target_docs_per_chunk, config.target_max_chunk_size)


def raw_form(config: ColumnIndexConfig, role: FieldRole, data_type: DataType, values: Stored, is_sorted: bool) -> RawForm:
    """Choose the form of raw values: metrics are read whole, sorted rows are searched, both in place.

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
    """Whether rows of metrics are added up faster where they are raw, in not much more room.

    width: bytes of a distinct value; raw_width: of a value in its raw form.
    """
    if cardinality * width <= CACHED_BYTES:
        return False
    encoded_bytes = cardinality * width + num_values * id_dtype(cardinality).itemsize
    return num_values * raw_width <= RAW_MOST * encoded_bytes
