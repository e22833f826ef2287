"""Message metadata as additional columns: `metadata.populate`."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.ingest.stream.spi import DecodedBatch, MessageBatch


def add_metadata(messages: MessageBatch, decoded: DecodedBatch, partition: int) -> DecodedBatch:
    """Return the rows with Pinot's columns `__key`, `__header$<name>` and `__metadata$<item>`.

    The items are `offset`, `recordTimestamp` (null if unknown), `partition` and `recordSerializedValueSize`, all text. Keys
    and headers are text if all of a batch are UTF-8, else bytes.
    """
    at = pa.array(decoded.message_of_row)
    times = pa.array(messages.timestamps_ms, mask=messages.timestamps_ms < 0)
    partitions = pa.array(np.full(len(messages), partition, np.int64))
    columns: dict[str, pa.Array] = {
        "__metadata$offset": messages.offsets.cast(pa.string()),
        "__metadata$recordTimestamp": times.cast(pa.string()),
        "__metadata$partition": partitions.cast(pa.string()),
        "__metadata$recordSerializedValueSize": pc.binary_length(messages.payloads).cast(pa.string()),
    }
    if messages.keys is not None:
        columns["__key"] = _text(messages.keys)
    if messages.headers is not None:
        columns |= _header_columns(messages.headers)
    rows = decoded.rows.select([name for name in decoded.rows.schema.names if name not in columns])
    arrays = [*rows.columns, *(column.take(at) for column in columns.values())]
    with_all = pa.RecordBatch.from_arrays(arrays, [*rows.schema.names, *columns])
    return DecodedBatch(with_all.replace_schema_metadata(rows.schema.metadata), decoded.message_of_row, decoded.undecodable)


def _header_columns(headers: pa.MapArray) -> dict[str, pa.Array]:
    """Return a column for each header name; if a message repeats a header, its last value is used."""
    names = pc.unique(headers.keys).to_pylist()
    return {f"__header${name}": _text(pc.map_lookup(headers, name, "last")) for name in names}


def _text(values: pa.BinaryArray) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return values
