"""Avro object container files, plain or gzipped as a whole."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import fastavro
import pyarrow as pa

from gamay.base.errors import RecordError
from gamay.ingest.columns import values_to_array
from gamay.ingest.records import BadRecord, ErrorLog, Positions
from gamay.ingest.sources import open_bytes

_BATCH_ROWS = 16_384
_TIME_TYPES = ("timestamp-", "local-timestamp-", "time-", "date")


class AvroReader:
    """Reads an Avro file; see `gamay.ingest.records.RecordReader`.

    Timestamps, dates, decimals and UUIDs come as what they mean; with `raw_times` times stay the numbers they are stored as.
    What follows a damaged block cannot be read: it is one error that names the first record lost.
    """

    def __init__(self, uri: str, log: ErrorLog, *, raw_times: bool = False) -> None:
        self.file = uri
        self._log = log
        self._raw_times = raw_times
        self._positions = Positions("record")

    @property
    def errors(self) -> list[BadRecord]:
        return self._log.kept

    @property
    def num_errors(self) -> int:
        return self._log.count

    def position(self, row: int) -> str:
        return self._positions.position(row)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        with open_bytes(self.file) as stream:
            try:
                records = fastavro.reader(stream)
                if self._raw_times:
                    stream.seek(0)
                    records = fastavro.reader(stream, reader_schema=_without_times(records.writer_schema))
            except (ValueError, KeyError, EOFError, OSError, fastavro.schema.SchemaParseException) as error:
                raise RecordError(f"{self.file} is not an Avro file: {error}") from error
            names = _field_names(records.writer_schema, self.file)
            rows = 0
            while batch := self._next_records(records, rows):
                yield pa.RecordBatch.from_arrays([values_to_array([r.get(n) for r in batch]) for n in names], names)
                rows += len(batch)

    def _next_records(self, records: Any, rows_before: int) -> list[dict[str, Any]]:
        batch: list[dict[str, Any]] = []
        try:
            for record in islice(records, _BATCH_ROWS):
                batch.append(record)
        except Exception as error:  # noqa: BLE001 - fastavro raises whatever its damaged input leads to
            position = f"record {rows_before + len(batch) + 1} and all after it"
            self._log.add(BadRecord(self.file, position, f"the file is damaged: {type(error).__name__}: {error}"))
        return batch


def _field_names(schema: Any, file: str) -> list[str]:
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        raise RecordError(f"{file}: the Avro file must hold records, not {schema!r:.100}")
    return [field["name"] for field in schema["fields"]]


def _without_times(schema: Any) -> Any:
    """Return an Avro schema whose dates and times are plain numbers."""
    if isinstance(schema, list):
        return [_without_times(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if str(schema.get("logicalType", "")).startswith(_TIME_TYPES):
        return schema["type"]
    return {
        key: _without_times(value) if key in ("type", "fields", "items", "values") else value
        for key, value in schema.items()
    }
