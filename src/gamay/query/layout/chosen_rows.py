"""Rows that have one of several values in a column."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import InvalidConfigError
from gamay.functions.arrow import arrow_type
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.types import DataType

_WHOLE = (DataType.INT, DataType.LONG, DataType.TIMESTAMP)


def values_of_texts(spec: FieldSpec, texts: Sequence[str]) -> pa.Array:
    """Parse values of a column from texts: bytes in hexadecimal, times in milliseconds since 1970.

    Raises InvalidConfigError for a text that is not a value of the column.
    """
    kind = arrow_type(spec.data_type, True)
    try:
        if spec.data_type is DataType.BYTES:
            return pa.array([bytes.fromhex(text) for text in texts], kind)
        given = pa.array(texts, pa.string())
        return given.cast(pa.int64()).cast(kind) if spec.data_type in _WHOLE else given.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise InvalidConfigError(
            f"values of column '{spec.name}', which is {spec.data_type.value}, cannot be read: {error}"
        ) from error


def rows_with(column: pa.Array, values: pa.Array) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Return a flag for each row that has one of the values, in a multi-value column at least once: bool [rows]."""
    if not pa.types.is_list(column.type):
        return np.asarray(pc.is_in(column, value_set=values.cast(column.type)).to_numpy(zero_copy_only=False), np.bool_)
    found = np.zeros(len(column), np.bool_)
    parents = np.asarray(pc.list_parent_indices(column))
    hits = pc.is_in(pc.list_flatten(column), value_set=values.cast(column.type.value_type))
    found[parents[np.asarray(hits.to_numpy(zero_copy_only=False), np.bool_)]] = True
    return found
