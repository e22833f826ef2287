"""The memory size of objects: exact for arrays, estimated from a sample for Python objects.

Parts of a segment (its mapped columns, its dictionaries) are not held by a query, and are not counted.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

_SAMPLE = 16
# the assumed size of a Decimal, a library's sketch etc. that do not report their size
_OBJECT_BYTES = 128
_BYTES_PER_RETAINED = 16
# attributes that refer to parts of a segment, or to shared objects
_SHARED = frozenset({"dictionary", "_dictionary", "_entries", "_plan", "_aggregate", "_inner_aggregate"})
_ATOMS = (int, float, bool, str, bytes, complex, type(None), type, np.dtype, np.generic, Enum)


def held_bytes(value: Any) -> int:
    """Return the size in bytes of a value and of all it refers to."""
    kind = type(value)
    try:
        measure = _MEASURES[kind]
    except KeyError:
        measure = _MEASURES[kind] = _measure(kind)
    return measure(value) if measure is not None else 0


def _measure(kind: type) -> Callable[[Any], int] | None:
    """Return the function that measures instances of a class; None if they count nothing. Determined once per class."""
    if issubclass(kind, np.ndarray):
        return _array_bytes
    if issubclass(kind, pa.Array | pa.ChunkedArray):
        return lambda value: int(value.nbytes)
    if issubclass(kind, str | bytes):
        return sys.getsizeof
    if issubclass(kind, _ATOMS):
        return None
    if issubclass(kind, dict):
        return _dict_bytes
    if issubclass(kind, list | tuple | set | frozenset):
        return lambda value: sys.getsizeof(value) + _sampled(value, len(value))
    if not kind.__module__.startswith("gamay."):
        return _foreign_bytes
    read = _reader(kind)
    if read is None:  # attributes may be added and removed
        return lambda value: sum([held_bytes(part) for name, part in vars(value).items() if name not in _SHARED])
    return lambda value: sum([held_bytes(part) for part in read(value)])


_MEASURES: dict[type, Callable[[Any], int] | None] = {}


def _dict_bytes(value: dict[Any, Any]) -> int:
    return sys.getsizeof(value) + _sampled(value.keys(), len(value)) + _sampled(value.values(), len(value))


def _foreign_bytes(value: Any) -> int:
    retained = getattr(value, "num_retained", None)
    return _OBJECT_BYTES + (_BYTES_PER_RETAINED * int(retained) if isinstance(retained, int) else 0)


def _array_bytes(array: "np.ndarray[Any, Any]") -> int:
    if array.dtype.hasobject:
        return int(array.nbytes) + _sampled(array.flat, array.size)
    base = array.base
    while isinstance(base, np.ndarray):
        base = base.base
    # an array over a mapped file has that file, or a view of it, as its base
    return 0 if isinstance(base, memoryview) or type(base).__name__ in ("mmap", "Buffer") else int(array.nbytes)


def _sampled(values: Iterable[Any], count: int) -> int:
    """Return the size of `count` values, estimated from a sample if there are many."""
    if count <= 2 * _SAMPLE:
        return sum([_element_bytes(value) for value in values])
    total = sum(map(_element_bytes, _every(values, count // _SAMPLE)))
    return total * count // -(-count // (count // _SAMPLE))


def _every(values: Iterable[Any], step: int) -> Iterator[Any]:
    if hasattr(values, "__getitem__"):
        yield from values[::step]
        return
    for index, value in enumerate(values):
        if index >= _SAMPLE * step:
            return
        if index % step == 0:
            yield value


def _element_bytes(value: Any) -> int:
    return sys.getsizeof(value) if isinstance(value, int | float) else held_bytes(value)


def _reader(kind: type) -> Callable[[Any], tuple[Any, ...]] | None:
    """Return the function that reads the relevant attributes of a class with slots; None for other classes.

    A property that overrides a base's slot holds nothing itself, and may have to be computed.
    """
    names = [
        name
        for owner in kind.__mro__
        for name in getattr(owner, "__slots__", ())
        if name not in _SHARED and not isinstance(getattr(kind, name), property)
    ]
    if not names:
        return None if kind.__dictoffset__ else lambda _: ()  # whether its instances have a dictionary
    getter = attrgetter(*names)
    return (lambda value: (getter(value),)) if len(names) == 1 else getter
