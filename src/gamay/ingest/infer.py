"""A schema from data: for tables that are created without one."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from gamay.base.errors import InvalidConfigError
from gamay.ingest.csv_format import parse_csv_format
from gamay.ingest.csv_reader import CsvReader
from gamay.ingest.operands import data_type_of
from gamay.ingest.readers import open_reader
from gamay.ingest.records import ErrorLog
from gamay.model.datetime_format import TIMESTAMP_FORMAT, Granularity
from gamay.model.field_spec import FieldSpec
from gamay.model.schema import Schema
from gamay.model.types import DataType, FieldRole

SAMPLE_ROWS = 200_000


def infer_schema(name: str, arrow_schema: pa.Schema) -> Schema:
    """Return a schema for data of that Arrow schema, with nulls kept apart from values for every column.

    Single-value numbers become metrics, because a metric's missing value counts as 0 in sums where a dimension's is the
    lowest number there is. Timestamps and dates become TIMESTAMP date-time columns, lists multi-value columns, structs and
    maps JSON text, everything else dimensions. Raises InvalidConfigError for a name that no column can have.
    """
    fields = tuple(_field(f.name, f.type) for f in arrow_schema)
    return Schema(name=name, fields=fields, enable_column_based_null_handling=True)


def _field(name: str, kind: pa.DataType) -> FieldSpec:
    if not name or any(c.isspace() for c in name) or name.startswith("$"):
        proposal = "_".join(name.split()).lstrip("$") or "column"
        raise InvalidConfigError(f"{name!r} cannot be a column's name (spaces, leading $); rename it, e.g. to '{proposal}'")
    if pa.types.is_uint64(kind):
        return FieldSpec(name, DataType.BIG_DECIMAL, FieldRole.METRIC)
    data_type, is_single = data_type_of(kind)
    if _is_uuid(kind):
        return FieldSpec(name, DataType.UUID)
    if not is_single:
        return FieldSpec(name, data_type, single_value=False)
    if data_type is DataType.TIMESTAMP:
        millis = Granularity.parse("1:MILLISECONDS")
        return FieldSpec(name, data_type, FieldRole.DATE_TIME, format=TIMESTAMP_FORMAT, granularity=millis)
    return FieldSpec(name, data_type, FieldRole.METRIC if data_type.is_numeric else FieldRole.DIMENSION)


def _is_uuid(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.UuidType)


def infer_file_schema(name: str, path_or_uri: str, data_format: str, config: Mapping[str, Any] | None = None) -> Schema:
    """Return a schema for a file from its first rows (`SAMPLE_ROWS`).

    CSV text is taken for numbers (without leading zeros), booleans, dates or timestamps where every value of a column looks
    like one.
    Raises RecordError or InvalidConfigError when the file cannot be read.
    """
    if data_format.lower() == "csv":
        return infer_schema(name, _csv_types(path_or_uri, config or {}))
    types: dict[str, pa.DataType] = {}
    rows = 0
    for batch in open_reader(path_or_uri, data_format, config, continue_on_error=True):
        for field in batch.schema:
            types[field.name] = _common(types.get(field.name), field.type)
        rows += batch.num_rows
        if rows >= SAMPLE_ROWS:
            break
    return infer_schema(name, pa.schema(types.items()))


def _common(known: pa.DataType | None, found: pa.DataType) -> pa.DataType:
    """Return the type that holds the values of both: JSON files may show another type with every batch."""
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
    """Return the type that Arrow's CSV reader would give the values of a text column."""
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
