"""Conversion of a record reader's batches to the conformed batches from which segments are built."""

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa

from gamay.base.errors import InvalidConfigError, RecordError, nearest
from gamay.functions.arrow import arrow_type
from gamay.functions.expression import Call, column_names
from gamay.ingest.convert import times
from gamay.ingest.convert.arrays import Mask, null_where
from gamay.ingest.convert.values import convert
from gamay.ingest.read.records import MULTI_VALUE_DELIMITER, BadRecord, ErrorLog
from gamay.ingest.transform import nested, transforms
from gamay.ingest.transform.aggregated import AggregatedMetrics
from gamay.ingest.transform.map_pairs import MapPairs
from gamay.ingest.transform.rows import Failures, Locate, PipelineStats, Rows, describe_value
from gamay.ingest.transform.sanitise import sanitise
from gamay.ingest.transform.transforms import Evaluator, Transform
from gamay.model.schema.datetime_format import sane_time
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.table.ingestion import EnrichmentConfig, SourceFieldConfig
from gamay.model.table.rollup import rollups_of
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType
from gamay.model.types import DataType

_NAMES_SHOWN = 8
_NAME_SHOWN = 60
_READ_NESTED = ("jsonstringtolistormap", "jsonstringtomap")
_SOURCE_TYPES = {
    "BOOLEAN": DataType.BOOLEAN, "BYTE": DataType.INT, "CHARACTER": DataType.STRING, "SHORT": DataType.INT,
    "INTEGER": DataType.INT, "INT": DataType.INT, "LONG": DataType.LONG, "FLOAT": DataType.FLOAT, "DOUBLE": DataType.DOUBLE,
    "BIG_DECIMAL": DataType.BIG_DECIMAL, "TIMESTAMP": DataType.TIMESTAMP, "STRING": DataType.STRING, "JSON": DataType.JSON,
    "BYTES": DataType.BYTES, "UUID": DataType.UUID,
}  # fmt: skip


