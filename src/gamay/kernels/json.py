"""Values in JSON texts (RFC 8259) by path, found without building anything.

Texts lie end to end in `data` (uint8, valid UTF-8): text i is data[offsets[i]:offsets[i + 1]]. A path is made of names and
positions: step k is the name keys[bounds[k]:bounds[k + 1]] (uint8), or the position places[k] (int64) where that is not
negative. A whole text is read, as what is no JSON has no values; of equal names in an object the last one counts.
"""

from typing import Any, TypeAlias

import numpy as np

from gamay.kernels.jit import inlined, kernel

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

# What is found. WHOLE: of 18 digits at most; LARGE: of more, or -0. ESCAPED: a string with backslashes. NESTED: an object or
# array. UNSURE: a text with something rare that another reader has to decide on.
MISSING, NULL, TRUE, FALSE, WHOLE, REAL, TEXT, ESCAPED, NESTED, LARGE, UNSURE = range(11)

_BEFORE_VALUE, _BEHIND_OPENING, _BEHIND_VALUE = range(3)
_DEPTH_MAX = 64
_WHOLE_DIGITS_MAX = 18
_NUMBER_BYTES_MAX = 40

_QUOTE, _BACKSLASH, _SPACE = 34, 92, 32
_WORDS = np.frombuffer(b"truefalsenull", np.uint8)


@inlined
def _skip_blanks(data: Array, position: Any, stop: Any) -> Any:
    while position < stop and data[np.uint64(position)] <= _SPACE:
        if data[np.uint64(position)] not in (32, 10, 13, 9):
            return position
        position += 1
    return position


@inlined
def _read_text(data: Array, position: Any, stop: Any) -> tuple[Any, Any]:
    """Read a string from behind its opening quote; return (position of the closing one, kind), MISSING for what is none."""
    kind = TEXT
    while position < stop:
        byte = data[np.uint64(position)]
        if byte == _QUOTE:
            return position, kind
        if byte < _SPACE:
            return position, MISSING
        if byte == _BACKSLASH:
            position += 1
            if position >= stop:
                return position, MISSING
            escaped = data[np.uint64(position)]
            if escaped == 117:  # u: whether surrogates come in pairs is for the other reader
                return position, UNSURE
            if escaped not in (_QUOTE, _BACKSLASH, 47, 98, 102, 110, 114, 116):
                return position, MISSING
            kind = ESCAPED
        position += 1
    return position, MISSING


@inlined
def _read_digits(data: Array, position: Any, stop: Any) -> Any:
    while position < stop and 48 <= data[np.uint64(position)] <= 57:
        position += 1
    return position


@kernel
def _read_number(data: Array, position: Any, stop: Any) -> tuple[Any, Any]:
    """Read a number; return (position behind it, WHOLE or REAL), MISSING for what is none."""
    first = position
    if data[np.uint64(position)] == 45:
        position += 1
    digits = position
    position = _read_digits(data, position, stop)
    if position == digits or (data[np.uint64(digits)] == 48 and position > digits + 1):
        return position, MISSING
    is_minus_zero = digits > first and data[np.uint64(digits)] == 48
    kind = LARGE if is_minus_zero or position - digits > _WHOLE_DIGITS_MAX else WHOLE
    if position < stop and data[np.uint64(position)] == 46:
        fraction = position + 1
        position = _read_digits(data, fraction, stop)
        if position == fraction:
            return position, MISSING
        kind = REAL
    if position < stop and (data[np.uint64(position)] == 101 or data[np.uint64(position)] == 69):
        position += 1
        if position < stop and (data[np.uint64(position)] == 43 or data[np.uint64(position)] == 45):
            position += 1
        power = position
        position = _read_digits(data, power, stop)
        if position == power:
            return position, MISSING
        kind = REAL if position - power <= 2 else UNSURE
    return position, kind if position - first <= _NUMBER_BYTES_MAX else UNSURE


@inlined
def _is_name(data: Array, first: Any, last: Any, keys: Array, begin: Any, end: Any) -> Any:
    if last - first != end - begin:
        return False
    for i in range(last - first):  # noqa: SIM110 (a compiled loop)
        if data[np.uint64(first + i)] != keys[np.uint64(begin + i)]:
            return False
    return True


