"""Results as Arrow tables and DataFrames; the only module here that loads pyarrow.

| wire type    | Arrow type (`…_ARRAY`: list of it)                                                               |
| ------------ | ------------------------------------------------------------------------------------------------ |
| INT          | int32                                                                                            |
| LONG         | int64                                                                                            |
| FLOAT        | float32                                                                                          |
| DOUBLE       | float64                                                                                          |
| BIG_DECIMAL  | decimal128(38, s), decimal256(76, s) or else string; s is the largest scale of the values         |
| BOOLEAN      | bool                                                                                             |
| TIMESTAMP    | timestamp("ms"), in UTC                                                                          |
| STRING, JSON | string                                                                                           |
| BYTES        | binary                                                                                           |
| UUID         | binary of 16 bytes                                                                               |
| UNKNOWN      | null                                                                                             |
| MAP          | map of string to int64, float64, bool or string, the narrowest that holds all values             |

Other types (OBJECT) have the type that Arrow infers, or are text.
"""

import json
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import InvalidConfigError
from gamay.client.errors import InterfaceError
from gamay.client.values import milliseconds_of, unique_names

if TYPE_CHECKING:
    import numpy as np

_TYPES: dict[str, pa.DataType] = {
    "INT": pa.int32(),
    "LONG": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMP": pa.timestamp("ms"),
    "STRING": pa.string(),
    "JSON": pa.string(),
    "BYTES": pa.binary(),
    "UUID": pa.binary(),
    "UNKNOWN": pa.null(),
}
_DIGITS_128, _DIGITS_256 = 38, 76


