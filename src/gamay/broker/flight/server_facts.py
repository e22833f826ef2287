"""The server's capabilities: `GetSqlInfo` and `GetXdbcTypeInfo`. Pure functions."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from gamay.broker.flight.catalog import rows_of
from gamay.model.types import DataType

_NONE = 0  # of the bitmasks of unsupported features
_BITS = {"entry": 1 << 0, "union": 1 << 0, "union all": 1 << 1, "forward only": 1 << 1}
_ALL_SUBQUERIES = 0b1111

_VALUES = ("string_value", "bool_value", "bigint_value", "int32_bitmask", "string_list", "int32_to_int32_list_map")
_TEXT, _FLAG, _WHOLE, _MASK, _LIST = range(5)
_VALUE_TYPES = (
    pa.string(),
    pa.bool_(),
    pa.int64(),
    pa.int32(),
    pa.list_(pa.string()),
    pa.map_(pa.int32(), pa.list_(pa.int32())),
)
_VALUE = pa.dense_union([pa.field(name, kind) for name, kind in zip(_VALUES, _VALUE_TYPES, strict=True)])
SQL_INFO = pa.schema([pa.field("info_name", pa.uint32(), nullable=False), pa.field("value", _VALUE, nullable=False)])


def facts(version: str) -> dict[int, tuple[int, Any]]:
    """Return the capabilities by number: (member of the union, value). version: of Gamay."""
    return {
        0: (_TEXT, "Gamay"),
        1: (_TEXT, version),
        2: (_TEXT, pa.__version__),
        3: (_FLAG, True),  # read only
        4: (_FLAG, True),  # SQL
        5: (_FLAG, False),  # Substrait
        8: (_MASK, _NONE),  # transactions
        9: (_FLAG, True),  # queries can be cancelled
        10: (_FLAG, False),  # bulk ingestion
        100: (_WHOLE, 0),  # unlimited: the query's options limit its time
        101: (_WHOLE, 0),
        500: (_FLAG, False),  # CREATE CATALOG
        501: (_FLAG, False),  # CREATE SCHEMA
        502: (_FLAG, False),  # CREATE TABLE
        503: (_WHOLE, 3),  # names keep their case
        504: (_TEXT, '"'),
        505: (_WHOLE, 3),
        506: (_FLAG, True),  # every table can be selected from
        507: (_WHOLE, 1),  # nulls are sorted low by default
        508: (_LIST, []),
        509: (_LIST, ["ABS", "CEIL", "EXP", "FLOOR", "LN", "MOD", "POWER", "ROUND", "SIGN", "SQRT"]),
        510: (_LIST, ["CONCAT", "LENGTH", "LOWER", "LTRIM", "REPLACE", "RTRIM", "SUBSTR", "TRIM", "UPPER"]),
        511: (_LIST, []),
        512: (_LIST, ["DATETRUNC", "DAY", "HOUR", "MINUTE", "MONTH", "NOW", "QUARTER", "SECOND", "WEEK", "YEAR"]),
        513: (_TEXT, "\\"),
        514: (_TEXT, "$"),
        515: (_FLAG, True),  # AS
        516: (_FLAG, True),  # NULL || 'x' is NULL
        518: (_FLAG, True),  # names qualified by their table
        519: (_FLAG, False),
        520: (_FLAG, True),  # expressions in ORDER BY
        521: (_FLAG, True),  # ORDER BY columns that are not selected
        522: (_MASK, 0b11),  # GROUP BY
        523: (_FLAG, True),  # LIKE … ESCAPE
        524: (_FLAG, True),  # columns may be NULL
        525: (_MASK, 0b11),  # grammar: minimum, core
        526: (_MASK, _BITS["entry"]),
        527: (_FLAG, False),
        528: (_WHOLE, 2),  # all outer joins
        529: (_TEXT, "database"),
        530: (_TEXT, "procedure"),
        531: (_TEXT, "catalog"),
        532: (_FLAG, True),
        537: (_FLAG, False),  # SELECT … FOR UPDATE
        538: (_FLAG, False),  # stored procedures
        539: (_MASK, _ALL_SUBQUERIES),
        540: (_FLAG, True),  # correlated subqueries
        541: (_MASK, _BITS["union"] | _BITS["union all"]),
        561: (_FLAG, False),
        562: (_WHOLE, _NONE),
        563: (_FLAG, False),  # transactions
        564: (_MASK, _NONE),
        565: (_FLAG, False),
        566: (_FLAG, True),
        567: (_MASK, _BITS["forward only"]),
        572: (_FLAG, False),
        573: (_FLAG, False),
        574: (_FLAG, False),
        576: (_FLAG, False),
    }


def sql_info(version: str, asked: Sequence[int]) -> pa.Table:
    """Return the requested capabilities, all if none is requested; unknown numbers are skipped."""
    known = facts(version)
    numbers = [number for number in asked if number in known] if asked else sorted(known)
    members: list[list[Any]] = [[] for _ in _VALUES]
    kinds, offsets = [], []
    for number in numbers:
        kind, value = known[number]
        kinds.append(kind)
        offsets.append(len(members[kind]))
        members[kind].append(value)
    children = [pa.array(values, kind) for values, kind in zip(members, _VALUE_TYPES, strict=True)]
    union = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()), pa.array(offsets, pa.int32()), children, field_names=list(_VALUES)
    )
    return pa.Table.from_arrays([pa.array(numbers, pa.uint32()), union], schema=SQL_INFO)


TYPE_INFO = pa.schema(
    [
        pa.field("type_name", pa.string(), nullable=False),
        pa.field("data_type", pa.int32(), nullable=False),
        ("column_size", pa.int32()),
        ("literal_prefix", pa.string()),
        ("literal_suffix", pa.string()),
        ("create_params", pa.list_(pa.field("item", pa.string(), nullable=False))),
        pa.field("nullable", pa.int32(), nullable=False),
        pa.field("case_sensitive", pa.bool_(), nullable=False),
        pa.field("searchable", pa.int32(), nullable=False),
        ("unsigned_attribute", pa.bool_()),
        pa.field("fixed_prec_scale", pa.bool_(), nullable=False),
        ("auto_increment", pa.bool_()),
        ("local_type_name", pa.string()),
        ("minimum_scale", pa.int32()),
        ("maximum_scale", pa.int32()),
        pa.field("sql_data_type", pa.int32(), nullable=False),
        ("datetime_subcode", pa.int32()),
        ("num_prec_radix", pa.int32()),
        ("interval_precision", pa.int32()),
    ]
)
_DATETIME, _TIMESTAMP_SUBCODE = 9, 3
# type -> its number in JDBC and ODBC, size, quote of its literals, radix of the size
_TYPES: dict[DataType, tuple[int, int | None, str | None, int | None]] = {
    DataType.BOOLEAN: (-7, 1, None, None),
    DataType.LONG: (-5, 19, None, 10),
    DataType.BYTES: (-3, None, "'", None),
    DataType.BIG_DECIMAL: (3, None, None, 10),
    DataType.INT: (4, 10, None, 10),
    DataType.FLOAT: (7, 24, None, 2),
    DataType.DOUBLE: (8, 53, None, 2),
    DataType.JSON: (12, None, "'", None),
    DataType.STRING: (12, None, "'", None),
    DataType.UUID: (12, 36, "'", None),
    DataType.TIMESTAMP: (93, 23, "'", None),
}


def type_info(asked: int | None) -> pa.Table:
    """Return the column types in the order of their numbers; asked: the only number to return, or None."""
    found = sorted((number, kind.value, kind) for kind, (number, *_) in _TYPES.items() if asked in (None, number))
    return rows_of(TYPE_INFO, _type_rows(kind for _, _, kind in found))


def _type_rows(kinds: Iterable[DataType]) -> Iterable[tuple[Any, ...]]:
    for kind in kinds:
        number, size, quote, radix = _TYPES[kind]
        is_time, is_text = kind is DataType.TIMESTAMP, kind in (DataType.STRING, DataType.JSON)
        yield (
            kind.value, number, size, quote, quote, None, 1, is_text, 3, False if radix else None, False, None, None,
            0 if kind is DataType.TIMESTAMP else None, 3 if is_time else None, _DATETIME if is_time else number,
            _TIMESTAMP_SUBCODE if is_time else None, radix, None,
        )  # fmt: skip
