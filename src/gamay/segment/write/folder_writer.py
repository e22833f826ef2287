"""Atomic writing of a segment's folder from its finished columns."""

import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gamay.base.errors import ConflictError, RecordError
from gamay.functions.expression import LiteralValue
from gamay.model.schema.datetime_format import sane_time
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.segment.encode.format import COLUMNS_FILE, BufferWriter
from gamay.segment.encode.metadata import ColumnMeta, SegmentMetadata, content_crc, write_metadata
from gamay.segment.write.column_writer import ColumnPlan, FinishedColumn, write_column, write_encoded
from gamay.segment.write.timestamp_index import RetainedColumn, TimestampPlan
from gamay.storage.files import publish_folder


@dataclass(frozen=True)
class SegmentPlan:
    """How to write a table's rows. created_ms: milliseconds since the epoch.

    columns: those of the schema. timestamps: by column name, the columns that timestamp indexes derive.
    """

    schema: Schema
    table_config: TableConfig
    name: str
    created_ms: int
    columns: Sequence[ColumnPlan]
    timestamps: Mapping[str, Sequence[TimestampPlan]]

    @classmethod
    def of(cls, schema: Schema, table_config: TableConfig, name: str, created_ms: int) -> "SegmentPlan":
        """Plan every stored column; raises InvalidConfigError if an index cannot be built on its column."""
        columns = [
            ColumnPlan(
                spec,
                table_config.column_index(schema, spec.name),
                _default(spec, table_config, created_ms),
                table_config.null_handling(schema, spec.name),
                table_config.keeps_bounds(schema, spec.name),
                table_config.indexing,
            )
            for spec in schema.stored_fields
        ]
        timestamps = {
            plan.spec.name: [TimestampPlan.of(column, plan) for column in table_config.timestamp_columns(schema, plan.spec)]
            for plan in columns
        }
        return cls(schema, table_config, name, created_ms, columns, timestamps)


def write_segment(
    plan: SegmentPlan, columns: Iterable[FinishedColumn], num_docs: int, out_dir: Path, *, durable: bool = True
) -> Path:
    """Write the folder `out_dir/name` and return it. columns: in the order of the plan, consumed one by one.

    durable: sync the files; with False, the caller ensures durability, perhaps by a copy elsewhere.
    Raises ConflictError if the folder exists, RecordError for a time that is not in its column's format.
    """
    final = out_dir / plan.name
    if final.exists():
        raise ConflictError(f"cannot build segment '{plan.name}': {final} exists already")
    out_dir.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{plan.name}.", dir=out_dir))
    try:
        temporary.chmod(0o755)
        written: dict[str, ColumnMeta] = {}
        with (temporary / COLUMNS_FILE).open("wb") as file:
            writer = BufferWriter(file)
            for column_plan, column in zip(plan.columns, columns, strict=True):
                written.update(_written(writer, column_plan, column, plan.timestamps[column_plan.spec.name]))
        write_metadata(temporary, _metadata(plan, num_docs, written))
        publish_folder(temporary, final, durable=durable)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return final


def _written(
    writer: BufferWriter, plan: ColumnPlan, column: FinishedColumn, timestamps: Sequence[TimestampPlan]
) -> dict[str, ColumnMeta]:
    """Write a column and the columns that a timestamp index derives from it."""
    retained = RetainedColumn(column) if timestamps else None
    written = {plan.spec.name: write_column(writer, plan, retained or column)}
    for derived in timestamps:
        assert retained is not None
        truncated = retained.truncated(derived.column.granularity)
        written[derived.column.name] = write_encoded(writer, derived.plan, truncated)
    return written


def _metadata(plan: SegmentPlan, num_docs: int, columns: Mapping[str, ColumnMeta]) -> SegmentMetadata:
    time_column = plan.table_config.time_column
    start_raw = end_raw = start_ms = end_ms = None
    if time_column is not None and time_column in columns:
        stats = columns[time_column].stats
        start_raw, end_raw = stats.minimum, stats.maximum
        spec = plan.schema.field(time_column)
        try:
            start_ms, end_ms = _to_millis(spec, start_raw), _to_millis(spec, end_raw)
        except ValueError as reason:
            raise RecordError(
                f"the time column '{time_column}': {reason}; correct the value, or the format in the schema"
            ) from None
    return SegmentMetadata(
        name=plan.name,
        table=plan.table_config.typed_name,
        crc=content_crc(num_docs, columns),
        creation_time_ms=plan.created_ms,
        num_docs=num_docs,
        time_column=time_column,
        start_time_ms=start_ms,
        end_time_ms=end_ms,
        start_time_raw=start_raw,
        end_time_raw=end_raw,
        columns=columns,
        timestamp_columns={derived.column.name: derived.column for each in plan.timestamps.values() for derived in each},
    )


def _default(spec: FieldSpec, table_config: TableConfig, created_ms: int) -> LiteralValue:
    """Return the replacement of nulls: in the time column the creation time, unless the default is a valid time."""
    if spec.name != table_config.time_column or spec.format is None:
        return spec.default_null_value
    try:
        if sane_time(_to_millis(spec, spec.default_null_value) or 0):
            return spec.default_null_value
    except ValueError:
        pass  # a default such as "null" is not a time, so it is not valid either
    now = spec.format.from_millis(created_ms)
    return str(now) if spec.data_type.is_text else int(now)


def _to_millis(spec: FieldSpec, value: LiteralValue) -> int | None:
    """Return epoch milliseconds of a value of the time column; raises ValueError."""
    if value is None or spec.format is None:
        return None
    return spec.format.to_millis(value if isinstance(value, (int, str)) else str(value))
