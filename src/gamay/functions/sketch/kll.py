"""KLL sketches of doubles, managed by the datasketches library; sizes that it would trust are validated here.

| bytes     | hold                                                                                        |
| --------- | ------------------------------------------------------------------------------------------- |
| 0 to 2    | 5 (2 for none or one value); 1 (2 for one value); 15                                        |
| 3         | flags: 1 empty, 2 the lowest level is sorted, 4 one value                                   |
| 4 to 7    | k (2 bytes), 8, 0                                                                           |

Nothing follows in an empty sketch, and the value in one of one value. Else

| bytes     | hold                                                                                        |
| --------- | ------------------------------------------------------------------------------------------- |
| 8 to 19   | the number of values that came (8 bytes), the smallest k of all merged (2), the number of levels, 0 |
| 20 to ... | where each level begins among all places (4 bytes each), the smallest and the largest value |

then the values that are kept: those of level i stand for 2**i each. All numbers are little-endian.
"""

import struct
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from gamay.functions.sketch.compact import not_a_sketch
from gamay.functions.sketch.deferred import datasketches

KllSketch: TypeAlias = Any  # a kll_doubles_sketch

_FAMILY = 15
_EMPTY, _SINGLE = 1, 4
_K_MIN, _M = 8, 8
_LEVELS_MAX = 60
_VALUE_BYTES = 8


def new_sketch(k: int) -> KllSketch:
    """Return an empty sketch."""
    return datasketches().kll_doubles_sketch(k)


def parse(data: bytes) -> KllSketch:
    """Deserialise a sketch. Raises QueryError 200 for invalid bytes."""
    try:
        _check(data)
        return datasketches().kll_doubles_sketch.deserialize(data)
    except (RuntimeError, ValueError, IndexError, MemoryError) as error:
        raise not_a_sketch("KLL", data, error) from error


def _check(data: bytes) -> None:
    """Refuse bytes that might crash the library, which trusts the numbers of values and of levels in them."""
    if len(data) < 8 or data[2] != _FAMILY or data[6] != _M or data[0] not in (2, 5) or data[1] not in (1, 2):
        raise ValueError("its header is invalid")
    k, flags = int.from_bytes(data[4:6], "little"), data[3]
    if k < _K_MIN:
        raise ValueError(f"its k, {k}, is below {_K_MIN}")
    if flags & (_EMPTY | _SINGLE):
        if data[0] != 2 or len(data) != (8 if flags & _EMPTY else 8 + _VALUE_BYTES):
            raise ValueError("its length does not match its header")
        return
    num_levels = data[18] if len(data) > 20 else 0
    if data[0] != 5 or not 1 <= num_levels <= _LEVELS_MAX or len(data) < 20 + 4 * num_levels:
        raise ValueError("the length of its header is wrong")
    head = 20 + 4 * num_levels
    places = (*struct.unpack_from(f"<{num_levels}I", data, 20), _capacity(k, num_levels))
    counts = [following - place for place, following in pairwise(places)]
    if min(counts) < 0 or len(data) != head + (2 + places[-1] - places[0]) * _VALUE_BYTES:
        raise ValueError("the lengths of its levels do not match its header")
    came = int.from_bytes(data[8:16], "little")
    if sum([count << level for level, count in enumerate(counts)]) != came:
        raise ValueError(f"its values do not stand for {came}")
    least = np.frombuffer(data, "<f8", -1, head).min()
    if least != least:
        raise ValueError("a value is NaN")


@lru_cache(maxsize=1 << 10)
def _capacity(k: int, num_levels: int) -> int:
    """Return the capacity of all levels: k of the highest, 2/3 of the one above for each lower one, but at least 8."""
    return sum(max(_M, _two_thirds(k, depth)) for depth in range(num_levels))


def _two_thirds(k: int, times: int) -> int:
    """Return k * (2/3)**times, rounded as by the library."""
    if times > 30:
        return _two_thirds(_two_thirds(k, times // 2), times - times // 2)
    return (((2 * k) << times) // int(3**times) + 1) >> 1
