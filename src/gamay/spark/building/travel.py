"""Rows transferred through Spark as blobs in Arrow's stream format, which are opaque to Spark.

So Java neither converts them to its own rows nor sorts them, which would cost more than all the rest.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

BLOB_BYTES = 256 << 10  # approximate size of a blob: objects from half a MB on burden Java's garbage collector
CONVERTED = "kind int, text string, rows binary"
"""The columns of the output of conversion: blobs, or texts, according to `kind`."""
CUT = "range int, place bigint, rows binary"
"""The columns of blobs of rows of one range. place: the order of a blob within its range."""
ROWS, REPORT, SAMPLE = 0, 1, 2
"""The values of `kind`: a blob of rows; a report as JSON; a sample of keys as JSON."""

Batches: TypeAlias = Iterator[pa.RecordBatch]
_CONVERTED = pa.schema([("kind", pa.int32()), ("text", pa.string()), ("rows", pa.binary())])
_CUT = pa.schema([("range", pa.int32()), ("place", pa.int64()), ("rows", pa.binary())])


def packed(batch: pa.RecordBatch) -> Batches:
    """Yield conformed rows as blobs of about `BLOB_BYTES` in the columns `CONVERTED`."""
    rows = max(1, int(BLOB_BYTES * batch.num_rows / max(batch.nbytes, 1)))
    for start in range(0, batch.num_rows, rows):
        blob = _blob([batch.slice(start, rows)])
        yield pa.RecordBatch.from_arrays([pa.array([ROWS], pa.int32()), pa.nulls(1, pa.string()), blob], schema=_CONVERTED)


def told(kind: int, text: str) -> pa.RecordBatch:
    """Return a report or a sample in the columns `CONVERTED`."""
    first = [pa.array([kind], pa.int32()), pa.array([text], pa.string())]
    return pa.RecordBatch.from_arrays([*first, pa.nulls(1, pa.binary())], schema=_CONVERTED)


def cut(number: int, place: int, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return rows of one range as a blob in the columns `CUT`."""
    first = [pa.array([number], pa.int32()), pa.array([place], pa.int64())]
    return pa.RecordBatch.from_arrays([*first, _blob(batches)], schema=_CUT)


def opened(blob: pa.BinaryScalar) -> list[pa.RecordBatch]:
    """Return the rows of a blob without copying them."""
    with pa.ipc.open_stream(blob.as_buffer()) as stream:
        return list(stream)


def _blob(batches: Sequence[pa.RecordBatch]) -> pa.Array:
    sink: Any = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    data = sink.getvalue()
    return pa.Array.from_buffers(pa.binary(), 1, [None, pa.array([0, data.size], pa.int32()).buffers()[1], data])
