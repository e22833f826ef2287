"""Values by path in documents that are known to be JSON: those of a column, which were read when they were taken in.

Nothing is checked again, so only what decides where values lie is looked at: quotes, brackets, colons and commas, found 64
bytes at a time (the first stage of simdjson, https://arxiv.org/abs/1902.08318). A document is followed to its end all the
same, as of equal names in an object the last one counts. One with a backslash, or too near to an end of `data`, goes the
way of texts that may be anything; arguments and results are those of `gamay.kernels.json.paths.locate_values`.
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel
from gamay.kernels.json.paths import (
    DEPTH_MAX,
    FALSE,
    MISSING,
    NESTED,
    NULL,
    TEXT,
    TRUE,
    UNSURE,
    is_name,
    locate_one,
    read_number,
    skip_blanks,
)
from gamay.kernels.raw_memory import LANES, bits_at_most, bits_equal, byte_at, put_word, trailing_zeros, word_at

_QUOTE, _BACKSLASH, _COMMA, _COLON, _OPENING, _CLOSING, _SPACE = 34, 92, 44, 58, 123, 125, 32
_LOWER = 32  # [ | 32 is {, ] | 32 is }


@kernel
def _inside_quotes(quotes: Any) -> Any:
    """Return the bits from each opening quote up to its closing one, without that."""
    for shift in (1, 2, 4, 8, 16, 32):
        quotes ^= quotes << np.uint64(shift)
    return quotes


@kernel
def _read_value(data: Any, position: Any, stop: Any) -> tuple[Any, Any, Any]:
    """Return (kind, begin, end) of the value that begins behind some blanks; MISSING where a bracket closes instead."""
    position = skip_blanks(data, position, stop)
    if position >= stop:
        return MISSING, position, position
    byte = byte_at(data, position)
    if byte == _QUOTE:
        last = position + 1
        while last < stop and byte_at(data, last) != _QUOTE:
            last += 1
        return TEXT, position + 1, last
    if byte | _LOWER == _OPENING:
        return NESTED, position, position
    if byte | _LOWER == _CLOSING:
        return MISSING, position, position
    if byte == 116:
        return TRUE, position, position + 4
    if byte == 102:
        return FALSE, position, position + 5
    if byte == 110:
        return NULL, position, position + 4
    if byte != 45 and not 48 <= byte <= 57:
        return UNSURE, position, position
    last, kind = read_number(data, position, stop)
    return (UNSURE if kind == MISSING else kind), position, last


@kernel
def _is_named(data: Any, colon: Any, start: Any, keys: Any, begin: Any, end: Any) -> Any:
    """Tell whether the name before a colon is keys[begin:end]; there are no backslashes around."""
    last = colon - 1
    while last > start and byte_at(data, last) != _QUOTE:
        last -= 1
    first = last - (end - begin)
    return first > start and byte_at(data, first - 1) == _QUOTE and is_name(data, first, last, keys, begin, end)


@kernel
def _named_colons(data: Any, block: Any, last_bytes: Any, steps: Any) -> Any:
    """Return the bits of the colons behind names that may be wanted ones, by their last byte, or behind a blank."""
    may_be = np.uint64(0)
    for k in range(steps):
        may_be |= bits_equal(data, block - 2, np.uint8(byte_at(last_bytes, k)), np.uint8(0))
    may_be &= bits_equal(data, block - 1, np.uint8(_QUOTE), np.uint8(0))
    may_be |= bits_at_most(data, block - 1, np.uint8(_SPACE))
    return bits_equal(data, block, np.uint8(_COLON), np.uint8(0)) & may_be


@kernel
def _may_repeat(data: Any, position: Any, stop: Any, keys: Any, bounds: Any, last_bytes: Any, steps: Any) -> Any:
    """Tell whether a name of the path may stand once more behind a position; so may one with a backslash."""
    for block in range(position, stop, LANES):
        within = ~np.uint64(0) >> np.uint64(LANES - min(stop - block, LANES))
        if bits_equal(data, block, np.uint8(_BACKSLASH), np.uint8(0)) & within != 0:
            return True
        colons = _named_colons(data, block, last_bytes, steps) & within
        while colons != 0:
            colon = block + trailing_zeros(colons)
            colons &= colons - np.uint64(1)
            for k in range(steps):
                if _is_named(data, colon, position, keys, word_at(bounds, k), word_at(bounds, k + 1)):
                    return True
    return False


@kernel
def _signs(
    data: Any, block: Any, stop: Any, carried: Any, last_bytes: Any, steps: Any
) -> tuple[Any, Any, Any, Any, Any, Any]:
    """Return the bits, outside of texts, of opening brackets, all brackets, colons that matter and commas in a block.

    carried: all bits where the block begins inside of a text; it comes back for the next one. Last, the bits of backslashes.
    """
    inside = _inside_quotes(bits_equal(data, block, np.uint8(_QUOTE), np.uint8(0))) ^ carried
    carried = np.uint64(0) - (inside >> np.uint64(63))
    within = ~np.uint64(0) >> np.uint64(LANES - min(stop - block, LANES))
    outside = within & ~inside
    opening = bits_equal(data, block, np.uint8(_OPENING), np.uint8(_LOWER)) & outside
    brackets = opening | (bits_equal(data, block, np.uint8(_CLOSING), np.uint8(_LOWER)) & outside)
    colons = _named_colons(data, block, last_bytes, steps) & outside
    commas = bits_equal(data, block, np.uint8(_COMMA), np.uint8(0)) & outside
    escapes = bits_equal(data, block, np.uint8(_BACKSLASH), np.uint8(0)) & within
    return opening, brackets, colons, commas, carried, escapes


@kernel
def _follow_one(data: Any, start: Any, stop: Any, path: Any, last_bytes: Any, scratch: Any) -> tuple[Any, Any, Any]:
    """Return (kind, begin, end) of what the path, of one step at least, leads to; kind -1 where a backslash is met."""
    keys, bounds, places, steps = path
    counts, is_list = scratch
    kind, begin, end = np.int64(MISSING), start, start
    depth = followed = np.int64(0)  # how many containers are around, and how many of them, from the outermost, on the path
    in_list = False  # whether the innermost of those is an array
    enters = True  # whether the next bracket opens a container on the path
    carried = np.uint64(0)
    is_found = False
    for block in range(start, stop, LANES):
        opening, brackets, colons, commas, carried, escapes = _signs(data, block, stop, carried, last_bytes, steps)
        if escapes != 0:
            return -1, begin, end
        ahead = ~np.uint64(0)  # the bits that have not been looked at
        while True:
            bit = brackets if enters else commas if in_list else colons
            bit &= ahead
            bit &= np.uint64(0) - bit
            if enters:
                if bit == 0:
                    break
                if bit & opening == 0:
                    return UNSURE, begin, end  # no JSON after all
                depth += 1
                followed = depth
                in_list = byte_at(data, block + trailing_zeros(bit)) == 91
                put_word(is_list, depth, in_list)
                put_word(counts, depth, -1)
            else:
                passed = brackets & ahead & (bit - np.uint64(1))
                bracket = np.uint64(0)
                while passed != 0 and depth >= followed:
                    bracket = passed & (np.uint64(0) - passed)
                    depth += 2 * np.int64(bracket & opening != 0) - 1
                    passed ^= bracket
                if depth < followed:
                    if depth == 0:
                        return kind, begin, end
                    followed = depth
                    in_list = word_at(is_list, depth) != 0
                    ahead = ~((bracket << np.uint64(1)) - np.uint64(1))
                    continue
                if bit == 0:
                    break
            ahead = ~((bit << np.uint64(1)) - np.uint64(1))
            if depth > followed:
                continue
            position = block + trailing_zeros(bit)
            if in_list:
                put_word(counts, depth, word_at(counts, depth) + 1)
                is_wanted = word_at(places, depth - 1) == word_at(counts, depth)
            elif enters:
                is_wanted = False
            else:
                is_wanted = word_at(places, depth - 1) < 0 and _is_named(
                    data, position, start, keys, word_at(bounds, depth - 1), word_at(bounds, depth)
                )
                kind = np.int64(MISSING) if is_wanted else kind  # of equal names the last one counts
            enters = False
            if is_wanted:
                if depth == steps:
                    kind, begin, end = _read_value(data, position + 1, stop)
                    if not is_found and not _may_repeat(data, position + 1, stop, keys, bounds, last_bytes, steps):
                        return kind, begin, end
                    is_found = True
                else:
                    position = skip_blanks(data, position + 1, stop)
                    enters = position < stop and byte_at(data, position) | _LOWER == _OPENING
    return kind, begin, end


@kernel
def _last_bytes(keys: Array, bounds: Array, places: Array) -> Array:
    """Return the last byte of each name of a path; of an empty one, that is the quote before it."""
    last_bytes = np.full(len(places), _QUOTE, np.uint8)
    for k in range(len(places)):
        if bounds[k + 1] > bounds[k]:
            last_bytes[k] = keys[bounds[k + 1] - 1]
    return last_bytes


@kernel
def locate_in_documents(
    data: Array,
    starts: Array,
    stops: Array,
    keys: Array,
    bounds: Array,
    places: Array,
    kinds: Array,
    begins: Array,
    ends: Array,
) -> None:
    """Write what the path, of one step at least, leads to in each document, and where in `data` it lies."""
    size = max(DEPTH_MAX, len(places)) + 2
    counts = np.zeros(size, np.int64)  # how many elements the arrays around have had
    is_list = np.zeros(size, np.int64)
    last_bytes = _last_bytes(keys, bounds, places)
    steps = len(places)
    path = keys.ctypes.data, bounds.ctypes.data, places.ctypes.data, steps
    scratch = counts.ctypes.data, is_list.ctypes.data
    for i in range(len(kinds)):
        start, stop = np.int64(starts[i]), np.int64(stops[i])
        kind, begin, end = np.int64(-1), start, start
        if start >= 2 and stop + LANES <= len(data):
            kind, begin, end = _follow_one(data.ctypes.data, start, stop, path, last_bytes.ctypes.data, scratch)
        if kind < 0:
            kind, begin, end = locate_one(data.ctypes.data, start, stop, path, scratch)
        kinds[i], begins[i], ends[i] = kind, begin, end
