"""Bloom filter: whether a value can occur in the segment.

    bloom.bits := u64 number of probes, u64 number of bits, then the bits in u64 words

Probe i of a value with hash h sets bit (h + i * (h >> 32 | 1)) mod 2^64 mod (number of bits); h is MurmurHash64A of
the value's bytes: numbers as 8 bytes (integers as i64, floats as f64), text as UTF-8, BIG_DECIMAL as its shortest
plain text.
"""

import math

import numpy as np
import pyarrow as pa

from gamay.functions.expression import LiteralValue
from gamay.kernels.hash.hashing import bloom_add, murmur64a
from gamay.model.types import DataType
from gamay.segment.encode.checks import BufferChecker
from gamay.segment.encode.format import BufferFile, BufferMeta, BufferWriter
from gamay.segment.encode.metadata import ColumnMeta
from gamay.segment.encode.storage_form import Stored, binary_buffers, fixed_dtype, from_python
from gamay.segment.index.spi import IndexedRows, StoredColumn
from gamay.segment.spi import BLOOM, Ids

_BITS = f"{BLOOM.name}.bits"
_PROBES_MAX = 1 << 10
_SEED = 0xE17A1465
_MASK64 = (1 << 64) - 1


# Config


def bloom_size(num_values: int, fpp: float, max_size_bytes: int) -> tuple[int, int]:
    """Return (number of bits, number of probes) for a false-positive probability; `max_size_bytes` 0 is unlimited."""
    bits = math.ceil(-max(1, num_values) * math.log(fpp) / math.log(2) ** 2)
    if max_size_bytes:
        bits = min(bits, max_size_bytes * 8)
    bits = max(64, -(-bits // 64) * 64)
    return bits, max(1, round(bits / max(1, num_values) * math.log(2)))


# Build


class BloomType:
    """Implements `ColumnIndexType`."""

    key = BLOOM

    def write(self, writer: BufferWriter, rows: IndexedRows) -> list[BufferMeta]:
        config = rows.config.bloom
        if config is None:
            return []
        hashes = np.unique(_hashes(rows.values, rows.data_type))
        bits, probes = bloom_size(len(hashes), config.fpp, config.max_size_bytes)
        words = np.zeros(bits // 64, np.uint64)
        bloom_add(hashes, probes, words)
        return [writer.add(_BITS, [np.array([probes, bits], np.uint64), words])]

    def read(self, file: BufferFile, buffers: dict[str, BufferMeta], column: StoredColumn) -> "BloomBits":
        return BloomBits(file.array(buffers[_BITS], np.uint64), column.data_type)

    def check(self, checker: BufferChecker, meta: ColumnMeta, num_docs: int) -> None:
        words = checker.array(_BITS, np.uint64)
        fits = len(words) > 2 and 0 < words[0] <= _PROBES_MAX and words[1] == 64 * (len(words) - 2)
        checker.expect(_BITS, fits, "counts that do not agree")


def _hashes(stored: Stored, data_type: DataType) -> Ids:
    if isinstance(stored, np.ndarray):
        wide = stored.astype(np.float64 if stored.dtype.kind == "f" else np.int64)
        data = wide.view(np.uint8)
        offsets: Ids = np.arange(len(wide) + 1, dtype=np.int64) * 8
    else:
        if data_type is DataType.BIG_DECIMAL:
            stored = pa.array([_shortest(text) for text in stored.to_pylist()], pa.binary())
        offsets, data = binary_buffers(stored)
    out = np.empty(len(stored), np.int64)
    murmur64a(data, offsets, _SEED, out)
    return out


def _shortest(text: bytes) -> bytes:
    """Return plain decimal text without trailing zeros in its fraction."""
    short = text.rstrip(b"0").rstrip(b".") if b"." in text else text
    return b"0" if short in (b"-0", b"") else short


# Read


class BloomBits:
    """Implements `segment.spi.BloomFilter`."""

    def __init__(self, words: Ids, data_type: DataType) -> None:
        self._probes, self._num_bits = int(words[0]), int(words[1])
        self._words = words[2:]
        self._data_type = data_type

    def might_contain(self, value: LiteralValue) -> bool:
        """Return False only if no row has the value, which must be of the column's type."""
        key = from_python(value, self._data_type)
        if fixed_dtype(self._data_type) is None:
            stored = pa.array([key], pa.binary())
        else:
            stored = np.array([key], np.float32 if self._data_type is DataType.FLOAT else None)
        first = int(_hashes(stored, self._data_type)[0]) & _MASK64
        step = first >> 32 | 1
        return all(self._is_set((first + i * step & _MASK64) % self._num_bits) for i in range(self._probes))

    def _is_set(self, bit: int) -> bool:
        return bool(int(self._words[bit >> 6]) >> (bit & 63) & 1)
