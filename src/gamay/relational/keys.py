"""The condition that a column has one of the keys that another table was found to have."""

import pyarrow as pa
import pyarrow.compute as pc

from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.scalar.table.joined import encoded, found_in
from gamay.model.types import DataType

# of which IN has a constant each; more are one constant
_LISTED = 64


def is_among(column: Column, keys: pa.Array, data_type: DataType) -> Expression:
    """Return the condition that a column has one of some keys, which are distinct and not null; by their span segments are
    pruned.
    """
    if len(keys) == 0:
        return Literal(False, DataType.BOOLEAN)
    if len(keys) <= _LISTED:
        return Call("in", (column, *(Literal(value, data_type) for value in keys.to_pylist())))
    bounds = pc.min_max(keys).as_py()
    between = Call("between", (column, Literal(bounds["min"], data_type), Literal(bounds["max"], data_type)))
    return Call("and", (between, found_in(encoded(keys, pa.repeat(True, len(keys))), column)))
