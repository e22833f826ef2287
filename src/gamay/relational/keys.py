"""The condition that a column has one of the keys that another table was found to have."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.scalar.table.joined import encoded_keys, found_in
from gamay.model.types import DataType

# of which IN has a constant each; more are one constant
_LISTED = 64
# of so many values it is worth while to find out whether they are but few
_COUNTED = 1 << 16
# of the whole numbers of a span, how many may be keys so that asking for them leaves out more than asking for the span
_DENSE = 0.75


def is_among(column: Column, keys: pa.Array, data_type: DataType) -> Expression:
    """Return the condition that a column has one of some keys, which are not null and may repeat; by their span segments
    are pruned.
    """
    if len(keys) <= _COUNTED or not pa.types.is_integer(keys.type):
        keys = pc.unique(keys)
        if len(keys) == 0:
            return Literal(False, DataType.BOOLEAN)
        if len(keys) <= _LISTED:
            return Call("in", (column, *(Literal(value, data_type) for value in keys.to_pylist())))
    return Call("and", (_between(column, keys, data_type), found_in(encoded_keys(keys), column)))


def may_be_among(column: Column, keys: pa.Array, data_type: DataType) -> Expression:
    """Return the same, or what holds for others as well, where nearly all whole numbers of a span are keys."""
    return _between(column, keys, data_type) if _fill_their_span(keys) else is_among(column, keys, data_type)


def _between(column: Column, keys: pa.Array, data_type: DataType) -> Expression:
    bounds = pc.min_max(keys).as_py()
    return Call("between", (column, Literal(bounds["min"], data_type), Literal(bounds["max"], data_type)))


def _fill_their_span(keys: pa.Array) -> bool:
    if len(keys) <= _LISTED or not pa.types.is_integer(keys.type):
        return False
    numbers = keys.to_numpy()
    first = int(numbers.min())
    num_places = int(numbers.max()) - first + 1
    if num_places * _DENSE > len(numbers):
        return False
    flags = np.zeros(num_places, np.bool_)
    flags[numbers - first] = True
    return int(np.count_nonzero(flags)) > max(num_places * _DENSE, _LISTED)
