"""Values that ascend, of several dictionaries, as one: no value is looked up, as both are walked side by side."""

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel


@kernel
def merge_ascending(one: Array, other: Array, merged: Array, of_one: Array, of_other: Array) -> int:
    """Write the values of both, each once, and return how many there are. None of them is NaN.

    one, other: int64, or float64; without repeats. merged: of that type, as long as both together. of_one, of_other: int32,
    take the place of each value among the merged ones.
    """
    i, j, count = 0, 0, 0
    while i < len(one) and j < len(other):
        left, right = one[i], other[j]
        merged[count] = min(left, right)
        of_one[i] = count  # of the value that is greater once more later
        of_other[j] = count
        i += int(left <= right)
        j += int(right <= left)
        count += 1
    while i < len(one):
        merged[count] = one[i]
        of_one[i] = count
        i += 1
        count += 1
    while j < len(other):
        merged[count] = other[j]
        of_other[j] = count
        j += 1
        count += 1
    return count
