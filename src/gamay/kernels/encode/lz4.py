"""Blocks of LZ4 (https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md), many of them in one call.

A sequence is a token (4 bits for the number of literals, 4 for the length of the match less 4; 15 says that bytes follow
that are added, up to the first that is not 255), the literals, and where the match begins: so many bytes back, 16 bits. The
last sequence ends behind its literals. Copies are of 16 bytes at a time and may write behind the end, into what is written
next; `SLACK` bytes behind the last block are for that. Blocks of a few KB take 0.4 ns a byte so, and no call from Python for
each.

Matches may reach back beyond where their block begins, into a dictionary that all blocks share (section "Dictionary" of
https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md). So blocks are decoded behind it, in memory for one of them
that is used again and again, and what is wanted of them is copied from there: no more work than to tell both kinds of
matches apart.
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import inlined, kernel
from gamay.kernels.raw_memory import byte_at, copy_8, copy_16, prefetch, put_byte

SLACK = 32
_LONG, _SHORTEST = 15, 4
_LINE = 64  # bytes of the cache
_NEAR, _FAR = 4, 12  # so many values ahead, blocks and where they begin are asked for


@inlined
def _long(length: Any, source: Any, source_end: Any) -> tuple[Any, Any]:
    """Return a length with the bytes that are added to it, and the position behind them, -1 where they do not end."""
    while True:
        if source >= source_end:
            return length, np.int64(-1)
        byte = byte_at(source, 0)
        source += 1
        length += byte
        if byte != 255:
            return length, source


@inlined
def _decode(
    source: Any, source_end: Any, readable: Any, first: Any, target: Any, target_end: Any, writable: Any, wanted: Any
) -> Any:  # fmt: skip
    """Decode a block from an address to another, at least the first `wanted` bytes; return how many, -1 for no LZ4.

    source_end, target_end: where the block ends; readable, writable: up to where copies may read and write beyond that;
    first: where matches may begin, which is where the dictionary does, that stands in front of the target.
    """
    start = target
    while target - start < wanted:
        if source >= source_end:
            return np.int64(-1)
        token = byte_at(source, 0)
        source += 1
        length = token >> 4
        if length == _LONG:
            length, source = _long(length, source, source_end)
        if source < 0 or length > source_end - source or length > target_end - target:
            return np.int64(-1)
        if length <= 32 and source + 32 <= readable and target + 32 <= writable:
            copy_16(target, source)
            if length > 16:
                copy_16(target + 16, source + 16)
        else:
            done = np.int64(0)
            while done + 16 <= length:
                copy_16(target + done, source + done)
                done += 16
            while done < length:
                put_byte(target + done, 0, byte_at(source, done))
                done += 1
        source += length
        target += length
        if source >= source_end:
            return target - start
        if source + 2 > source_end:
            return np.int64(-1)
        back = byte_at(source, 0) | (byte_at(source, 1) << 8)
        source += 2
        length = token & 15
        if length == _LONG:
            length, source = _long(length, source, source_end)
        length += _SHORTEST
        match = target - back
        if source < 0 or back == 0 or match < first or length > target_end - target:
            return np.int64(-1)
        if back >= 16 and target + length + 16 <= writable:
            copy_16(target, match)
            done = np.int64(16)
            while done < length:
                copy_16(target + done, match + done)
                done += 16
        elif back >= 8 and target + length + 8 <= writable:
            done = np.int64(0)
            while done < length:
                copy_8(target + done, match + done)
                done += 8
        else:  # each byte may be one that has just been written
            for place in range(length):
                put_byte(target + place, 0, byte_at(match, place))
        target += length
    return target - start


@inlined
def _copy(target: Any, source: Any, length: Any, readable: Any, writable: Any) -> None:
    """Copy what was decoded; readable, writable: up to where there is memory."""
    done = np.int64(0)
    while done < length and source + done + 16 <= readable and target + done + 16 <= writable:
        copy_16(target + done, source + done)
        done += 16
    while done < length:
        put_byte(target + done, 0, byte_at(source, done))
        done += 1


@kernel
def decode_blocks(
    data: Array, begins: Array, starts: Array, scratch: Array, shared: int, first: int, last: int, out: Array
) -> Any:  # fmt: skip
    """Decode the blocks [first, last) end to end; return the number of the first that is damaged, -1 for none.

    data: uint8, block b at data[begins[b]:begins[b + 1]]; decoded, it has starts[b + 1] - starts[b] bytes. scratch: uint8, a
    dictionary of `shared` bytes, room for any of these blocks, and SLACK. out: uint8, at least what is decoded.
    """
    base, decoded = data.ctypes.data, scratch.ctypes.data + shared
    target: Any = out.ctypes.data
    readable, writable, end_of_out = base + data.size, decoded - shared + scratch.size, target + out.size
    for block in range(first, last):
        size = starts[block + 1] - starts[block]
        begin, end = base + begins[block], base + begins[block + 1]
        if _decode(begin, end, readable, decoded - shared, decoded, decoded + size, writable, size) != size:
            return block
        _copy(target, decoded, size, writable, end_of_out)
        target += size
    return -1


@kernel
def lengths_to_offsets(lengths: Array, offsets: Array) -> Any:
    """Write where each value begins, and where the last ends: offsets [n + 1], from 0 on; return where that is."""
    position = np.int64(0)
    offsets[0] = 0
    for i in range(lengths.size):
        position += np.int64(lengths[i])
        offsets[i + 1] = position
    return position


@kernel
def lengths_at(lengths: Array, positions: Array, out: Array) -> Any:
    """Write the lengths at some positions; return their sum."""
    total = np.int64(0)
    for i in range(positions.size):
        length = lengths[np.int64(positions[i])]
        out[i] = length
        total += np.int64(length)
    return total


@kernel
def decode_values(
    data: Array, begins: Array, starts: Array, scratch: Array, shared: int, lengths: Array, per_block: int, positions: Array,
    out: Array,
) -> Any:  # fmt: skip
    """Write the values at ascending positions end to end; return the number of the first damaged block, -1 for none.

    Only blocks that hold one are decoded, up to the last one wanted of each. lengths: of all values, of which each block
    but the last holds `per_block`. out: uint8, at least what is written. The rest as in `decode_blocks`.
    """
    base, decoded = data.ctypes.data, scratch.ctypes.data + shared
    target: Any = out.ctypes.data
    readable, writable, end_of_out = base + data.size, decoded - shared + scratch.size, target + out.size
    i = np.int64(0)
    while i < positions.size:
        if i + _FAR < positions.size:
            prefetch(begins.ctypes.data + 8 * (np.int64(positions[i + _FAR]) // per_block))
            prefetch(starts.ctypes.data + 8 * (np.int64(positions[i + _FAR]) // per_block))
            line = base + begins[np.int64(positions[i + _NEAR]) // per_block]
            for k in range(4):
                prefetch(line + k * _LINE)
        block = np.int64(positions[i]) // per_block
        until = (block + 1) * per_block
        last: Any = i
        while last + 1 < positions.size and np.int64(positions[last + 1]) < until:
            last += 1
        wanted = np.int64(0)
        for k in range(block * per_block, np.int64(positions[last]) + 1):
            wanted += np.int64(lengths[k])
        size = starts[block + 1] - starts[block]
        begin, end = base + begins[block], base + begins[block + 1]
        if _decode(begin, end, readable, decoded - shared, decoded, decoded + size, writable, wanted) < wanted:
            return block
        place, at = block * per_block, np.int64(decoded)
        for k in range(i, last + 1):
            position = np.int64(positions[k])
            while place < position:
                at += np.int64(lengths[place])
                place += 1
            length = np.int64(lengths[position])
            _copy(target, at, length, writable, end_of_out)
            target += length
        i = last + 1
    return -1