@inlined
def _read_word(data: Array, position: Any, stop: Any) -> tuple[Any, Any]:
    """Read true, false or null; return (position behind it, kind), MISSING for what is none."""
    if stop - position >= 4 and _is_name(data, position, position + 4, _WORDS, 0, 4):
        return position + 4, TRUE
    if stop - position >= 5 and _is_name(data, position, position + 5, _WORDS, 4, 9):
        return position + 5, FALSE
    if stop - position >= 4 and _is_name(data, position, position + 4, _WORDS, 9, 13):
        return position + 4, NULL
    return position, MISSING


@inlined
def _read_plain(data: Array, position: Any, stop: Any) -> tuple[Any, Any]:
    """Read what is not in quotes; return (position behind it, kind), MISSING for what is none."""
    if data[np.uint64(position)] == 45 or 48 <= data[np.uint64(position)] <= 57:
        return _read_number(data, position, stop)
    return _read_word(data, position, stop)


@kernel
def _locate_one(
    data: Array, position: Any, stop: Any, keys: Array, bounds: Array, places: Array, counts: Array, is_list: Array
) -> tuple[Any, Any, Any]:
    """Return (kind, begin, end) of what the path leads to in one text; counts, is_list: [_DEPTH_MAX + 1], to work with."""
    steps = len(places)
    kind, begin, end = MISSING, position, position
    depth = followed = 0  # how many containers are around, and how many of them, from the outermost, lie on the path
    wanted = True  # whether the value that comes next lies on the path
    state = _BEFORE_VALUE
    position = _skip_blanks(data, position, stop)
    while position < stop and (depth > 0 or state == _BEFORE_VALUE):
        byte = data[np.uint64(position)]
        if state == _BEFORE_VALUE:
            is_target = wanted and depth == steps
            kind = MISSING if wanted else kind  # of equal names the last one counts
            if byte == 123 or byte == 91:
                if depth == _DEPTH_MAX:
                    return UNSURE, begin, end
                kind = NESTED if is_target else kind
                depth += 1
                followed = depth if wanted and not is_target else followed
                is_list[depth] = byte == 91
                counts[depth] = 0
                position = _skip_blanks(data, position + 1, stop)
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
            position = _skip_blanks(data, position, stop)
            state = _BEHIND_VALUE
            continue
        if byte == (93 if is_list[depth] else 125):
            depth -= 1
            followed = min(followed, depth)
            position = _skip_blanks(data, position + 1, stop)
            state = _BEHIND_VALUE
            continue
        if state == _BEHIND_VALUE:
            position = _skip_blanks(data, position + 1, stop)
            if byte != 44 or position >= stop:
                return MISSING, begin, end
        state = _BEFORE_VALUE
        wanted = followed == depth
        if is_list[depth]:
            wanted = wanted and places[depth - 1] == counts[depth]
            counts[depth] += 1
            continue
        last, found = _read_text(data, position + 1, stop)
        if data[np.uint64(position)] != _QUOTE or found == MISSING:
            return MISSING, begin, end
        if found == UNSURE or (found == ESCAPED and wanted):
            return UNSURE, begin, end
        if wanted:
            wanted = places[depth - 1] < 0 and _is_name(data, position + 1, last, keys, bounds[depth - 1], bounds[depth])
        position = _skip_blanks(data, last + 1, stop)
        if position >= stop or data[np.uint64(position)] != 58:
            return MISSING, begin, end
        position = _skip_blanks(data, position + 1, stop)
    is_whole = depth == 0 and state == _BEHIND_VALUE and position == stop
    return (kind if is_whole else MISSING), begin, end


@kernel
def locate_values(
    data: Array, offsets: Array, keys: Array, bounds: Array, places: Array, kinds: Array, begins: Array, ends: Array
) -> None:
    """Write what the path leads to in each text, and where in `data` it lies; a string without its quotes.

    kinds: uint8; begins, ends: int64.
    """
    counts = np.zeros(_DEPTH_MAX + 1, np.int64)  # how many elements the arrays around have had
    is_list = np.zeros(_DEPTH_MAX + 1, np.bool_)
    for i in range(len(kinds)):
        kind, begin, end = _locate_one(
            data, np.int64(offsets[i]), np.int64(offsets[i + 1]), keys, bounds, places, counts, is_list
        )
        kinds[i], begins[i], ends[i] = kind, begin, end


@kernel
def copy_slices(data: Array, begins: Array, ends: Array, offsets: Array, out: Array) -> None:
    """Write data[begins[i]:ends[i]] end to end at offsets[i]."""
    for i in range(len(begins)):
        place = np.int64(offsets[i])
        for k in range(begins[i], ends[i]):
            out[place] = data[k]
            place += 1
