"""From flags, one for each row, to the rows that they keep. `mask` is uint8 [n], 0 or 1."""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import inlined, kernel, kernel_needing
from gamay.kernels.raw_memory import LANES, compressing, has_features

_WIDE = ("avx512f", "avx512vbmi2")


@kernel
def compress_each(values: Array, mask: Array, out: Array) -> Any:
    """Do what `compress` does, value by value: 0.25 ns each.

    Every value is written, and the place only moves on after a kept one, which costs less than a mispredicted branch.
    """
    kept = np.int64(0)
    for i in range(len(values)):
        out[kept] = values[i]
        kept += np.int64(mask[i])
    return kept


_compress_bytes = compressing(8)
_compress_halfwords = compressing(16)
_compress_words = compressing(32)
_compress_doubles = compressing(64)


@inlined
def _compress_several(values: Array, mask: Array, out: Array, several: Any) -> Any:
    """Keep 64 bytes of values at a time as long as there is room for all of them: 0.03 ns a byte, 0.08 for four."""
    width = np.int64(values.itemsize)
    lanes = LANES // width
    source, flags, target = values.ctypes.data, mask.ctypes.data, out.ctypes.data
    kept = first = np.int64(0)
    while first + lanes <= len(values) and kept + lanes <= len(out):
        kept += several(target + width * kept, source + width * first, flags + first)
        first += lanes
    for i in range(first, len(values)):
        out[kept] = values[i]
        kept += np.int64(mask[i])
    return kept


@kernel_needing(*_WIDE)
def compress_bytes(values: Array, mask: Array, out: Array) -> Any:
    """Do what `compress` does for uint8, on processors that can."""
    return _compress_several(values, mask, out, _compress_bytes)


@kernel_needing(*_WIDE)
def compress_halfwords(values: Array, mask: Array, out: Array) -> Any:
    """Do what `compress` does for uint16, on processors that can."""
    return _compress_several(values, mask, out, _compress_halfwords)


@kernel_needing(*_WIDE)
def compress_words(values: Array, mask: Array, out: Array) -> Any:
    """Do what `compress` does for uint32, on processors that can."""
    return _compress_several(values, mask, out, _compress_words)


@kernel_needing(*_WIDE)
def compress_doubles(values: Array, mask: Array, out: Array) -> Any:
    """Do what `compress` does for uint64, on processors that can."""
    return _compress_several(values, mask, out, _compress_doubles)


_COMPRESSING: dict[int, Any] = {}
if has_features(*_WIDE):
    _COMPRESSING = {1: compress_bytes, 2: compress_halfwords, 4: compress_words, 8: compress_doubles}


def compress(values: Array, mask: Array, out: Array) -> int:
    """Write the values that are kept, one after the other; return how many. All arrays are contiguous.

    `out`, of the same dtype, has one cell more than are kept; what is behind them is of no meaning.
    """
    unsigned = np.dtype(f"u{values.itemsize}")
    several = _COMPRESSING.get(values.itemsize, compress_each)
    return int(several(np.ascontiguousarray(values).view(unsigned), mask, out.view(unsigned)))


@kernel
def masked_docs_each(mask: Array, words: Array, start: int, out: Array) -> Any:
    """Do what `masked_docs` does, row by row, on any processor: 0.4 ns each.

    words: the mask as uint64, eight flags each, without the last len(mask) % 8; 64 rows that are all dropped cost one look,
    others no branch. `out` has one cell more than are kept.
    """
    kept = np.int64(0)
    whole = len(words) // 8 * 8
    for word in range(0, whole, 8):
        any_of_four = words[word] | words[word + 1] | words[word + 2] | words[word + 3]
        any_of_others = words[word + 4] | words[word + 5] | words[word + 6] | words[word + 7]
        if (any_of_four | any_of_others) != 0:
            for i in range(8 * word, 8 * word + 64):
                out[kept] = start + i
                kept += np.int64(mask[i])
    for i in range(8 * whole, len(mask)):
        out[kept] = start + i
        kept += np.int64(mask[i])
    return kept


_PLACES = np.arange(LANES, dtype=np.uint8)


