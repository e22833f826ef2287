"""Translation of Spark's filters to SQL conditions that select exactly the same rows in Gamay.

Filters left to Spark: those on multi-value, JSON, MAP and UUID columns; comparisons of FLOAT and DOUBLE columns that NaN,
which Spark orders above all numbers, could satisfy; times with fractions of milliseconds.
"""

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

from pyspark.sql import datasource as spark

from gamay.base.sql_names import quoted
from gamay.client.literals import literal
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.types import DataType

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_WHOLE = (DataType.INT, DataType.LONG)
_FLOATING = (DataType.FLOAT, DataType.DOUBLE)
_ORDERED = (*_WHOLE, *_FLOATING, DataType.BIG_DECIMAL, DataType.TIMESTAMP, DataType.STRING)
_EQUATED = (*_ORDERED, DataType.BOOLEAN, DataType.BYTES)
Condition: TypeAlias = str | None
"""A SQL condition; None for a filter that is left to Spark."""


def condition(filter_: spark.Filter, schema: Schema, null_handling: bool) -> Condition:
    """Return the SQL condition that selects the rows of a filter, or None if there is none.

    null_handling: whether values can be null; without it a missing value is its column's default value.
    """
    if isinstance(filter_, spark.Not):
        if isinstance(filter_.child, spark.EqualNullSafe | spark.Not):
            return None
        if isinstance(filter_.child, spark.In) and None in filter_.child.value:
            return None  # a comparison with null is never true
        inner = condition(filter_.child, schema, null_handling)
        spec = _spec_of(filter_.child, schema)
        # NOT (x = NaN) and NOT (x < 5) are true of NaN for Spark
        return None if inner is None or (spec is not None and spec.data_type in _FLOATING) else f"NOT ({inner})"
    spec = _spec_of(filter_, schema)
    make = _CONDITIONS.get(type(filter_))
    if spec is None or make is None:
        return None
    if isinstance(filter_, spark.IsNull | spark.IsNotNull):
        return _null_test(spec, isinstance(filter_, spark.IsNull), null_handling)
    return make(filter_, spec) if spec.single_value else None


def _spec_of(filter_: spark.Filter, schema: Schema) -> FieldSpec | None:
    path: Sequence[str] = getattr(filter_, "attribute", ())
    return schema.field(path[0]) if len(path) == 1 and path[0] in schema else None


def _null_test(spec: FieldSpec, wants_null: bool, null_handling: bool) -> Condition:
    if not null_handling:
        return "1 = 0" if wants_null else "1 = 1"
    return f"{quoted(spec.name)} IS {'' if wants_null else 'NOT '}NULL"


def _compared(operator: str, kinds: Sequence[DataType]) -> Callable[[Any, FieldSpec], Condition]:
    def make(filter_: Any, spec: FieldSpec) -> Condition:
        value = _literal(filter_.value, spec) if spec.data_type in kinds else None
        return None if value is None else f"{quoted(spec.name)} {operator} {value}"

    return make


def _in(filter_: spark.In, spec: FieldSpec) -> Condition:
    if spec.data_type not in _EQUATED:
        return None
    values = [_literal(value, spec) for value in filter_.value if value is not None]
    if None in values:
        return None
    return f"{quoted(spec.name)} IN ({', '.join(map(str, values))})" if values else "1 = 0"


def _matched(function: str) -> Callable[[Any, FieldSpec], Condition]:
    """Return a translation to a call of a text function, rather than to LIKE, which ignores case."""

    def make(filter_: Any, spec: FieldSpec) -> Condition:
        if spec.data_type is not DataType.STRING:
            return None
        return f"{function}({quoted(spec.name)}, {literal(filter_.value)})"

    return make


def _literal(value: Any, spec: FieldSpec) -> str | None:
    """Return the SQL literal of a value to compare a column with, or None if it has no exact equivalent."""
    kind = spec.data_type
    if kind is DataType.TIMESTAMP and isinstance(value, datetime):
        elapsed = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)) - _EPOCH
        return None if elapsed % _MILLISECOND else str(elapsed // _MILLISECOND)
    if kind is DataType.BOOLEAN and isinstance(value, bool):
        return literal(value)
    if isinstance(value, bool):
        return None
    if kind in _WHOLE and isinstance(value, int):
        return literal(value)
    if kind in _FLOATING and isinstance(value, float) and not math.isnan(value):
        return literal(value)
    if kind is DataType.BIG_DECIMAL and isinstance(value, Decimal):
        return literal(value)
    if kind is DataType.STRING and isinstance(value, str):
        return literal(value)
    return literal(bytes(value)) if kind is DataType.BYTES and isinstance(value, bytes | bytearray) else None


_BELOW = _ORDERED
_ABOVE = tuple(kind for kind in _ORDERED if kind not in _FLOATING)
_CONDITIONS: dict[type[spark.Filter], Callable[[Any, FieldSpec], Condition]] = {
    spark.EqualTo: _compared("=", _EQUATED),
    spark.EqualNullSafe: _compared("=", _EQUATED),
    spark.LessThan: _compared("<", _BELOW),
    spark.LessThanOrEqual: _compared("<=", _BELOW),
    spark.GreaterThan: _compared(">", _ABOVE),
    spark.GreaterThanOrEqual: _compared(">=", _ABOVE),
    spark.In: _in,
    spark.StringStartsWith: _matched("startsWith"),
    spark.StringEndsWith: _matched("endsWith"),
    spark.StringContains: _matched("contains"),
    spark.IsNull: lambda _, __: None,
    spark.IsNotNull: lambda _, __: None,
}
