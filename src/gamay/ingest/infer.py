"""Inference of a schema from data, for tables that are created without one."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from gamay.base.errors import InvalidConfigError, nearest
from gamay.base.sql_names import quoted
from gamay.ingest.read.csv import CsvReader
from gamay.ingest.read.csv_format import parse_csv_format
from gamay.ingest.read.readers import open_reader
from gamay.ingest.read.records import ErrorLog
from gamay.ingest.transform.operands import data_type_of
from gamay.model.schema.datetime_format import TIMESTAMP_FORMAT, DateTimeFormat, Granularity, sane_time
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.types import DataType, FieldRole

SAMPLE_ROWS = 200_000
_ANY_LENGTH = 2**31 - 1
# formats of integer times, in the order of attempts: few numbers are plausible times in several of them
_NUMBER_FORMATS = (
    "SIMPLE_DATE_FORMAT|yyyy", "1:DAYS:EPOCH", "1:HOURS:EPOCH", "SIMPLE_DATE_FORMAT|yyyyMMdd", "1:MINUTES:EPOCH",
    "1:SECONDS:EPOCH", "1:MILLISECONDS:EPOCH", "1:MICROSECONDS:EPOCH", "1:NANOSECONDS:EPOCH",
)  # fmt: skip


def infer_schema(
    name: str, arrow_schema: pa.Schema, time_column: str | None = None, sample: pa.ChunkedArray | None = None
) -> Schema:
    """Return a schema for data with an Arrow schema, with null storage for every column.

    Single-value numbers become metrics, because a metric's missing value is 0 in sums, while a dimension's is the
    type's lowest number. Timestamps and dates become TIMESTAMP date-time columns, lists multi-value columns, structs and
    maps JSON text, everything else dimensions; texts and bytes are not truncated. Fields with an invalid column name
    are renamed by `column_name`.
    time_column: becomes a date-time column; sample: its first values, from which its format is inferred.
    Raises InvalidConfigError for an empty or duplicate column name, for an unsupported type, and
    for a time column of unknown format.
    """
    sources = sources_of(arrow_schema.names)
    if time_column is not None and time_column not in sources:
        column = column_name(time_column)
        hint = f" It is the column '{column}'." if column in sources else nearest(time_column, sources)
        raise InvalidConfigError(f"timeColumnName '{time_column}' is not a column of the data.{hint}")
    fields = []
    for field, column in zip(arrow_schema, sources, strict=True):
        spec = _field(column, field.type)
        spec = _time_field(spec, field.type, sample) if column == time_column else spec
        fields.append(spec if column == field.name else replace(spec, transform_function=quoted(field.name)))
    return Schema(name=name, fields=tuple(fields), enable_column_based_null_handling=True)


def column_name(name: str) -> str:
    """Return the column name for a field of the data: without spaces and leading `$`, which are invalid.

    >>> column_name("Unit  price "), column_name("$docId"), column_name("city")
    ('Unit_price', 'docId', 'city')
    """
    return "_".join(name.split()).lstrip("$")


def sources_of(names: Iterable[str]) -> dict[str, str]:
    """Return the fields of the data by column name, in order.

    Raises InvalidConfigError for an empty name, and for two fields with the same column name.
    """
    found: dict[str, str] = {}
    for name in names:
        column = column_name(name)
        if not column:
            raise InvalidConfigError(f"{name!r} cannot be a column's name; rename it in the data")
        if column in found:
            raise InvalidConfigError(f"'{found[column]}' and '{name}' are both column '{column}'; rename one in the data")
        found[column] = name
    return found


def check_kept(name: str, kind: pa.DataType) -> None:
    """Raise InvalidConfigError for a type whose values a column could not store faithfully."""
    element = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else kind
    if pa.types.is_duration(element):
        right = "make it a number, as with .dt.total_seconds() of pandas"
    elif isinstance(element, pa.BaseExtensionType) and element.extension_name == "pandas.period":
        right = "make it timestamps with .dt.to_timestamp(), or text with .astype(str)"
    elif isinstance(element, pa.BaseExtensionType) and element.extension_name == "pandas.interval":
        right = "make it two columns, .array.left and .array.right"
    elif pa.types.is_interval(element):
        right = "make it a number, or text"
    else:
        return
    raise InvalidConfigError(f"column '{name}' is of type {element}, for which there is no column type: {right}")


def _time_field(spec: FieldSpec, kind: pa.DataType, sample: pa.ChunkedArray | None) -> FieldSpec:
    """Return the field of a time column. Raises InvalidConfigError if its values are not times."""
    if spec.role is FieldRole.DATE_TIME:
        return spec
    values = pa.array([]) if sample is None else pc.drop_null(sample)
    if spec.data_type in (DataType.INT, DataType.LONG) and spec.single_value and len(values):
        text = _format_of_numbers(*[pc.min_max(values)[bound].as_py() for bound in ("min", "max")])
    elif spec.data_type is DataType.STRING and spec.single_value and len(values):
        text = _format_of_texts(values)
    else:
        text = None
    if text is None:
        shown = f", such as {values[0].as_py()!r}," if len(values) else ""
        raise InvalidConfigError(
            f"timeColumnName: the values of column '{spec.name}' ({kind}){shown} are not times in 1971 to 2071 in a form "
            "that can be told from them; make it timestamps (pandas.to_datetime), or give a schema with a dateTimeFieldSpec"
        )
    data_type = DataType.TIMESTAMP if text == TIMESTAMP_FORMAT.text else spec.data_type
    time_format = DateTimeFormat.parse(text)
    granularity = Granularity.parse(f"1:{time_format.unit.name}" if text.endswith("EPOCH") else "1:MILLISECONDS")
    return FieldSpec(spec.name, data_type, FieldRole.DATE_TIME, format=time_format, granularity=granularity)


def _format_of_numbers(least: int, most: int) -> str | None:
    """Return the first format in which both numbers are times in 1971 to 2071."""
    for text in _NUMBER_FORMATS:
        time_format = DateTimeFormat.parse(text)
        try:
            if all(sane_time(time_format.to_millis(value)) for value in (least, most)):
                return text
        except ValueError:
            continue
    return None


def _format_of_texts(values: pa.ChunkedArray) -> str | None:
    """Return the common format of all texts: TIMESTAMP if a TIMESTAMP column accepts them."""
    if pc.all(pc.match_substring_regex(values, r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?$")).as_py():
        return TIMESTAMP_FORMAT.text
    if pc.all(pc.match_substring_regex(values, r"^\d{8}$")).as_py():
        return "SIMPLE_DATE_FORMAT|yyyyMMdd"
    return None


def _field(name: str, kind: pa.DataType) -> FieldSpec:
    check_kept(name, kind)
    if pa.types.is_uint64(kind):
        return FieldSpec(name, DataType.BIG_DECIMAL, FieldRole.METRIC)
    data_type, is_single = data_type_of(kind)
    if _is_uuid(kind):
        return FieldSpec(name, DataType.UUID)
    if not is_single:
        return FieldSpec(name, data_type, single_value=False, max_length=_ANY_LENGTH)
    if data_type is DataType.TIMESTAMP:
        millis = Granularity.parse("1:MILLISECONDS")
        return FieldSpec(name, data_type, FieldRole.DATE_TIME, format=TIMESTAMP_FORMAT, granularity=millis)
    role = FieldRole.METRIC if data_type.is_numeric else FieldRole.DIMENSION
    return FieldSpec(name, data_type, role, max_length=_ANY_LENGTH)


def _is_uuid(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.UuidType)


def infer_file_schema(
    name: str,
    path_or_uri: str,
    data_format: str,
    config: Mapping[str, Any] | None = None,
    time_column: str | None = None,
) -> Schema:
    """Return a schema for a file from its first rows (`SAMPLE_ROWS`). time_column: as for `infer_schema`.

    CSV text is interpreted as numbers (without leading zeros), booleans, dates or timestamps if every value of a column
    looks like one.
    Raises RecordError or InvalidConfigError if the file cannot be read.
    """
    if data_format.lower() == "csv":
        found = _csv_types(path_or_uri, config or {})
        return infer_schema(name, found, time_column, _first_values(path_or_uri, data_format, config, time_column, found))
    types: dict[str, pa.DataType] = {}
    rows = 0
    for batch in open_reader(path_or_uri, data_format, config, continue_on_error=True):
        for field in batch.schema:
            types[field.name] = _common(types.get(field.name), field.type)
        rows += batch.num_rows
        if rows >= SAMPLE_ROWS:
            break
    found = pa.schema(types.items())
    return infer_schema(name, found, time_column, _first_values(path_or_uri, data_format, config, time_column, found))


def _first_values(
    path_or_uri: str, data_format: str, config: Mapping[str, Any] | None, column: str | None, types: pa.Schema
) -> pa.ChunkedArray | None:
    """Return the values of a column in the first batch of a file, in its inferred type."""
    source = None if column is None else sources_of(types.names).get(column)
    if source is None:
        return None
    batch = next(iter(open_reader(path_or_uri, data_format, config, continue_on_error=True)), None)
    if batch is None or source not in batch.schema.names:
        return None
    return pa.chunked_array([batch.column(source)]).cast(types.field(source).type)


def _common(known: pa.DataType | None, found: pa.DataType) -> pa.DataType:
    """Return the common type of both: JSON files may have a different type in every batch."""
    if known is None or known == found or pa.types.is_null(known):
        return found
    if pa.types.is_null(found):
        return known
    try:
        merged = pa.unify_schemas([pa.schema([("x", known)]), pa.schema([("x", found)])], promote_options="permissive")
        return merged.field(0).type
    except pa.ArrowException:
        return pa.string()


def _csv_types(uri: str, config: Mapping[str, Any]) -> pa.Schema:
    csv_format = parse_csv_format(config)
    types: dict[str, pa.DataType] = {}
    rows = 0
    for batch in CsvReader(uri, csv_format, ErrorLog(continue_on_error=True)):
        for field, column in zip(batch.schema, batch.columns, strict=True):
            types[field.name] = _common(types.get(field.name), _looks_like(column))
        rows += batch.num_rows
        if rows >= SAMPLE_ROWS:
            break
    return pa.schema((n, pa.string() if pa.types.is_null(t) else t) for n, t in types.items())


def _looks_like(column: pa.Array) -> pa.DataType:
    """Return the type that Arrow's CSV reader would infer for a text column."""
    if not pa.types.is_string(column.type) or column.null_count == len(column):
        return pa.null() if column.null_count == len(column) else column.type
    sink = pa.BufferOutputStream()
    table = pa.table({"x": column.drop_null()})
    pa_csv.write_csv(table, sink, pa_csv.WriteOptions(quoting_style="all_valid"))
    text = sink.getvalue()
    found = pa_csv.read_csv(
        pa.BufferReader(text),
        read_options=pa_csv.ReadOptions(use_threads=False, block_size=len(text) + 1),
        parse_options=pa_csv.ParseOptions(newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(null_values=[]),
    )
    kind = found.schema.field(0).type
    if pa.types.is_integer(kind) and pc.any(pc.match_substring_regex(column, "^-?0[0-9]")).as_py():
        return pa.string()  # a code such as 00501 is not a number
    return kind
