"""Tests of texts that lie end to end: `data` uint8, text i is data[offsets[i]:offsets[i + 1]]."""

from typing import Any, TypeAlias

import numpy as np

from gamay.kernels.jit import kernel

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

# lower-case letters of ASCII; all bytes beyond ASCII become 255, which no part of a pattern has
_FOLDED = np.array([b + 32 if 65 <= b <= 90 else b if b < 128 else 255 for b in range(256)], np.uint8)


@kernel
def _find_part(data: Array, position: Any, latest: Any, part: Array) -> Any:
    """Return the position behind the first occurrence of a part that begins at `latest` at the latest; -1 without any."""
    size = len(part)
    first = part[0]
    while position <= latest:
        if _FOLDED[data[np.uint64(position)]] == first:
            k = np.int64(1)
            while k < size and _FOLDED[data[np.uint64(position + k)]] == part[np.uint64(k)]:
                k += 1
            if k == size:
                return position + size
        position += 1
    return np.int64(-1)


@kernel
def match_parts(
    data: Array, offsets: Array, parts: Array, bounds: Array, is_begin_fixed: bool, is_end_fixed: bool, out: Array
) -> None:
    """Set out[i] (bool) where a text holds all parts one after the other, in any case of its ASCII letters.

    parts: lower-case ASCII (uint8), part k is parts[bounds[k]:bounds[k + 1]], none is empty. is_begin_fixed: the first one
    is the beginning of the text; is_end_fixed: the last one is its end.
    """
    between = len(bounds) - 2 if is_end_fixed else len(bounds) - 1
    for i in range(len(out)):
        position, stop = np.int64(offsets[i]), np.int64(offsets[i + 1])
        if is_end_fixed:  # the end is looked at first, and cut off
            size = bounds[between + 1] - bounds[between]
            stop -= size
            if stop < position or _find_part(data, stop, stop, parts[bounds[between] : bounds[between + 1]]) < 0:
                out[i] = False
                continue
        for k in range(between):
            part = parts[bounds[k] : bounds[k + 1]]
            latest = position if k == 0 and is_begin_fixed else stop
            position = _find_part(data, position, min(latest, stop - len(part)), part)
            if position < 0:
                break
        out[i] = position >= 0
