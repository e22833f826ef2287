"""Building an immutable segment from conformed Arrow batches."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from gamay.base.clock import SYSTEM_CLOCK, Clock
from gamay.base.errors import ConflictError, RecordError
from gamay.functions.arrow import arrow_type
from gamay.functions.expression import LiteralValue
from gamay.model.datetime_format import sane_time
from gamay.model.schema import FieldSpec, Schema
from gamay.model.table_config import TableConfig
from gamay.segment.column_writer import ColumnPlan, write_column
from gamay.segment.format import COLUMNS_FILE, BufferWriter
from gamay.segment.metadata import ColumnMeta, SegmentMetadata, content_crc, write_metadata
from gamay.storage.files import publish_folder

# Small batches are joined up to this many rows before they are encoded, large ones cut: ids of a chunk then fit 16 bits.
_CHUNK_ROWS = 1 << 16


class SegmentBuilder:
    """Takes rows, then writes the segment folder `out_dir/name`, all or nothing.

    Memory is bounded by the segment: chunks are kept dictionary-encoded. Equal rows in equal order and equal config give
    the same bytes in `columns.bin`.
    """

    def __init__(
        self,
        schema: Schema,
        table_config: TableConfig,
        name: str,
        out_dir: Path | str,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Prepare an empty segment; raises InvalidConfigError when an index cannot be built on its column."""
        self._schema = schema
        self._table_config = table_config
        self._name = name
        self._out_dir = Path(out_dir)
        self._created_ms = clock.now_ms()
        self._plans = [
            ColumnPlan(
                spec,
                table_config.column_index(schema, spec.name),
                self._default(spec),
                table_config.null_handling(schema, spec.name),
                table_config.indexing,
            )
            for spec in schema.stored_fields
        ]
        self._columns = [plan.accumulator() for plan in self._plans]
        self._arrow_schema = pa.schema(
            [(spec.name, arrow_type(spec.data_type, spec.single_value)) for spec in schema.stored_fields]
        )
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self.num_docs = 0

    def append(self, batch: pa.RecordBatch) -> None:
        """Take the next rows: a conformed batch (see `gamay.functions.arrow`); raises ValueError for another one."""
        if not batch.schema.equals(self._arrow_schema):
            raise ValueError(
                f"the batch is not conformed: it has\n{batch.schema}\nand the segment takes\n{self._arrow_schema}"
            )
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        self.num_docs += batch.num_rows
        if self._pending_rows >= _CHUNK_ROWS:
            self._encode_pending()

    def build(self) -> Path:
        """Write the segment and return its folder; the builder cannot be used afterwards.

        Raises ConflictError when the folder exists already, RecordError for a time that is not of its column's format.
        """
        final = self._out_dir / self._name
        if final.exists():
            raise ConflictError(f"cannot build segment '{self._name}': {final} exists already")
        self._encode_pending()
        self._out_dir.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{self._name}.", dir=self._out_dir))
        try:
            temporary.chmod(0o755)
            write_metadata(temporary, self._metadata(self._write_columns(temporary)))
            publish_folder(temporary, final)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        return final

    def _encode_pending(self) -> None:
        if not self._pending_rows:
            return
        table = pa.Table.from_batches(self._pending).combine_chunks()
        self._pending, self._pending_rows = [], 0
        for batch in table.to_batches(max_chunksize=_CHUNK_ROWS):
            for column, array in zip(self._columns, batch.columns, strict=True):
                column.append(array)

    def _write_columns(self, folder: Path) -> dict[str, ColumnMeta]:
        columns: dict[str, ColumnMeta] = {}
        with (folder / COLUMNS_FILE).open("wb") as file:
            writer = BufferWriter(file)
            for plan in self._plans:
                # Each column's chunks are let go of as soon as it is written.
                columns[plan.spec.name] = write_column(writer, plan, self._columns.pop(0))
        return columns

    def _metadata(self, columns: Mapping[str, ColumnMeta]) -> SegmentMetadata:
        time_column = self._table_config.time_column
        start_raw = end_raw = start_ms = end_ms = None
        if time_column is not None and time_column in columns:
            stats = columns[time_column].stats
            start_raw, end_raw = stats.minimum, stats.maximum
            spec = self._schema.field(time_column)
            try:
                start_ms, end_ms = _to_millis(spec, start_raw), _to_millis(spec, end_raw)
            except ValueError as reason:
                raise RecordError(
                    f"the time column '{time_column}': {reason}; correct the value, or the format in the schema"
                ) from None
        return SegmentMetadata(
            name=self._name,
            table=self._table_config.typed_name,
            crc=content_crc(self.num_docs, columns),
            creation_time_ms=self._created_ms,
            num_docs=self.num_docs,
            time_column=time_column,
            start_time_ms=start_ms,
            end_time_ms=end_ms,
            start_time_raw=start_raw,
            end_time_raw=end_raw,
            columns=columns,
        )

    def _default(self, spec: FieldSpec) -> LiteralValue:
        """What stands in for a missing value: in the time column the present time, unless the default is a sane one."""
        if spec.name != self._table_config.time_column or spec.format is None:
            return spec.default_null_value
        try:
            if sane_time(_to_millis(spec, spec.default_null_value) or 0):
                return spec.default_null_value
        except ValueError:
            pass  # a default such as "null" is no time at all, so it is not a sane one either
        now = spec.format.from_millis(self._created_ms)
        return str(now) if spec.data_type.is_text else int(now)


def _to_millis(spec: FieldSpec, value: LiteralValue) -> int | None:
    """Return epoch milliseconds of a value of the time column; raises ValueError."""
    if value is None or spec.format is None:
        return None
    return spec.format.to_millis(value if isinstance(value, (int, str)) else str(value))
