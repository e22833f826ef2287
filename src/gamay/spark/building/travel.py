"""Rows on their way through Spark: as blobs of Arrow's stream format, which Spark moves without looking into them.

Java neither makes rows of its own of them nor sorts them: that costs more than all the rest.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

BLOB_BYTES = 256 << 10  # of a blob, about: the collector of Java has trouble with objects from half a MB on
CONVERTED = "kind int, text string, rows binary"
"""The columns of what conversion yields: blobs, and texts among them, as `kind` says."""
CUT = "range int, place bigint, rows binary"
"""The columns of blobs of rows of one range. place: where they come, among the others of the range."""
ROWS, REPORT, SAMPLE = 0, 1, 2
"""Kinds: a blob; a report, or a sample of keys, as JSON."""

Batches: TypeAlias = Iterator[pa.RecordBatch]
_CONVERTED = pa.schema([("kind", pa.int32()), ("text", pa.string()), ("rows", pa.binary())])
_CUT = pa.schema([("range", pa.int32()), ("place", pa.int64()), ("rows", pa.binary())])


def packed(batch: pa.RecordBatch) -> Batches:
    """Yield conformed rows in their travelling form, in blobs of about `BLOB_BYTES`."""
    rows = max(1, int(BLOB_BYTES * batch.num_rows / max(batch.nbytes, 1)))
    for start in range(0, batch.num_rows, rows):
        blob = _blob([batch.slice(start, rows)])
        yield pa.RecordBatch.from_arrays([pa.array([ROWS], pa.int32()), pa.nulls(1, pa.string()), blob], schema=_CONVERTED)


def told(kind: int, text: str) -> pa.RecordBatch:
    """Return a report or a sample in the travelling form."""
    first = [pa.array([kind], pa.int32()), pa.array([text], pa.string())]
    return pa.RecordBatch.from_arrays([*first, pa.nulls(1, pa.binary())], schema=_CONVERTED)


def cut(number: int, place: int, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return rows of one range in their travelling form."""
    first = [pa.array([number], pa.int32()), pa.array([place], pa.int64())]
    return pa.RecordBatch.from_arrays([*first, _blob(batches)], schema=_CUT)


def opened(blob: pa.BinaryScalar) -> list[pa.RecordBatch]:
    """Return the rows of a blob; they lie where the blob does."""
    with pa.ipc.open_stream(blob.as_buffer()) as stream:
        return list(stream)


def _blob(batches: Sequence[pa.RecordBatch]) -> pa.Array:
    sink: Any = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    data = sink.getvalue()
    return pa.Array.from_buffers(pa.binary(), 1, [None, pa.array([0, data.size], pa.int32()).buffers()[1], data])
