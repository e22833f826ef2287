"""lookUp('dimTable', 'column', 'key', x, …): a value of the row of a dimension table with a given key.

The call in a query names a table, which the broker resolves (`gamay.broker.answer.lookups`): it replaces the call by one
that includes the type of the result, which servers compute, over the distinct values of x if x is encoded.
"""

from collections.abc import Sequence

import numpy as np

from gamay.functions.arguments import wrong
from gamay.functions.convert import python_values
from gamay.functions.dimension import dimension_table
from gamay.functions.expression import LOOKUP, Call, Literal
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.text import to_text
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector, take, take_rows, union_nulls
from gamay.model.types import DataType

NAME = "lookUp"
NUM_CONSTANTS = 4
"""The number of arguments of LOOKUP before the key."""

_ELSEWHERE = "it is resolved by the broker in the clauses of a query and is not allowed elsewhere"


def _constant(call: Call, position: int) -> str:
    argument = call.args[position]
    assert isinstance(argument, Literal)
    return str(argument.value)


def _result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    for argument, (_, multi_value) in zip(call.args[NUM_CONSTANTS:], types[NUM_CONSTANTS:], strict=True):
        if multi_value:
            raise wrong(NAME, f"a key must be a single value; {to_text(argument)} is multi-value")
    multi = call.args[3]
    return DataType(_constant(call, 2)), isinstance(multi, Literal) and multi.value is True


def _compute(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    """Return the column's value in the row of the key, its default null value if there is none; null for a null key."""
    table, keys = dimension_table(_constant(call, 0)), args[NUM_CONSTANTS:]
    data_type, multi_value = _result_type(call, [(arg.type, False) for arg in args])
    column = table.column(_constant(call, 1))
    if (column.type, column.offsets is not None) != (data_type, multi_value) or len(keys) != table.num_keys:
        raise wrong(NAME, f"table '{table.name}' was changed meanwhile; retry the query")
    if any(isinstance(key, Scalar) and key.value is None for key in keys):
        return Scalar(None, data_type)
    if all(isinstance(key, Scalar) for key in keys):
        return _of_one_key(column, table.rows(keys, 1), num_rows)
    if len(keys) == 1 and isinstance(keys[0], EncodedVector) and len(keys[0].dictionary) <= len(keys[0].ids):
        rows = take(table.rows([keys[0].dictionary], len(keys[0].dictionary)), keys[0].ids)
    else:
        rows = table.rows(keys, num_rows)
    found = take_rows(column, rows)
    assert not isinstance(found, Scalar)
    found.nulls = union_nulls(keys)
    return found


def _of_one_key(column: Vector | EncodedVector, row: "np.ndarray[tuple[int], np.dtype[np.int64]]", num_rows: int) -> Operand:
    if column.offsets is not None:
        return take_rows(column, np.repeat(row, num_rows))
    found = take_rows(column, row)
    assert not isinstance(found, Scalar)
    vector = found.decode() if isinstance(found, EncodedVector) else found
    return Scalar(python_values(vector.values)[0], vector.type)


def _refuse(call: Call, types: Sequence[ValueType]) -> ValueType:
    raise wrong(NAME, _ELSEWHERE)


def _refuse_to_compute(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    """The value of a column in the row of a dimension table with a given key: `lookUp('table', 'column', 'key', x)`."""
    raise wrong(NAME, _ELSEWHERE)


register_scalar([NAME], ScalarFunction(NAME, 4, None, _refuse, _refuse_to_compute, can_fold=False, not_of_rows=_ELSEWHERE))
register_scalar([LOOKUP], ScalarFunction(NAME, NUM_CONSTANTS + 1, None, _result_type, _compute, can_fold=False))
