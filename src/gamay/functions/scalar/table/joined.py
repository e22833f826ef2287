"""A small table as a function of a key: the value of the row with that key, and whether there is such a row.

Queries cannot call these functions; they replace joins with a small table (`gamay.relational.rules.stars`). They are
computed once for each dictionary entry, so that a join costs no more per row than an expression of its key.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.arrays import Mask
from gamay.functions.convert import placeholder, to_vector
from gamay.functions.expression import Call, Expression, Literal
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.vector import EncodedVector, Operand, Vector, sorted_distinct, take
from gamay.model.types import DataType

VALUE, VALUE_OR_NULL, FOUND = "value(joined)", "value or null(joined)", "found(joined)"
_TABLES = 32
# an array indexed by key is used up to this size, or up to this many times the number of keys
_DENSE_PLACES = 1 << 20
_DENSE = 8
# the ratio for an array of flags, and the metadata key of its first number
_DENSE_FLAGS, _FIRST = 256, b"first"


def value_of(table: bytes, data_type: DataType, key: Expression, *, or_null: bool = False) -> Call:
    """Return the call for the value of a key in a table made by `encoded`. or_null: null for missing keys."""
    return Call(
        VALUE_OR_NULL if or_null else VALUE, (Literal(table, DataType.BYTES), Literal(data_type.value, DataType.STRING), key)
    )


def found_in(keys: bytes, key: Expression) -> Call:
    """Return the call for whether a key is among those of `encoded_keys`."""
    return Call(FOUND, (Literal(keys, DataType.BYTES), Literal(DataType.BOOLEAN.value, DataType.STRING), key))


def encoded(keys: pa.Array, values: pa.Array) -> bytes:
    """Return a table as a constant. keys: unique, no nulls; integers or texts. values: fixed width or texts."""
    return _written(pa.table({"key": keys, "value": values}))


def encoded_keys(keys: pa.Array) -> bytes:
    """Return keys as a constant: integers or texts, no nulls; they may repeat."""
    flags = flags_of(keys)
    return _written(pa.table({"key": keys})) if flags is None else encoded_flags(*flags)


def encoded_flags(first: int, flags: Mask) -> bytes:
    """Return the keys `first` + i with flags[i] set, as a constant like that of `encoded_keys`."""
    return _written(pa.table({"flag": flags}).replace_schema_metadata({_FIRST: str(first)}))


def flags_of(keys: pa.Array) -> tuple[int, Mask] | None:
    """Return integers as flags, and the number of the first flag; None if there would be too many."""
    if not pa.types.is_integer(keys.type):
        return None
    numbers = keys.to_numpy().astype(np.int64, copy=False)
    first, num_places = _span(numbers)
    if num_places > max(_DENSE_FLAGS * len(numbers), _DENSE_PLACES):
        return None
    flags = np.zeros(num_places, np.bool_)
    flags[numbers - first] = True
    return first, flags


def _written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


class _Table:
    """Keys with their values, and an extra value for missing keys."""

    def __init__(self, data: bytes, data_type: DataType) -> None:
        table = pa.ipc.open_stream(pa.py_buffer(data)).read_all().combine_chunks()
        keys, values = table.column("key").combine_chunks(), table.column("value").combine_chunks()
        missing = pa.scalar(placeholder(data_type), values.type)
        self.nulls = np.append(np.asarray(values.is_null()), True) if values.null_count else None
        filled = pa.concat_arrays([values.fill_null(missing), pa.array([missing])])
        vector = Vector(data_type, np.asarray(filled.to_numpy(zero_copy_only=False)) if data_type.is_fixed_width else filled)
        distinct, codes = sorted_distinct(vector)
        self._distinct, self._codes = Vector(data_type, distinct, ascends=True), codes.astype(np.uint32)
        self.num_keys = len(keys)
        self._texts: pa.Array | None = None if pa.types.is_integer(keys.type) else keys
        if self._texts is None:
            numbers = keys.to_numpy().astype(np.int64)
            self._first, num_places = _span(numbers)
            self._dense: np.ndarray | None = None
            if num_places <= max(_DENSE * self.num_keys, _DENSE_PLACES):
                self._dense = np.full(num_places, self.num_keys, np.int32)
                self._dense[numbers - self._first] = np.arange(self.num_keys, dtype=np.int32)
            else:
                order = np.argsort(numbers)
                self._keys, self._places = numbers[order], order.astype(np.int32)

    def values(self, places: "np.ndarray") -> EncodedVector:
        """Return the values at positions."""
        return EncodedVector(self._codes[places], self._distinct, None, None if self.nulls is None else self.nulls[places])

    def places(self, values: "np.ndarray | pa.Array") -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
        """Return for each value the position of its key; `num_keys` if it is missing."""
        if self.num_keys == 0:
            return np.zeros(len(values), np.int32)
        if self._texts is not None:
            found = pc.index_in(values, value_set=self._texts).fill_null(self.num_keys)
            return np.asarray(found)
        numbers = np.asarray(values).astype(np.int64, copy=False)
        if self._dense is not None:
            return _looked_up(self._dense, self._first, numbers, np.int32(self.num_keys))
        at = np.searchsorted(self._keys, numbers)
        at[at == self.num_keys] = 0
        return np.where(self._keys[at] == numbers, self._places[at], np.int32(self.num_keys))


class _Keys:
    """A set of keys."""

    def __init__(self, data: bytes) -> None:
        table = pa.ipc.open_stream(pa.py_buffer(data)).read_all().combine_chunks()
        self._flags: np.ndarray | None = None
        self._texts: pa.Array | None = None
        if table.column_names == ["flag"]:
            self._flags = table.column(0).to_numpy()
            self._first = int(table.schema.metadata[_FIRST])
        elif pa.types.is_integer(table.schema.types[0]):
            self._sorted = np.unique(table.column(0).to_numpy())
        else:
            self._texts = table.column(0).combine_chunks()
        self._is_empty = table.num_rows == 0

    def has(self, values: "np.ndarray | pa.Array") -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
        """Return for each value whether it is a key."""
        if self._is_empty:
            return np.zeros(len(values), np.bool_)
        if self._texts is not None:
            return np.asarray(pc.is_in(values, value_set=self._texts).to_numpy(zero_copy_only=False))
        numbers = np.asarray(values).astype(np.int64, copy=False)
        if self._flags is not None:
            return _looked_up(self._flags, self._first, numbers, np.False_)
        at = np.searchsorted(self._sorted, numbers)
        at[at == len(self._sorted)] = 0
        return np.asarray(self._sorted[at] == numbers, np.bool_)


def _span(numbers: "np.ndarray") -> tuple[int, int]:
    """Return the least of some integers, and the size of the range up to the greatest."""
    if not len(numbers):
        return 0, 0
    first = int(numbers.min())
    return first, int(numbers.max()) - first + 1


def _looked_up(table: "np.ndarray", first: int, numbers: "np.ndarray", missing: np.generic) -> "np.ndarray":
    """Return the entries of a table that starts at the number `first`; `missing` for numbers outside."""
    # numbers below the first key wrap around to beyond the last
    offsets = (numbers - first).view(np.uint64)
    inside = offsets < len(table)
    found = np.asarray(take(table, offsets if inside.all() else np.where(inside, offsets, 0)))
    return found if inside.all() else np.where(inside, found, missing)


_table = lru_cache(maxsize=_TABLES)(_Table)
_keys = lru_cache(maxsize=_TABLES)(_Keys)


def _type(call: Call, types: Sequence[ValueType]) -> ValueType:
    of_result = call.args[1]
    assert isinstance(of_result, Literal)
    return DataType(str(of_result.value)), False


def _found(call: Call, args: Sequence[Operand], num_rows: int) -> "tuple[_Table, np.ndarray, np.ndarray | None]":
    data = call.args[0]
    assert isinstance(data, Literal)
    assert isinstance(data.value, bytes)
    table = _table(data.value, _type(call, ())[0])
    keys = args[2].decode() if isinstance(args[2], EncodedVector) else to_vector(args[2], num_rows)
    return table, table.places(keys.values), keys.nulls


def _value(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    """Return the value of the row of a small table with a key."""
    table, places, nulls = _found(call, args, num_rows)
    found = table.values(places)
    if nulls is not None:
        found.nulls = nulls if found.nulls is None else found.nulls | nulls
    return found


def _value_or_null(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    """Return the value of the row of a small table with a key; null if there is none."""
    table, places, nulls = _found(call, args, num_rows)
    found = table.values(places)
    missing = places == table.num_keys
    for flags in (nulls, found.nulls):
        missing = missing if flags is None else missing | flags
    found.nulls = missing if missing.any() else None
    return found


def _is_found(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    """Return whether a small table has a row with a key."""
    data = call.args[0]
    assert isinstance(data, Literal)
    assert isinstance(data.value, bytes)
    keys = args[2].decode() if isinstance(args[2], EncodedVector) else to_vector(args[2], num_rows)
    found = _keys(data.value).has(keys.values)
    return Vector(DataType.BOOLEAN, found if keys.nulls is None else found & ~keys.nulls)


register_scalar([VALUE], ScalarFunction(VALUE, 3, 3, _type, _value, can_fold=False, accepts_nulls=True))
register_scalar(
    [VALUE_OR_NULL], ScalarFunction(VALUE_OR_NULL, 3, 3, _type, _value_or_null, can_fold=False, accepts_nulls=True)
)
register_scalar([FOUND], ScalarFunction(FOUND, 3, 3, _type, _is_found, can_fold=False, accepts_nulls=True))