def arrow_table(columns: Sequence[str], types: Sequence[str], wire_rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Return an answer's JSON rows as a table; duplicate names are kept.

    Raises InterfaceError for a value that is not of its column's type.
    """
    values = zip(*wire_rows, strict=True) if wire_rows else [()] * len(columns)
    try:
        arrays = [_array(kind, list(column)) for kind, column in zip(types, values, strict=True)]
    except (ValueError, TypeError, AttributeError, ArithmeticError, pa.ArrowException) as error:
        raise InterfaceError(f"the answer holds a value that is not of its column's type: {error}") from error
    return pa.Table.from_arrays(arrays, names=list(columns))


def _array(kind: str, values: list[Any]) -> pa.Array:
    element = kind.removesuffix("_ARRAY")
    if kind == element:
        return _scalars(element, values)
    flat = _scalars(element, list(chain.from_iterable(v for v in values if v is not None)))
    offsets, end = [0], 0
    for value in values:
        end += 0 if value is None else len(value)
        offsets.append(end)
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat, mask=mask)


def _scalars(kind: str, values: list[Any]) -> pa.Array:
    if kind == "BIG_DECIMAL":
        return decimal_array(pa.array(values, pa.string()))
    if kind == "TIMESTAMP":
        return _timestamps(values)
    if kind in ("FLOAT", "DOUBLE"):
        if any(isinstance(value, str) for value in values):  # "NaN" and "Infinity"
            values = _each(float, values)
    elif kind == "BYTES":
        values = _each(bytes.fromhex, values)
    elif kind == "UUID":
        values = _each(lambda text: uuid.UUID(text).bytes, values)
    elif kind == "MAP":
        return map_array(values)
    if kind in _TYPES:
        return pa.array(values, _TYPES[kind])
    try:
        return pa.array(values)
    except pa.ArrowException:
        return pa.array(_each(str, values), pa.string())


def _timestamps(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values, pa.string()).cast(_TYPES["TIMESTAMP"])
    except pa.ArrowInvalid:  # years of five digits, or a precision beyond milliseconds
        return pa.array(_each(milliseconds_of, values), pa.int64()).cast(_TYPES["TIMESTAMP"])


def _each(change: Callable[[Any], Any], values: list[Any]) -> list[Any]:
    return [None if value is None else change(value) for value in values]


def decimal_array(texts: pa.Array) -> pa.Array:
    """Return decimals, given as text, as the narrowest Arrow type that holds all their digits; as text where none does.

    >>> decimal_array(pa.array(["1.50", None])).type
    Decimal128Type(decimal128(38, 2))
    """
    if not pc.all(pc.match_substring_regex(texts, r"^-?[0-9]+(\.[0-9]+)?$")).as_py() and texts.null_count < len(texts):
        texts = pa.array(_each(lambda text: format(Decimal(text), "f"), texts.to_pylist()), pa.string())
    length = pc.binary_length(pc.utf8_ltrim(texts, "-"))
    point = pc.find_substring(pc.utf8_ltrim(texts, "-"), ".")
    whole = pc.max(pc.if_else(pc.less(point, 0), length, point)).as_py() or 0
    places = pc.max(pc.if_else(pc.less(point, 0), 0, pc.subtract(pc.subtract(length, point), 1))).as_py() or 0
    for digits_max, make in ((_DIGITS_128, pa.decimal128), (_DIGITS_256, pa.decimal256)):
        if whole + places <= digits_max:
            return texts.cast(make(digits_max, places))
    return texts


def map_array(maps: Sequence[dict[str, Any] | None]) -> pa.MapArray:
    """Return maps as an Arrow array whose value type is the narrowest that holds all values; text where none does.

    >>> map_array([{"a": 1}, {"a": 2, "b": 0.5}, None]).type
    MapType(map<string, double>)
    """
    values = [value for one in maps if one for value in one.values() if value is not None]
    kind = _value_type(set(map(type, values)), values)
    change: Callable[[Any], Any] = _as_text if kind == pa.string() else float if kind == pa.float64() else _as_it_is
    pairs = [None if one is None else [(k, None if v is None else change(v)) for k, v in one.items()] for one in maps]
    return pa.array(pairs, pa.map_(pa.string(), kind))


def _value_type(kinds: set[type], values: list[Any]) -> pa.DataType:
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in values):
        return pa.int64()
    is_number = bool(kinds) and all(type(v) in (int, float) or v in ("Infinity", "-Infinity") for v in values)
    return pa.float64() if is_number and kinds != {str} else pa.string()


def _as_it_is(value: Any) -> Any:
    return value


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def typed_columns(table: pa.Table, types: Sequence[str]) -> pa.Table:
    """Return a table in which BIG_DECIMAL and MAP columns, given as text, are decimals and maps.

    types: the wire types of the columns.
    """
    for i, kind in enumerate(types):
        if kind == "MAP":
            texts = table.column(i).to_pylist()
            made = map_array([None if text is None else json.loads(text) for text in texts])
            table = table.set_column(i, table.column_names[i], made)
        if kind.removesuffix("_ARRAY") == "BIG_DECIMAL":
            column = table.column(i).combine_chunks()
            if kind == "BIG_DECIMAL":
                made = decimal_array(column)
            else:
                made = pa.ListArray.from_arrays(column.offsets, decimal_array(column.values), mask=column.is_null())
            table = table.set_column(i, table.column_names[i], made)
    return table


def pandas_frame(table: pa.Table) -> Any:
    """Return a table as a pandas DataFrame; integers and booleans with nulls have nullable dtypes; maps are dicts.

    Raises InvalidConfigError where pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise InvalidConfigError("a DataFrame of pandas needs pandas: pip install 'gamay[pandas]'") from error
    nullable = {pa.int32(): pandas.Int32Dtype(), pa.int64(): pandas.Int64Dtype(), pa.bool_(): pandas.BooleanDtype()}
    names = [str(i) for i in range(table.num_columns)]  # unique for now: the real names may occur twice
    frame = table.rename_columns(names).to_pandas(maps_as_pydicts="strict")
    for name, column in zip(names, table.columns, strict=True):
        if column.null_count and column.type in nullable:
            frame[name] = column.to_pandas(types_mapper=nullable.get)
    frame.columns = table.column_names
    return frame


def polars_frame(table: pa.Table) -> Any:
    """Return a table as a Polars DataFrame; decimals of more than 38 digits are text, maps lists of key and value.

    Raises InvalidConfigError where Polars is not installed.
    """
    try:
        import polars
    except ImportError as error:
        raise InvalidConfigError("a DataFrame of Polars needs Polars: pip install 'gamay[polars]'") from error
    return polars.from_arrow(
        pa.Table.from_arrays([_for_polars(c) for c in table.columns], names=unique_names(table.column_names))
    )


def _for_polars(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_decimal256(column.type):
        return column.cast(pa.string())
    if pa.types.is_list(column.type) and pa.types.is_decimal256(column.type.value_type):
        return column.cast(pa.list_(pa.string()))
    return column


def numpy_columns(table: pa.Table) -> "dict[str, np.ndarray[Any, np.dtype[Any]]]":
    """Return a table as NumPy arrays by column name; duplicate names get a numeric suffix.

    Numbers, booleans and timestamps (datetime64[ms]) have their own dtype; all other types are objects: str, bytes,
    Decimal, dict, list. Numbers and booleans with nulls are masked arrays, timestamps have NaT, objects None.
    """
    import numpy as np

    arrays: dict[str, np.ndarray[Any, np.dtype[Any]]] = {}
    for name, column in zip(unique_names(table.column_names), table.columns, strict=True):
        kind, whole = column.type, column.combine_chunks()
        if pa.types.is_timestamp(kind):
            arrays[name] = whole.cast(pa.timestamp(kind.unit)).to_numpy(zero_copy_only=False)
        elif pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
            values = whole.fill_null(False if pa.types.is_boolean(kind) else 0).to_numpy(zero_copy_only=False)
            masked = np.ma.MaskedArray(values, mask=whole.is_null().to_numpy(zero_copy_only=False))
            arrays[name] = masked if column.null_count else values
        else:
            objects = np.empty(len(column), object)
            objects[:] = column.to_pylist(maps_as_pydicts="strict")
            arrays[name] = objects
    return arrays
