"""Rules for schemas; each yields a sentence for every violation."""

from collections.abc import Collection, Iterator

from gamay.base.errors import GamayError, nearest
from gamay.model.rules.subject import ColumnsOf, duplicates
from gamay.model.schema.datetime_format import sane_time
from gamay.model.schema.schema import BUILT_IN_COLUMNS, FieldSpec, Schema
from gamay.model.table.table_name import name_problems
from gamay.model.types import DataType, FieldRole

_METRIC_TYPES = (DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.BIG_DECIMAL, DataType.BYTES)


def schema_problems(schema: Schema, columns_of: ColumnsOf | None) -> Iterator[str]:
    """Yield all problems of a schema."""
    yield from name_problems(schema.name, "schema name")
    if not schema.fields:
        yield "the schema declares no columns"
    for name in duplicates(f.name for f in schema.fields):
        yield f"the column '{name}' is declared more than once"
    for spec in schema.fields:
        yield from _column_name(spec)
        yield from _column_type(spec)
        yield from _column_time(spec)
    yield from _primary_key(schema)
    if columns_of is not None:
        yield from _transforms(schema, columns_of)


def _column_name(spec: FieldSpec) -> Iterator[str]:
    if not spec.name or any(c.isspace() for c in spec.name):
        yield f"the column name '{spec.name}' is empty or contains white space"
    if spec.name in BUILT_IN_COLUMNS:
        yield f"the column name '{spec.name}' belongs to a built-in column; choose another name"
    if spec.is_virtual:
        yield (
            f"the virtualColumnProvider of column '{spec.name}' is '{spec.virtual_column_provider}'; only the built-in "
            "virtual columns are supported: remove the key"
        )


def _column_type(spec: FieldSpec) -> Iterator[str]:
    if spec.role is FieldRole.METRIC and spec.data_type not in _METRIC_TYPES:
        accepted = ", ".join(t.value for t in _METRIC_TYPES)
        yield (
            f"the metric '{spec.name}' is of type {spec.data_type.value}; metrics are {accepted}. Declare it as a dimension"
        )
    if not spec.single_value and spec.role is not FieldRole.DIMENSION:
        yield f"the column '{spec.name}' has singleValueField false; only dimensions can be multi-value"
    if not spec.single_value and spec.data_type is DataType.JSON:
        yield f"the JSON column '{spec.name}' has singleValueField false; put the list into the JSON text"
    if spec.max_length < 1:
        yield f"the maxLength of column '{spec.name}' is {spec.max_length}; it must be at least 1"
    if isinstance(spec.default_null_value, float) and spec.default_null_value != spec.default_null_value:
        yield f"the defaultNullValue of column '{spec.name}' is NaN, which equals nothing; choose a number"


def _column_time(spec: FieldSpec) -> Iterator[str]:
    if spec.role not in (FieldRole.DATE_TIME, FieldRole.TIME):
        return
    if spec.format is None:
        yield f"the date-time column '{spec.name}' has no format"
        return
    if not spec.format.sorts_like_time:
        yield (
            f"the format '{spec.format.text}' of column '{spec.name}' does not sort like time: year, month, day, "
            "hour, minute, "
            "second must follow in this order, such as yyyy-MM-dd HH:mm:ss"
        )
    if spec.sample_value is not None:
        try:
            millis = spec.format.to_millis(spec.sample_value)
        except ValueError as error:
            yield f"the sampleValue of column '{spec.name}' does not fit its format: {error}"
        else:
            if not sane_time(millis):
                yield (
                    f"the sampleValue '{spec.sample_value}' of column '{spec.name}' is outside the years 1971 to 2071 by "
                    "its format "
                    f"'{spec.format.text}'; is the unit right?"
                )


def _primary_key(schema: Schema) -> Iterator[str]:
    for name in duplicates(schema.primary_key_columns):
        yield f"primaryKeyColumns has the column '{name}' more than once"
    for name in schema.primary_key_columns:
        if name not in schema:
            yield (
                f"primaryKeyColumns names the column '{name}', which the schema does not "
                f"have.{nearest(name, schema.column_names)}"
            )
        elif schema.field(name).is_virtual:
            yield f"primaryKeyColumns names the virtual column '{name}'; a key must be stored"
        elif schema.field(name).data_type is DataType.MAP:
            yield f"primaryKeyColumns names '{name}', a MAP; a key must consist of single-value columns"


def _transforms(schema: Schema, columns_of: ColumnsOf) -> Iterator[str]:
    arguments: dict[str, Collection[str]] = {}
    for spec in schema.fields:
        if spec.transform_function is not None:
            try:
                arguments[spec.name] = columns_of(spec.transform_function)
            except GamayError as error:
                yield f"the transformFunction of column '{spec.name}' is not an expression: {error}"
    for name, read in arguments.items():
        if name in read:
            yield f"the transformFunction of column '{name}' reads the column itself"
        for other in sorted(set(read) & arguments.keys() - {name}):
            yield (
                f"the transformFunction of column '{name}' reads '{other}', which is itself computed; "
                "chained transforms go into ingestionConfig.transformConfigs of the table"
            )
