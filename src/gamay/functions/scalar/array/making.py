"""Construction of arrays from arrays and values: concatenation, extension, slices, ranges, and formatting."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.functions.arguments import check_count, check_elements, wrong
from gamay.functions.convert import array_of, repeat
from gamay.functions.expression import Call
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.define import const, each, fixed, lists, scalar
from gamay.functions.vector import Operand, Vector, concat, take
from gamay.model.types import DataType

STRING, INT, LONG, FLOAT, DOUBLE = DataType.STRING, DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE
_TYPES = (("Int", INT), ("Long", LONG), ("Float", FLOAT), ("Double", DOUBLE), ("String", STRING))
_GENERATED_MAX = 1_000_000


def joined(vectors: Sequence[Vector]) -> Vector:
    """Concatenate the arrays of each row."""
    first = vectors[0]
    if len(vectors) == 1:
        return first
    bases = np.cumsum([0, *(len(vector.values) for vector in vectors[:-1])])
    offsets = [np.asarray(vector.offsets, np.int64) for vector in vectors]
    starts = np.stack([offset[:-1] + base for offset, base in zip(offsets, bases, strict=True)], axis=1).ravel()
    lengths = np.stack([np.diff(offset) for offset in offsets], axis=1).ravel()
    values = take(concat([vector.values for vector in vectors]), _ranges(starts, lengths))
    return Vector(first.type, values, np.sum(offsets, axis=0).astype(np.int32))


def _ranges(starts: Any, lengths: Any) -> Any:
    """Return the ranges start, start + 1, ... of each length, concatenated: int64."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - (ends - lengths), lengths)


def _singletons(values: Any, data_type: DataType, count: int) -> Vector:
    """Return the value of each row as an array of one element."""
    if isinstance(values, np.ndarray) and values.ndim == 0:
        values = repeat(values.item(), data_type, count)
    return Vector(data_type, values, np.arange(count + 1, dtype=np.int32))


def _concat_arrays(*vectors: Vector) -> Vector:
    return joined(vectors)


def _push_back(vector: Vector, value: Any) -> Vector:
    return joined([vector, _singletons(value, vector.type, len(vector))])


def _push_front(vector: Vector, value: Any) -> Vector:
    return joined([_singletons(value, vector.type, len(vector)), vector])


def _slice(name: str, data_type: DataType) -> Callable[..., Vector]:
    filler = "null" if data_type is STRING else 0

    def cut(vector: Vector, first: int, last: int) -> Vector:
        """Return the elements [first, last), from 0; those beyond the end are 0, or the text `null`."""
        if first < 0 or last < first:
            raise wrong(
                name,
                f"the range {first} to {last} is invalid; it must begin at 0 or later and must not end before it begins",
            )
        assert vector.offsets is not None
        width = last - first
        check_elements(name, width * len(vector))
        positions = np.repeat(vector.offsets[:-1].astype(np.int64) + first, width)
        positions += np.tile(np.arange(width), len(vector))
        beyond = positions >= np.repeat(vector.offsets[1:], width)
        padded = concat([vector.values, array_of([filler], data_type)])
        positions[beyond] = len(padded) - 1
        return Vector(data_type, take(padded, positions), np.arange(len(vector) + 1, dtype=np.int32) * width)

    return cut


def _generate(name: str, data_type: DataType) -> Callable[..., Vector]:
    whole = data_type in (INT, LONG)

    def generate(first: int | float, last: int | float, step: int | float) -> Vector:
        """Return the range up to and including `last`; empty if the step leads away from it."""
        if step == 0 or step != step:
            raise wrong(name, "the step must not be 0")
        span = (last - first) // step if whole else np.floor((last - first) / step)
        count = max(int(span) + 1, 0)
        if count > _GENERATED_MAX:
            raise wrong(name, f"{count} elements are too many; at most {_GENERATED_MAX} are allowed")
        values = first + np.arange(count) * step
        dtype = array_of([], data_type).dtype
        return Vector(data_type, values.astype(dtype), np.array([0, count], np.int32))

    return generate


for _suffix, _type in _TYPES:
    scalar(f"arrayConcat{_suffix}", params=(lists(_type), lists(_type)), returns=_type, variadic=True, multi_value=True)(
        _concat_arrays
    )
    scalar(f"arrayPushBack{_suffix}", params=(lists(_type), each(_type)), returns=_type, multi_value=True)(_push_back)
    scalar(f"arrayPushFront{_suffix}", params=(lists(_type), each(_type)), returns=_type, multi_value=True)(_push_front)
    scalar(f"arraySlice{_suffix}", params=(lists(_type), const(INT), const(INT)), returns=_type, multi_value=True)(
        _slice(f"arraySlice{_suffix}", _type)
    )
    if _type is not STRING:
        scalar(
            f"generate{_suffix}Array", params=(fixed(_type), fixed(_type), fixed(_type)), returns=_type, multi_value=True
        )(_generate(f"generate{_suffix}Array", _type))


@scalar("arrayToString", params=(lists(STRING), const(STRING), const(STRING)), returns=STRING, optional=1)
def array_to_string(array: Vector, separator: str, null_text: str | None = None) -> Any:
    """The elements joined by a separator; null placeholders (`null`, empty texts) are replaced by the third argument."""
    values = array.values
    if null_text is not None:
        values = pc.if_else(pc.is_in(values, pa.array(["null", ""])), null_text, values)
    rows = pa.ListArray.from_arrays(pa.array(np.asarray(array.offsets, np.int32)), values)
    return pc.binary_join(rows, separator)


def _to_mv_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    check_count("arrayToMv", len(types), 1, 1)
    if not types[0][1]:
        raise wrong("arrayToMv", "argument 1 must be multi-value")
    return types[0]


def _to_mv(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    """Return the array itself: arrays and multi-value columns are represented alike."""
    return args[0]


register_scalar(["arrayToMv"], ScalarFunction("arrayToMv", 1, 1, _to_mv_type, _to_mv, can_fold=False))
