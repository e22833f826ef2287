"""Avro records of flat fields, many messages at a time (the binary encoding of the Avro specification, version 1.11)."""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import inlined, kernel

NULL, BOOLEAN, INTEGER, FLOAT, DOUBLE, BYTES, FIXED, ENUM = range(8)
"""Kinds of fields; ENUM has its number of symbols as size, FIXED its number of bytes."""

DECODED, CUT_OFF, TRAILING, INVALID = range(4)
"""What became of a message."""


@inlined
def _varint(data: Array, at: Any, stop: Any) -> Any:
    """Read a zigzag number; return it and the place behind it, which is beyond `stop` when it is cut off or too long."""
    value = np.uint64(0)
    shift = np.uint64(0)
    behind = stop + 1
    for _ in range(10):
        if at >= stop:
            break
        byte = np.uint64(data[at])
        at += 1
        value |= (byte & np.uint64(0x7F)) << shift
        shift += np.uint64(7)
        if byte < np.uint64(0x80):
            behind = at
            break
    return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), behind


@kernel
def decode(
    data: Array, offsets: Array, kinds: Array, sizes: Array, null_branch: Array, slots: Array, longs: Array, reals: Array,
    starts: Array, nulls: Array, status: Array,
) -> None:  # fmt: skip
    """Decode message i, data[offsets[i]:offsets[i + 1]], field by field.

    kinds, sizes: of each field. null_branch: which branch of its union is null, -1 when it is no union. slots: its row in
    `longs` (int64 [*, n]; of BYTES and FIXED the length), in `reals` (uint64, the bits of a floating point number) and in
    `starts` (int64, where the bytes begin), -1 when it is not wanted. nulls: uint8 [fields, n]. status: uint8 [n], DECODED
    or why not.
    """
    for i in range(status.size):
        at = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        # beyond `stop`: the message is cut off; below 0: it is invalid
        for field in range(kinds.size):
            kind = kinds[field]
            slot = slots[field]
            if null_branch[field] >= 0:
                branch, at = _varint(data, at, stop)
                if at <= stop and branch == null_branch[field]:
                    nulls[field, i] = 1
                    continue
                if at <= stop and branch != 0 and branch != 1:
                    at = np.int64(-1)
            if at < 0 or at > stop:
                break
            size = np.int64(sizes[field])
            if kind in (INTEGER, ENUM, BYTES):
                number, at = _varint(data, at, stop)
                if kind == BYTES:
                    size = number
                elif at <= stop and kind == ENUM and (number < 0 or number >= size):
                    at = np.int64(-1)
                elif slot >= 0:
                    longs[slot, i] = number
            if kind in (BYTES, FIXED) and at <= stop:
                if size >= 0 and slot >= 0:
                    starts[slot, i] = at
                    longs[slot, i] = size
                at = np.int64(-1) if size < 0 else stop + 1 if size > stop - at else at + size
            elif kind in (DOUBLE, FLOAT):
                width = 8 if kind == DOUBLE else 4
                if slot >= 0 and width <= stop - at:
                    bits = np.uint64(0)
                    for k in range(width):
                        bits |= np.uint64(data[at + k]) << np.uint64(8 * k)
                    reals[slot, i] = bits
                at += width
            elif kind == BOOLEAN:
                if at < stop and data[at] > 1:
                    at = np.int64(-1)
                elif at < stop and slot >= 0:
                    longs[slot, i] = data[at]
                    at += 1
                else:
                    at += 1
            elif kind == NULL:
                nulls[field, i] = 1
        status[i] = INVALID if at < 0 else CUT_OFF if at > stop else TRAILING if at < stop else DECODED


@kernel
def gather(data: Array, starts: Array, offsets: Array, out: Array) -> None:
    """Copy byte string i, which begins at data[starts[i]], to out[offsets[i]:offsets[i + 1]]."""
    for i in range(starts.size):
        begin = starts[i]
        first = np.int64(offsets[i])
        for k in range(np.int64(offsets[i + 1]) - first):
            out[first + k] = data[begin + k]