class Pipeline:
    """A pipeline that applies a table's ingestion config to batches. Not thread-safe.

    The order is Pinot's: source types and enrichments, flattening of nested input, source types and enrichments, computed
    columns, filter, conversion to the schema's types, check of times, special values, cleaning of text. Missing values stay
    null; the segment builder stores the columns' defaults for them.

    drop_failed: input rows with a value that cannot be computed or converted are dropped and listed in `dropped`, instead of
    raising. A table's `continueOnError`, which keeps such rows with the value null, takes precedence.

    Raises InvalidConfigError for expressions and settings that cannot be applied.
    """

    def __init__(self, schema: Schema, table_config: TableConfig, *, drop_failed: bool = False) -> None:
        ingestion = table_config.ingestion
        if ingestion.schema_conforming_transformer is not None:
            raise InvalidConfigError(
                "ingestionConfig.schemaConformingTransformerConfig is not supported; use complexTypeConfig"
            )
        self._schema = schema
        self._config = ingestion
        self._time_column = table_config.time_column
        self._transforms = transforms.in_order_of_dependency(_transforms(schema, table_config))
        self._pairs = MapPairs(schema, {transform.column for transform in self._transforms})
        self._enrichments = [(e.pre_complex_type_transform, _generated(e)) for e in ingestion.enrichments]
        text = ingestion.filter.filter_function if ingestion.filter is not None else None
        self._filter = transforms.parse_transform("", text, "ingestionConfig.filterConfig") if text else None
        self._source_fields = [(c.pre_complex_type_transform, _source_field(c)) for c in ingestion.source_fields]
        is_realtime = table_config.table_type is TableType.REALTIME
        self._aggregated = AggregatedMetrics(schema, rollups_of(schema, table_config) if is_realtime else ())
        self._evaluator = Evaluator(schema)
        self._log = ErrorLog(ingestion.continue_on_error)
        self.stats = PipelineStats()
        self._failures = Failures(self._log, self.stats, drop=drop_failed and not ingestion.continue_on_error)
        self.origins = np.empty(0, np.int64)
        """int64: for each row that `apply` returned last, the 0-based row of the input batch that it comes from."""

    @property
    def schema(self) -> Schema:
        """The table's schema."""
        return self._schema

    @property
    def errors(self) -> list[BadRecord]:
        """The first values that could not be computed or converted and became null by `continueOnError`."""
        return self._log.kept

    @property
    def dropped(self) -> dict[int, str]:
        """The rows of the last batch that were dropped because of a failed value, 0-based, and the reasons."""
        return self._failures.dropped

    def check(self) -> None:
        """Raise InvalidConfigError for expressions that cannot be valid for any row, as far as the schema shows."""
        for transform in (*self._transforms, *(one for _, generated in self._enrichments for one in generated)):
            self._evaluator.check(transform)
        if self._filter is not None:
            self._evaluator.check(self._filter, is_condition=True)

    def check_columns(self, columns: Collection[str], file: str = "input") -> None:
        """Raise RecordError if no input column is a column of the table, and no setting computes columns from others.

        Such rows would have default values only, which indicates a missing header or a wrong delimiter.
        """
        settings = self._config
        computes = self._transforms or settings.enrichments or settings.source_fields or settings.complex_type is not None
        known = [field.name for field in self._schema.stored_fields]
        if computes or not columns or any(name in known or name in self._pairs.sources for name in columns):
            return
        raise RecordError(
            f"{file}: none of its columns ({_some(columns)}) is a column of {self._schema.name} ({_some(known)}); "
            "is there a header, and are its names and the delimiter right?"
        )

    def left_out(self, columns: Collection[str]) -> list[str]:
        """Return the input columns that the table does not use."""
        if self._config.complex_type is not None or self._enrichments or self._filter is not None:
            return []  # the columns that these read are not determined here
        used = {field.name for field in self._schema.stored_fields}
        used.update(self._pairs.sources, *(column_names(transform.expression) for transform in self._transforms))
        return [name for name in columns if name not in used]

    def apply(self, batch: pa.RecordBatch, file: str = "input", locate: Locate | None = None) -> pa.RecordBatch:
        """Return the conformed batch for a batch of input; it may have fewer or more rows.

        file, locate: name the location of a row of `batch` (0-based) in messages.
        Raises RecordError for the first value that cannot be computed or converted, unless the table's `continueOnError`
        or `drop_failed`.
        """
        first_row = self.stats.rows_read
        self._failures.begin(file, locate or (lambda row: f"row {first_row + row + 1}"))
        delimiter = (batch.schema.metadata or {}).get(MULTI_VALUE_DELIMITER)
        self._evaluator.multi_value_delimiter = delimiter.decode() if delimiter else None
        rows = self._flattened(Rows.of(batch))
        self._pairs.fill(rows, self._failures)
        transforms.fill_columns(self._transforms, rows, self._evaluator, self._schema, self._failures)
        if self._filter is not None:
            before = rows.num_rows
            rows = transforms.drop_filtered(self._filter, rows, self._evaluator, self._failures)
            self.stats.rows_filtered += before - rows.num_rows
        self._aggregated.fill(rows, self._evaluator.multi_value_delimiter, self._failures)
        fields = self._schema.stored_fields
        columns = [self._finished(spec, rows) for spec in fields]
        target = pa.schema([(f.name, arrow_type(f.data_type, f.single_value)) for f in fields])
        conformed = pa.RecordBatch.from_arrays(columns, schema=target)
        self.origins, sanitised = rows.origin, rows.sanitised
        if self.dropped:
            kept = ~np.isin(rows.origin, list(self.dropped))
            conformed, self.origins = conformed.filter(pa.array(kept)), rows.origin[kept]
            sanitised = None if sanitised is None else sanitised & kept
        if sanitised is not None:
            self.stats.rows_sanitised += int(np.count_nonzero(sanitised))
        self.stats.rows_read += batch.num_rows
        self.stats.rows_written += conformed.num_rows
        self._failures.end()
        return conformed

    def _flattened(self, rows: Rows) -> Rows:
        self._prepare(rows, before_flattening=True)
        if self._config.complex_type is not None:
            rows = nested.flatten(rows, self._config.complex_type, self._schema)
        self._prepare(rows, before_flattening=False)
        return rows

    def _prepare(self, rows: Rows, before_flattening: bool) -> None:
        for is_before, spec in self._source_fields:
            if is_before == before_flattening and spec.name in rows.columns:
                values, failed = convert(rows.columns[spec.name], spec, self._evaluator.multi_value_delimiter)
                self._report(spec, rows, failed)
                rows.put(spec.name, values)
        for is_before, generated in self._enrichments:
            if is_before == before_flattening:
                for transform in generated:
                    rows.columns.pop(transform.column, None)
                    rows.typed.pop(transform.column, None)
                transforms.fill_columns(generated, rows, self._evaluator, self._schema, self._failures)
                if before_flattening:
                    _mark_nested(generated, rows)

    def _finished(self, spec: FieldSpec, rows: Rows) -> pa.Array:
        values, failed = rows.converted(spec, self._evaluator.multi_value_delimiter)
        self._report(spec, rows, failed)
        if spec.name == self._time_column and self._config.row_time_value_check:
            values = self._checked_times(values, spec, rows)
        is_cleaned = spec.data_type in (DataType.STRING, DataType.JSON, DataType.BYTES)
        if is_cleaned and not self._aggregated.is_taken_in_whole(spec.name):
            values, num_changed, changed, too_long = sanitise(values, spec)
            self.stats.values_trimmed += num_changed
            if changed is not None:
                rows.sanitised = changed if rows.sanitised is None else rows.sanitised | changed
            if too_long is not None:
                self._failures.add(
                    rows, too_long, lambda row: f"column '{spec.name}': the value is longer than {spec.max_length}"
                )
        return values

    def _checked_times(self, values: pa.Array, spec: FieldSpec, rows: Rows) -> pa.Array:
        millis = times.millis_of_column(values, spec)
        valid = np.asarray(values.is_valid())
        if not valid.any() or (sane_time(int(millis[valid].min())) and sane_time(int(millis[valid].max()))):
            return values
        distinct, places = np.unique(millis, return_inverse=True)
        outside = ~np.array([sane_time(time) for time in distinct.tolist()])[places] & valid
        self._failures.add(
            rows, outside, lambda row: f"column '{spec.name}': the time {values[row].as_py()!r} is not in 1971 to 2071"
        )
        return null_where(values, outside)

    def _report(self, spec: FieldSpec, rows: Rows, failed: Mask | None) -> None:
        if failed is not None and failed.any():
            wanted = spec.data_type.value if spec.single_value else f"list of {spec.data_type.value}"
            self._failures.add(
                rows,
                failed,
                lambda row: f"column '{spec.name}': {describe_value(rows.columns, spec.name, row)} is not a valid {wanted}",
            )


