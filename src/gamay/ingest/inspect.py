"""Inspection of a file or a topic before the creation of a table: a schema, and column statistics from the first rows."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import InvalidConfigError
from gamay.ingest.infer import infer_file_schema, infer_schema, sources_of
from gamay.ingest.read.readers import open_reader
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.offsets import OffsetCriteria
from gamay.ingest.stream.plugins import open_decoder, open_stream
from gamay.ingest.stream.spi import StreamContext
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.types import DataType

ROWS_MAX = 20_000
"""So many of the first rows of a file are looked at for what columns have; for types more, see `infer_file_schema`."""

_MESSAGES_MAX = 1000  # per inspected partition
_PARTITIONS_MAX = 8
_BYTES_MAX = 1 << 20
_FETCH_MS = 1000
_COMMON = 3
_CHARS_MAX = 60
_NUMBERS = {
    DataType.INT: pa.int64(),
    DataType.LONG: pa.int64(),
    DataType.FLOAT: pa.float64(),
    DataType.DOUBLE: pa.float64(),
}


@dataclass(frozen=True, slots=True)
class Inspection:
    """Result of an inspection. columns: statistics of each field over the inspected rows, as JSON; undecodable: the first
    reasons why messages are not records.
    """

    schema: Schema
    rows: int
    is_all: bool
    columns: tuple[dict[str, Any], ...]
    undecodable: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the answer of the REST interface."""
        return {
            "schema": self.schema.to_json(),
            "numRows": self.rows,
            "isWhole": self.is_all,
            "columns": list(self.columns),
            "undecodable": list(self.undecodable),
        }


def inspect_file(
    name: str, path: str, data_format: str, config: Mapping[str, Any] | None = None, time_column: str | None = None
) -> Inspection:
    """Inspect a file. name: of the schema; the other arguments and the errors are those of `infer_file_schema`."""
    schema = infer_file_schema(name, path, data_format, config, time_column)
    batches, rows, is_all = [], 0, True
    for batch in open_reader(path, data_format, config, continue_on_error=True):
        batches.append(batch.slice(0, ROWS_MAX - rows))
        rows += batches[-1].num_rows
        if rows >= ROWS_MAX:
            is_all = False
            break
    if not rows:
        raise InvalidConfigError("there are no rows from which a schema could be told")
    return Inspection(schema, rows, is_all, tuple(_columns(schema, batches)))


def inspect_topic(name: str, config: StreamConfig, context: StreamContext, time_column: str | None = None) -> Inspection:
    """Inspect the first messages of some partitions of a topic.

    Raises InvalidConfigError for an unusable config, and if no message is a record, and the
    errors of `gamay.ingest.stream.spi`.
    """
    batches, reasons = [], []
    for rows, undecodable in _decoded(config, context):
        batches.append(rows)
        reasons += undecodable
    if not any(batch.num_rows for batch in batches):
        why = f"; the first message that is none: {reasons[0]}" if reasons else ""
        raise InvalidConfigError(f"the topic '{config.topic}' has no messages from which a schema could be told{why}")
    table = pa.concat_tables([pa.Table.from_batches([batch]) for batch in batches], promote_options="permissive")
    source = sources_of(table.column_names).get(time_column or "")
    sample = None if source is None else table.column(source)
    schema = infer_schema(name, table.schema, time_column, sample)
    return Inspection(schema, table.num_rows, False, tuple(_columns(schema, table.to_batches())), tuple(reasons[:_COMMON]))


def _decoded(config: StreamConfig, context: StreamContext) -> Iterator[tuple[pa.RecordBatch, list[str]]]:
    stream, decoder = open_stream(config, context), open_decoder(config)
    with closing(stream.metadata()) as metadata:
        for partition in metadata.partition_ids()[:_PARTITIONS_MAX]:
            start = metadata.offset(partition, OffsetCriteria.parse("smallest"))
            with closing(stream.partition_consumer(partition)) as consumer:
                found = decoder.decode(consumer.fetch(start, _MESSAGES_MAX, _BYTES_MAX, _FETCH_MS))
            yield found.rows, [one.reason for one in found.undecodable]


def _columns(schema: Schema, batches: list[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    total = sum(batch.num_rows for batch in batches)
    named = [sources_of(batch.schema.names) for batch in batches]
    for field in schema.fields:
        parts = [batch.column(names[field.name]) for batch, names in zip(batches, named, strict=True) if field.name in names]
        yield {"name": field.name, **_facts(field, parts, total)}


def _facts(field: FieldSpec, parts: list[pa.Array], total: int) -> dict[str, Any]:
    """Return statistics of a field's values, as far as they are comparable."""
    known = [part.drop_null() for part in parts]
    found: dict[str, Any] = {"numNulls": total - sum(map(len, known))}
    values = _comparable(field, [part for part in known if len(part)])
    if values is None:
        return found
    ends = pc.min_max(values)
    counts = sorted(pc.value_counts(values).to_pylist(), key=lambda one: -one["counts"])
    found |= {
        "numDistinct": len(counts),
        "min": _shown(ends["min"].as_py()),
        "max": _shown(ends["max"].as_py()),
        "common": [[_shown(one["values"]), one["counts"]] for one in counts[:_COMMON]],
    }
    return found


def _comparable(field: FieldSpec, parts: list[pa.Array]) -> pa.ChunkedArray | None:
    """Return values of a single plain type, numbers for a numeric column; None if there are none."""
    plain = [part.storage if isinstance(part, pa.ExtensionArray) else part for part in parts]
    if not plain or not field.single_value or any(pa.types.is_nested(part.type) for part in plain):
        return None
    if (wanted := _NUMBERS.get(field.data_type)) is not None:
        try:
            return pa.chunked_array([pc.cast(part, wanted, safe=False) for part in plain])
        except pa.ArrowException:
            pass  # a text that is a number only for an exact parser
    if len({str(part.type) for part in plain}) > 1:
        plain = [pc.cast(part, pa.string()) for part in plain]
    return pa.chunked_array(plain)


def _shown(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= _CHARS_MAX else f"{text[:_CHARS_MAX]}…"
