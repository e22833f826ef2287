"""Normalisation of Arrow arrays' encodings, and conversions that report the values that failed."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import QueryError

Mask: TypeAlias = npt.NDArray[np.bool_]
Cast: TypeAlias = Callable[[pa.Array], pa.Array]

Compute: TypeAlias = Callable[[int, int], pa.Array]

_ROW_ERRORS = (pa.ArrowException, ArithmeticError, ValueError, QueryError)


def is_json_text(data_type: pa.DataType) -> bool:
    """Whether a column has JSON text of nested values (as produced by the JSON reader)."""
    return isinstance(data_type, pa.JsonType)


def plain(array: pa.Array) -> pa.Array:
    """Return the same values without dictionary, view, large or extension types; half floats become floats."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain(array.storage)
    if pa.types.is_dictionary(kind):
        return plain(array.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return plain(pc.run_end_decode(array))
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return array.cast(pa.string())
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind):
        return array.cast(pa.binary())
    if pa.types.is_float16(kind):
        return array.cast(pa.float32())
    if pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return array.cast(pa.list_(kind.value_type))
    return array


def rows_of_values(lists: pa.Array) -> npt.NDArray[np.int64]:
    """Return the row of each value of `pyarrow.compute.list_flatten`: int64, ascending.

    Unlike `list_parent_indices`, this excludes the hidden values of null lists.
    """
    return np.repeat(np.arange(len(lists)), np.asarray(pc.list_value_length(lists).fill_null(0)))


def convert_each(array: pa.Array, cast: Cast, target: pa.DataType) -> tuple[pa.Array, Mask | None]:
    """Apply a cast that raises if it cannot convert some value; return the result and a mask of the failed values.

    Failed values are null in the result; the mask is None if there are none.
    """
    return compute_each(len(array), lambda start, stop: cast(array.slice(start, stop - start)), target)


def compute_each(num_rows: int, compute: Compute, target: pa.DataType) -> tuple[pa.Array, Mask | None]:
    """Compute rows that may fail one by one: like `convert_each`, for `compute(start, stop)`.

    It is called for ever smaller ranges around failing rows, so it must work on any range.
    """
    try:
        return compute(0, num_rows), None
    except _ROW_ERRORS:
        pass
    failed = np.zeros(num_rows, np.bool_)
    done: list[tuple[int, pa.Array]] = []
    pending = [(0, num_rows)]
    while pending:
        start, stop = pending.pop()
        if stop == start:
            continue
        try:
            done.append((start, compute(start, stop)))
        except _ROW_ERRORS:
            if stop - start == 1:
                failed[start] = True
                done.append((start, pa.nulls(1, target)))
            else:
                middle = (start + stop) // 2
                pending += [(start, middle), (middle, stop)]
    parts = [part for _, part in sorted(done, key=lambda item: item[0])]
    return (pa.concat_arrays(parts) if parts else pa.nulls(0, target)), failed


def null_where(array: pa.Array, mask: pa.Array | Mask) -> pa.Array:
    """Return the array with null where the mask is true."""
    condition = pa.array(mask) if isinstance(mask, np.ndarray) else mask
    return pc.if_else(condition, pa.scalar(None, array.type), array)


def list_array(counts: npt.NDArray[np.int64], values: pa.Array) -> pa.Array:
    """Return lists of the given lengths over the values end to end; an empty list becomes null."""
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(counts == 0))
