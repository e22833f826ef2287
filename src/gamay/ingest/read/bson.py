"""Files of concatenated BSON documents, as written by `mongodump`; plain or gzipped."""

from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa

from gamay.base.errors import RecordError
from gamay.ingest.convert.objects import records_to_batch
from gamay.ingest.read.bson_values import bson_reader
from gamay.ingest.read.records import BadRecord, ErrorLog, FileReader
from gamay.ingest.read.sources import open_bytes

_BATCH_ROWS = 16_384
_SIZE_BYTES = 4
_DOCUMENT_BYTES_MIN = 5


class BsonReader(FileReader):
    """Reader of a BSON file; see `gamay.ingest.read.records.RecordReader`.

    An unreadable document is skipped. After a wrong size, later documents cannot be found: that is one
    error that names the first lost record.
    """

    def __init__(self, uri: str, log: ErrorLog) -> None:
        """Raises InvalidConfigError without the library."""
        super().__init__(uri, log)
        self._read = bson_reader("the reader of BSON files")

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        rows, records = 0, []
        try:
            with open_bytes(self.file) as stream:
                for record in self._records(stream):
                    records.append(record)
                    if len(records) == _BATCH_ROWS:
                        rows += len(records)
                        yield records_to_batch(records)
                        records = []
        except (OSError, EOFError) as error:
            raise RecordError(f"{self.file}: cannot be read beyond {self.position(rows)}: {error}") from error
        if records:
            yield records_to_batch(records)

    def _records(self, stream: BinaryIO) -> Iterator[dict[str, Any]]:
        rows, skipped = 0, 0
        while head := stream.read(_SIZE_BYTES):
            number = rows + skipped + 1
            size = int.from_bytes(head, "little")
            document = head + stream.read(size - _SIZE_BYTES) if size >= _DOCUMENT_BYTES_MIN else head
            if len(document) < max(size, _DOCUMENT_BYTES_MIN):
                reason = "the file is damaged, or no BSON: a document's size is not what follows"
                self._log.add(BadRecord(self.file, f"record {number} and all after it", reason))
                return
            try:
                record = self._read(document)
            except Exception as error:  # noqa: BLE001 - the library raises whatever its damaged input leads to
                self._log.add(BadRecord(self.file, f"record {number}", f"not a BSON document: {error}"))
                skipped += 1
                self._positions.skip(rows, skipped)
                continue
            rows += 1
            yield record