@kernel_needing(*_WIDE)
def masked_docs_several(mask: Array, start: int, out: Array) -> Any:
    """Do what `masked_docs` does, 64 rows at a time: their places, a byte each, are compressed and then widened.

    0.04 ns a row where few are kept, 0.1 at one in ten, 0.3 where all are. `out` has `LANES` cells more than are kept.
    """
    places = np.empty(LANES, np.uint8)
    source, flags, target = _PLACES.ctypes.data, mask.ctypes.data, places.ctypes.data
    kept = first = np.int64(0)
    while first + LANES <= len(mask):
        found = _compress_bytes(target, source, flags + first)
        for k in range(0, found, 16):
            for i in range(k, k + 16):
                out[kept + i] = start + first + np.int64(places[i])
        kept += found
        first += LANES
    for i in range(first, len(mask)):
        out[kept] = start + i
        kept += np.int64(mask[i])
    return kept


def masked_docs(mask: Array, start: int, kept: int) -> Array:
    """Return `start + i` for each row i that is kept: int32. mask: contiguous; kept: how many these are."""
    out = np.empty(kept + LANES, np.int32)
    if _COMPRESSING:
        return out[: masked_docs_several(mask, start, out)]
    words = mask[: len(mask) // 8 * 8].view(np.uint64)
    if not words.flags.aligned:  # a part of a larger mask, from anywhere on
        return masked_docs(mask.copy(), start, kept)
    return out[: masked_docs_each(mask, words, start, out)]


@kernel
def mask_groups(groups: Array, mask: Array, dropped: int, out: Array) -> None:
    """Write the group of each row that is kept, and for the others one of the eight groups from `dropped` on.

    Eight, because rows that are added to one group must wait for each other.
    """
    for i in range(len(out)):
        out[i] = np.int64(groups[i]) if mask[i] != 0 else dropped + (i & 7)


@kernel
def replace_marked(ids: Array, marks: Array, by: Any, out: Array) -> None:
    """Write each id, or `by`, of the type of `out`, where `marks[i]` is not 0.

    Nothing is widened, so that a vector instruction chooses as many as fit.
    """
    for i in range(len(out)):
        kept = ids[i]
        out[i] = by if marks[i] != 0 else kept


@kernel
def choose_marked(marks: Array, place: Any, choice: Array) -> None:
    """Write `place`, of the type of `choice`, where `marks[i]` is not 0. One array that is read and written is no alias."""
    for i in range(len(choice)):
        kept = choice[i]
        choice[i] = place if marks[i] != 0 else kept


@kernel
def replace_chosen(choice: Array, place: int, value: Any, out: Array) -> None:
    """Write `value` where `choice[i]` is `place`; choice: unsigned."""
    for i in range(len(out)):
        out[i] = value if choice[i] == place else out[i]


@kernel
def replace_chosen_by(choice: Array, place: int, values: Array, out: Array) -> None:
    """Write `values[i]` where `choice[i]` is `place`; choice: unsigned."""
    for i in range(len(out)):
        chosen, kept = values[i], out[i]  # both are read, or there would be a branch
        out[i] = chosen if choice[i] == place else kept


@kernel
def compress_lists(values: Array, offsets: Array, mask: Array, out: Array, out_offsets: Array) -> None:
    """Write the lists that are kept, values[offsets[i]:offsets[i + 1]] end to end, and their offsets, which begin with 0.

    mask: uint8 [number of lists]; `out` and `out_offsets` are as long as what is kept.
    """
    count = np.int64(0)
    rows = np.int64(0)
    out_offsets[0] = 0
    for i in range(len(mask)):
        if mask[i] != 0:
            for k in range(np.int64(offsets[i]), np.int64(offsets[i + 1])):
                out[count] = values[np.uint64(k)]
                count += 1
            rows += 1
            out_offsets[rows] = count


@kernel
def compress_texts(data: Array, offsets: Array, mask: Array, out: Array, out_offsets: Array) -> None:
    """Write the byte strings data[offsets[i]:offsets[i + 1]] that are kept end to end, and their offsets, from 0 on.

    data, out: uint8; mask: uint8 [number of strings]; `out_offsets` is as long as what is kept, `out` at least. Strings of
    neighbours are copied together, as most masks keep many rows in turn.
    """
    count = rows = row = np.int64(0)
    out_offsets[0] = 0
    while row < len(mask):
        if mask[row] == 0:
            row += 1
            continue
        begin = np.int64(offsets[row])
        while row < len(mask) and mask[row] != 0:
            row += 1
            rows += 1
            out_offsets[rows] = count + np.int64(offsets[row]) - begin
        for k in range(np.int64(offsets[row]) - begin):
            out[np.uint64(count + k)] = data[np.uint64(begin + k)]
        count += np.int64(offsets[row]) - begin
