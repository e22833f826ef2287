"""Values in JSON texts (RFC 8259) by path, found without building anything.

Texts lie in `data` (uint8, valid UTF-8): text i is data[starts[i]:stops[i]]. A path is made of names and
positions: step k is the name keys[bounds[k]:bounds[k + 1]] (uint8), or the position places[k] (int64) where that is not
negative. A whole text is read, as what is no JSON has no values; of equal names in an object the last one counts.
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel
from gamay.kernels.raw_memory import byte_at, copy_16, put_byte, put_word, word_at

# What is found. WHOLE: of 18 digits at most; LARGE: of more, or -0. ESCAPED: a string with backslashes. NESTED: an object or
# array. UNSURE: a text with something rare that another reader has to decide on.
MISSING, NULL, TRUE, FALSE, WHOLE, REAL, TEXT, ESCAPED, NESTED, LARGE, UNSURE = range(11)

_BEFORE_VALUE, _BEHIND_OPENING, _BEHIND_VALUE = range(3)
DEPTH_MAX = 64
_WHOLE_DIGITS_MAX = 18
_NUMBER_BYTES_MAX = 40

_QUOTE, _BACKSLASH, _SPACE = 34, 92, 32


@kernel
def skip_blanks(data: Any, position: Any, stop: Any) -> Any:
    while position < stop and byte_at(data, position) <= _SPACE:
        if byte_at(data, position) not in (32, 10, 13, 9):
            return position
        position += 1
    return position


@kernel
def _read_text(data: Any, position: Any, stop: Any) -> tuple[Any, Any]:
    """Read a string from behind its opening quote; return (position of the closing one, kind), MISSING for what is none."""
    kind = TEXT
    while position < stop:
        byte = byte_at(data, position)
        if byte == _QUOTE:
            return position, kind
        if byte < _SPACE:
            return position, MISSING
        if byte == _BACKSLASH:
            position += 1
            if position >= stop:
                return position, MISSING
            escaped = byte_at(data, position)
            if escaped == 117:  # u: whether surrogates come in pairs is for the other reader
                return position, UNSURE
            if escaped not in (_QUOTE, _BACKSLASH, 47, 98, 102, 110, 114, 116):
                return position, MISSING
            kind = ESCAPED
        position += 1
    return position, MISSING


@kernel
def _read_digits(data: Any, position: Any, stop: Any) -> Any:
    while position < stop and 48 <= byte_at(data, position) <= 57:
        position += 1
    return position


@kernel
def read_number(data: Any, position: Any, stop: Any) -> tuple[Any, Any]:
    """Read a number; return (position behind it, WHOLE or REAL), MISSING for what is none."""
    first = position
    if byte_at(data, position) == 45:
        position += 1
    digits = position
    position = _read_digits(data, position, stop)
    if position == digits or (byte_at(data, digits) == 48 and position > digits + 1):
        return position, MISSING
    is_minus_zero = digits > first and byte_at(data, digits) == 48
    kind = LARGE if is_minus_zero or position - digits > _WHOLE_DIGITS_MAX else WHOLE
    if position < stop and byte_at(data, position) == 46:
        fraction = position + 1
        position = _read_digits(data, fraction, stop)
        if position == fraction:
            return position, MISSING
        kind = REAL
    if position < stop and (byte_at(data, position) == 101 or byte_at(data, position) == 69):
        position += 1
        if position < stop and (byte_at(data, position) == 43 or byte_at(data, position) == 45):
            position += 1
        power = position
        position = _read_digits(data, power, stop)
        if position == power:
            return position, MISSING
        kind = REAL if position - power <= 2 else UNSURE
    return position, kind if position - first <= _NUMBER_BYTES_MAX else UNSURE


@kernel
def is_name(data: Any, first: Any, last: Any, keys: Any, begin: Any, end: Any) -> Any:
    if last - first != end - begin:
        return False
    for i in range(last - first):  # noqa: SIM110 (a compiled loop)
        if byte_at(data, first + i) != byte_at(keys, begin + i):
            return False
    return True


@kernel
def _has_bytes(data: Any, position: Any, first: Any, second: Any, third: Any) -> Any:
    found = byte_at(data, position) == first and byte_at(data, position + 1) == second
    return found and byte_at(data, position + 2) == third


@kernel
def read_word(data: Any, position: Any, stop: Any) -> tuple[Any, Any]:
    """Read true, false or null; return (position behind it, kind), MISSING for what is none."""
    byte = byte_at(data, position)
    if (
        byte == 102
        and stop - position >= 5
        and _has_bytes(data, position + 1, 97, 108, 115)
        and byte_at(data, position + 4) == 101
    ):
        return position + 5, FALSE
    if byte == 116 and stop - position >= 4 and _has_bytes(data, position + 1, 114, 117, 101):
        return position + 4, TRUE
    if byte == 110 and stop - position >= 4 and _has_bytes(data, position + 1, 117, 108, 108):
        return position + 4, NULL
    return position, MISSING


@kernel
def _read_plain(data: Any, position: Any, stop: Any) -> tuple[Any, Any]:
    """Read what is not in quotes; return (position behind it, kind), MISSING for what is none."""
    if byte_at(data, position) == 45 or 48 <= byte_at(data, position) <= 57:
        return read_number(data, position, stop)
    return read_word(data, position, stop)


@kernel
def _read_name(data: Any, position: Any, stop: Any) -> tuple[Any, Any, Any]:
    """Read a name and the colon behind it; return (position of the closing quote, of what comes next, kind of text)."""
    last, found = _read_text(data, position + 1, stop)
    if byte_at(data, position) != _QUOTE or found in (MISSING, UNSURE):
        return last, last, np.int64(UNSURE if found == UNSURE else MISSING)
    position = skip_blanks(data, last + 1, stop)
    if position >= stop or byte_at(data, position) != 58:
        return last, position, np.int64(MISSING)
    return last, skip_blanks(data, position + 1, stop), np.int64(found)


@kernel
def locate_one(data: Any, position: Any, stop: Any, path: Any, scratch: Any) -> tuple[Any, Any, Any]:
    """Return (kind, begin, end) of what the path leads to in one text; what is an array elsewhere comes as its address.

    path: keys, bounds, places, and how many steps there are. scratch: two arrays of int64 [DEPTH_MAX + 1] to work with.
    """
    keys, bounds, places, steps = path
    counts, is_list = scratch
    kind, begin, end = np.int64(MISSING), position, position
    depth = followed = 0  # how many containers are around, and how many of them, from the outermost, lie on the path
    wanted = True  # whether the value that comes next lies on the path
    state = _BEFORE_VALUE
    position = skip_blanks(data, position, stop)
    while position < stop and (depth > 0 or state == _BEFORE_VALUE):
        byte = byte_at(data, position)
        if state == _BEFORE_VALUE:
            is_target = wanted and depth == steps
            kind = np.int64(MISSING) if wanted else kind  # of equal names the last one counts
            if byte == 123 or byte == 91:
                if depth == DEPTH_MAX:
                    return UNSURE, begin, end
                if is_target:
                    kind, begin, end = np.int64(NESTED), position, position
                depth += 1
                followed = depth if wanted and not is_target else followed
                put_word(is_list, depth, byte == 91)
                put_word(counts, depth, 0)
                position = skip_blanks(data, position + 1, stop)
                state = _BEHIND_OPENING
                continue
            first = position
            if byte == _QUOTE:
                last, found = _read_text(data, position + 1, stop)
                position = last + 1
                first += 1
            else:
                position, found = _read_plain(data, position, stop)
                last = position
            if found in (MISSING, UNSURE):
                return found, begin, end
            if is_target:
                kind, begin, end = found, first, last
            position = skip_blanks(data, position, stop)
            state = _BEHIND_VALUE
            continue
        if byte == (93 if word_at(is_list, depth) else 125):
            depth -= 1
            followed = min(followed, depth)
            position = skip_blanks(data, position + 1, stop)
            state = _BEHIND_VALUE
            continue
        if state == _BEHIND_VALUE:
            position = skip_blanks(data, position + 1, stop)
            if byte != 44 or position >= stop:
                return MISSING, begin, end
        state = _BEFORE_VALUE
        wanted = followed == depth
        if word_at(is_list, depth):
            wanted = wanted and word_at(places, depth - 1) == word_at(counts, depth)
            put_word(counts, depth, word_at(counts, depth) + 1)
            continue
        name = position + 1
        last, position, found = _read_name(data, position, stop)
        if found in (MISSING, UNSURE) or (found == ESCAPED and wanted):
            return (MISSING if found == MISSING else UNSURE), begin, end
        if wanted:
            wanted = word_at(places, depth - 1) < 0 and is_name(
                data, name, last, keys, word_at(bounds, depth - 1), word_at(bounds, depth)
            )
    is_whole = depth == 0 and state == _BEHIND_VALUE and position == stop
    return (kind if is_whole else MISSING), begin, end


@kernel
def locate_values(
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
    """Write what the path leads to in each text, data[starts[i]:stops[i]], and where in `data`; a string without its quotes.

    kinds: uint8; begins, ends: int64, the same for what is nested, whose end nobody has looked for.
    """
    counts = np.zeros(DEPTH_MAX + 1, np.int64)  # how many elements the arrays around have had
    is_list = np.zeros(DEPTH_MAX + 1, np.int64)
    path = keys.ctypes.data, bounds.ctypes.data, places.ctypes.data, len(places)
    scratch = counts.ctypes.data, is_list.ctypes.data
    for i in range(len(kinds)):
        begin, end = np.int64(starts[i]), np.int64(stops[i])
        kinds[i], begins[i], ends[i] = locate_one(data.ctypes.data, begin, end, path, scratch)


@kernel
def close_nested(data: Array, begins: Array, stops: Array, ends: Array) -> None:
    """Write to ends[i] where the object or array that begins at data[begins[i]] ends; texts are JSON, up to stops[i]."""
    texts = data.ctypes.data
    for i in range(len(begins)):
        position, stop, depth = np.int64(begins[i]), np.int64(stops[i]), 0
        while position < stop:
            byte = byte_at(texts, position)
            if byte == _QUOTE:
                position += 1
                while position < stop and byte_at(texts, position) != _QUOTE:
                    position += 2 if byte_at(texts, position) == _BACKSLASH else 1
            elif byte in (91, 123):
                depth += 1
            elif byte in (93, 125):
                depth -= 1
                if depth == 0:
                    break
            position += 1
        ends[i] = min(position + 1, stop)


@kernel
def copy_slices(data: Array, begins: Array, ends: Array, offsets: Array, out: Array) -> None:
    """Write data[begins[i]:ends[i]] end to end at offsets[i]; what lies behind the last may be overwritten."""
    source, target = data.ctypes.data, out.ctypes.data
    for i in range(len(begins)):
        begin, place, length = begins[i], np.int64(offsets[i]), ends[i] - begins[i]
        done = np.int64(0)
        while done < length and begin + done + 16 <= data.size and place + done + 16 <= out.size:
            copy_16(target + place + done, source + begin + done)
            done += 16
        while done < length:
            put_byte(target + place, done, byte_at(source, begin + done))
            done += 1


@kernel
def mark_equal(data: Array, kinds: Array, begins: Array, ends: Array, compared: Array, text: Array, out: Array) -> None:
    """Set out[i] (bool) where data[begins[i]:ends[i]] is a text, and its kind among those that are compared: bool [256]."""
    source, wanted, size = data.ctypes.data, text.ctypes.data, text.size
    for i in range(len(kinds)):
        if compared[kinds[i]] and ends[i] - begins[i] == size:
            k = np.int64(0)
            while k < size and byte_at(source, begins[i] + k) == byte_at(wanted, k):
                k += 1
            if k == size:
                out[i] = True
