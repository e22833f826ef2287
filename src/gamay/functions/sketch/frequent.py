"""Frequent-items sketches: the most frequent values, with lower and upper bounds of their counts.

A sketch of maxMapSize keeps the counts of at most 3/4 as many values. Beyond that, the largest count that is not kept is
subtracted from all, and values without a remaining count are dropped (J. Misra, D. Gries 1982; P. Agarwal et al.,
"Mergeable Summaries", 2012). The offset is the sum of what was subtracted: a value that is kept occurred at least its
count, at most its count plus the offset; any other one, at most the offset, which is at most total / (capacity + 1).

The bytes are those of the datasketches library. Numbers are little-endian:

| bytes    | hold                                                                                                  |
| -------- | ----------------------------------------------------------------------------------------------------- |
| 0 to 2   | 4 (1 when empty: nothing follows the first 8 bytes); 1; 10                                            |
| 3, 4, 5  | log2 of maxMapSize; log2 of the size that the values need; 0 (5 when empty)                           |
| 8 to 11  | the number of values                                                                                  |
| 16 to 31 | the total of all counts, the offset: 8 bytes each                                                     |

then the counts, 8 bytes each, and the values: LONGs as 8 bytes, texts as their length (4 bytes) and UTF-8.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.functions.aggregate.distinct.pairs import PairsPartial, merge_pairs, no_values
from gamay.functions.convert import array_of, python_values
from gamay.functions.sketch.compact import not_a_sketch
from gamay.functions.vector import EncodedVector, Vector, take
from gamay.model.types import DataType

_HEADER = 32
_LEAST_LOG2 = 3
_MOST_LOG2 = 26


@dataclass(frozen=True, slots=True, eq=False)
class FrequentItems:
    """The sketches of groups. pairs: values with counts; totals, offsets: int64 [num_groups]."""

    pairs: PairsPartial
    totals: Array
    offsets: Array


def capacity(max_map_size: int) -> int:
    """Return the number of values that a sketch keeps."""
    return max_map_size * 3 // 4


def limited(pairs: PairsPartial, totals: Array, offsets: Array, most: int) -> FrequentItems:
    """Return sketches of at most `most` values each, of counted values."""
    counts = _counts(pairs)
    sizes = np.bincount(pairs.groups, minlength=pairs.num_groups)
    if sizes.max(initial=0) <= most:
        return FrequentItems(pairs, totals, offsets)
    order = np.lexsort((-counts, pairs.groups))
    groups, counts = pairs.groups[order], counts[order]
    places = np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    subtracted = np.zeros(pairs.num_groups, np.int64)
    subtracted[groups[places == most]] = counts[places == most]
    counts = counts - subtracted[groups]
    kept = np.flatnonzero(counts > 0)
    values = pairs.values
    if isinstance(values, EncodedVector):
        values = EncodedVector(values.ids[order[kept]], values.dictionary)
    else:
        values = Vector(values.type, take(values.values, order[kept]))
    return FrequentItems(PairsPartial(groups[kept], values, counts[kept], pairs.num_groups), totals, offsets + subtracted)


def merged(parts: Sequence[FrequentItems], maps: Sequence[Array], num_groups: int, most: int) -> FrequentItems:
    """Merge: sketch i of parts[k] goes to group maps[k][i]."""
    totals, offsets = np.zeros(num_groups, np.int64), np.zeros(num_groups, np.int64)
    for part, groups in zip(parts, maps, strict=True):
        np.add.at(totals, groups, part.totals)
        np.add.at(offsets, groups, part.offsets)
    return limited(merge_pairs([part.pairs for part in parts], maps, num_groups), totals, offsets, most)


def serialize(sketches: FrequentItems, max_map_size: int) -> list[bytes]:
    """Return the bytes of each sketch, values in descending order of their counts."""
    pairs = sketches.pairs
    values = pairs.values.decode() if isinstance(pairs.values, EncodedVector) else pairs.values
    listed: list[list[tuple[int, Any]]] = [[] for _ in range(pairs.num_groups)]
    for group, count, value in zip(
        pairs.groups.tolist(), _counts(pairs).tolist(), python_values(values.values), strict=True
    ):
        listed[group].append((-count, value))
    log2 = max_map_size.bit_length() - 1
    totals, offsets = sketches.totals.tolist(), sketches.offsets.tolist()
    return [
        _serialize_one(sorted(items), total, offset, log2)
        for items, total, offset in zip(listed, totals, offsets, strict=True)
    ]


def _serialize_one(items: list[tuple[int, Any]], total: int, offset: int, log2: int) -> bytes:
    if total == 0:
        return bytes([1, 1, 10, log2, _LEAST_LOG2, 5, 0, 0])
    size = _LEAST_LOG2
    while capacity(1 << size) < len(items):
        size += 1
    header = bytes([4, 1, 10, log2, size, 0, 0, 0]) + len(items).to_bytes(4, "little") + bytes(4)
    header += total.to_bytes(8, "little") + offset.to_bytes(8, "little")
    counts = np.array([-count for count, _ in items], "<i8").tobytes()
    return header + counts + b"".join(_value_bytes(value) for _, value in items)


def _value_bytes(value: int | str) -> bytes:
    if isinstance(value, int):
        return value.to_bytes(8, "little", signed=True)
    encoded = value.encode()
    return len(encoded).to_bytes(4, "little") + encoded


def parse(data: bytes, data_type: DataType) -> FrequentItems:
    """Deserialise a sketch of LONG or STRING values; empty bytes are an empty one. Raises QueryError 200 for other bytes."""
    try:
        return _parse(data, data_type)
    except ValueError as error:
        raise not_a_sketch(f"frequent {data_type.value}s", data, error) from error


def _parse(data: bytes, data_type: DataType) -> FrequentItems:
    if not data or _is_empty(data):
        pairs = PairsPartial(np.empty(0, np.int32), no_values(data_type), np.empty(0, np.int64), 1)
        return FrequentItems(pairs, np.zeros(1, np.int64), np.zeros(1, np.int64))
    if len(data) < _HEADER or data[0] != 4:
        raise ValueError("its header is invalid")
    count = int.from_bytes(data[8:12], "little")
    start = _HEADER + 8 * count
    if start > len(data):
        raise ValueError("its counts are truncated")
    total, offset = np.frombuffer(data, "<i8", 2, 16).tolist()
    counts = np.frombuffer(data, "<i8", count, _HEADER).astype(np.int64)
    if total < 0 or offset < 0 or (counts <= 0).any():
        raise ValueError("a count is negative")
    values: Any = _longs(data[start:], count) if data_type is DataType.LONG else _texts(data[start:], count)
    if len(set(python_values(values))) != count:
        raise ValueError("a value occurs twice")
    pairs = PairsPartial(np.zeros(count, np.int32), Vector(data_type, values), counts, 1)
    return FrequentItems(pairs, np.array([total]), np.array([offset]))


def _is_empty(data: bytes) -> bool:
    if len(data) < 8 or data[1] != 1 or data[2] != 10 or not _LEAST_LOG2 <= data[3] <= _MOST_LOG2:
        raise ValueError("its header is invalid")
    return data[0] == 1 and data[5] & 5 != 0


def _longs(data: bytes, count: int) -> Array:
    if len(data) != 8 * count:
        raise ValueError(f"{count} values take {8 * count} bytes, not {len(data)}")
    return np.frombuffer(data, "<i8").astype(np.int64)


def _texts(data: bytes, count: int) -> pa.Array:
    texts, position = [], 0
    for _ in range(count):
        stop = position + 4 + int.from_bytes(data[position : position + 4], "little")
        if stop > len(data) or position + 4 > len(data):
            raise ValueError("its values are truncated")
        texts.append(data[position + 4 : stop].decode())
        position = stop
    if position != len(data):
        raise ValueError("its values are followed by other bytes")
    return array_of(texts, DataType.STRING)


def _counts(pairs: PairsPartial) -> Array:
    assert pairs.counts is not None
    return pairs.counts