def _transforms(schema: Schema, table_config: TableConfig) -> list[Transform]:
    found: dict[str, Transform] = {}
    for config in table_config.ingestion.transforms:
        what = f"the transform of column '{config.column_name}'"
        if config.column_name in found:
            raise InvalidConfigError(f"{what} is given twice in transformConfigs")
        found[config.column_name] = transforms.parse_transform(config.column_name, config.transform_function, what)
    for spec in schema.stored_fields:
        if spec.transform_function and spec.name not in found:
            what = f"the schema's transformFunction of column '{spec.name}'"
            found[spec.name] = transforms.parse_transform(spec.name, spec.transform_function, what)
    return list(found.values())


def _mark_nested(generated: Sequence[Transform], rows: Rows) -> None:
    """Mark lists and objects that an enrichment parsed from text as JSON, so that they are flattened like nested input."""
    for transform in generated:
        expression, column = transform.expression, rows.columns.get(transform.column)
        if isinstance(expression, Call) and expression.name in _READ_NESTED and column is not None:
            rows.put(transform.column, pa.ExtensionArray.from_storage(pa.json_(), column.cast(pa.string())))


def _generated(enrichment: EnrichmentConfig) -> list[Transform]:
    if enrichment.enricher_type != "generateColumn":
        raise InvalidConfigError(f"enricherType '{enrichment.enricher_type}' is not supported; supported is generateColumn")
    functions = (enrichment.properties or {}).get("fieldToFunctionMap", {})
    found = [transforms.parse_transform(n, str(f), f"the generated column '{n}'") for n, f in functions.items()]
    return transforms.in_order_of_dependency(found)


def _source_field(config: SourceFieldConfig) -> FieldSpec:
    name = config.data_type.upper()
    element = name.removesuffix("_ARRAY")
    if element not in _SOURCE_TYPES:
        near = nearest(element, _SOURCE_TYPES)
        raise InvalidConfigError(f"sourceFieldConfigs: unknown dataType '{config.data_type}' of '{config.name}'.{near}")
    return FieldSpec(config.name, _SOURCE_TYPES[element], single_value=element == name)


def _some(names: Collection[str]) -> str:
    shown = [name if len(name) <= _NAME_SHOWN else f"{name[:_NAME_SHOWN]}…" for name in list(names)[:_NAMES_SHOWN]]
    return ", ".join(shown) + (", …" if len(names) > _NAMES_SHOWN else "")
