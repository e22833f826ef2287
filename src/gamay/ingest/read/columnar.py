"""Readers of the columnar formats Parquet, ORC and Arrow."""

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa

from gamay.base.errors import RecordError
from gamay.ingest.read.parts import ByteRange
from gamay.ingest.read.records import BATCH_ROWS, BadRecord, ErrorLog, FileReader
from gamay.ingest.read.sources import open_raw

Batches: TypeAlias = Callable[[BinaryIO, ByteRange | None], Iterator[pa.RecordBatch]]


class ColumnarReader(FileReader):
    """Reader of a file by one of Arrow's readers; see `gamay.ingest.read.records.RecordReader`.

    Data after a damaged part cannot be read: it is one error that names the first lost record.
    """

    def __init__(self, uri: str, log: ErrorLog, what: str, batches: Batches) -> None:
        super().__init__(uri, log)
        self._what = what
        self._batches = batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        rows = 0
        with open_raw(self._uri) as stream:
            batches = self._batches(stream, self._part)
            while (batch := self._next(batches, rows)) is not None:
                rows += batch.num_rows
                yield batch

    def _next(self, batches: Iterator[pa.RecordBatch], rows_before: int) -> pa.RecordBatch | None:
        try:
            batch = next(batches, None)
            if batch is not None:
                _ = batch.schema.names  # decodes the names, which raises if they are not UTF-8
            return batch
        except (pa.ArrowException, OSError, ValueError) as error:
            if rows_before == 0:
                raise RecordError(f"{self.file} cannot be read as {self._what}: {error}") from error
            position = f"record {rows_before + 1} and all after it"
            self._log.add(BadRecord(self.file, position, f"the file is damaged: {error}"))
            return None


def _sliced(batches: Any) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)


def _valid(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Validate a batch's buffers and return it: those of a damaged file would be read out of bounds.

    Raises ArrowInvalid.
    """
    batch.validate(full=True)
    return batch


def parquet_reader(uri: str, log: ErrorLog) -> ColumnarReader:
    """Return a reader of a Parquet file."""

    def batches(stream: BinaryIO, part: ByteRange | None) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq

        file = pq.ParquetFile(stream)
        starts = _starts(file.metadata)
        groups = [i for i, start in enumerate(starts) if part is None or part.start <= start < part.end]
        yield from file.iter_batches(batch_size=BATCH_ROWS, row_groups=groups, use_threads=False)

    return ColumnarReader(uri, log, "Parquet", batches)


def row_group_starts(uri: str) -> list[int]:
    """Return the offset of each row group of a Parquet file. Raises NotFoundError, and RecordError for another file."""
    import pyarrow.parquet as pq

    with open_raw(uri) as stream:
        try:
            return _starts(pq.ParquetFile(stream).metadata)
        except (pa.ArrowException, OSError) as error:
            raise RecordError(f"{uri} cannot be read as Parquet: {error}") from error


def _starts(metadata: Any) -> list[int]:
    found = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = [group.column(i) for i in range(group.num_columns)]
        found.append(min((c.dictionary_page_offset or c.data_page_offset for c in columns), default=0))
    return found


def orc_reader(uri: str, log: ErrorLog) -> ColumnarReader:
    """Return a reader of an ORC file."""

    def batches(stream: BinaryIO, _: ByteRange | None) -> Iterator[pa.RecordBatch]:
        from pyarrow import orc

        file = orc.ORCFile(stream)
        for stripe in range(file.nstripes):
            yield from _sliced([file.read_stripe(stripe)])

    return ColumnarReader(uri, log, "ORC", batches)


def arrow_reader(uri: str, log: ErrorLog) -> ColumnarReader:
    """Return a reader of an Arrow IPC file (Feather 2) or stream."""

    def batches(stream: BinaryIO, _: ByteRange | None) -> Iterator[pa.RecordBatch]:
        magic = stream.read(6)
        stream.seek(0)
        if magic == b"ARROW1":
            file = pa.ipc.open_file(stream)
            yield from _sliced(_valid(file.get_batch(i)) for i in range(file.num_record_batches))
        else:
            yield from _sliced(map(_valid, pa.ipc.open_stream(stream)))

    return ColumnarReader(uri, log, "Arrow", batches)
