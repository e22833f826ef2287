"""From flags, one for each row, to the rows that they keep. `mask` is uint8 [n], 0 or 1."""

from typing import Any, TypeAlias

import numpy as np

from gamay.kernels.jit import kernel

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@kernel
def compress(values: Array, mask: Array, out: Array) -> Any:
    """Write the values that are kept, one after the other; return how many.

    `out` has one cell more than are kept: every value is written, and the place only moves on after a kept one, which
    costs less than a branch that is mispredicted.
    """
    kept = np.int64(0)
    for i in range(len(values)):
        out[kept] = values[i]
        kept += np.int64(mask[i])
    return kept


@kernel
def masked_docs(mask: Array, words: Array, start: int, out: Array) -> Any:
    """Write `start + i` for each row i that is kept: int32; return how many.

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
