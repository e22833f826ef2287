"""Arrow messages: each an IPC stream of any number of rows."""

import numpy as np
import pyarrow as pa

from gamay.ingest.convert.arrays import plain
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.decode.properties import check_properties
from gamay.ingest.stream.decode.records import joined, not_a, records_to_rows
from gamay.ingest.stream.spi import DecodedBatch, InputFields, MessageBatch, Undecodable


class ArrowDecoder:
    """A `MessageDecoder` of Arrow IPC streams; it drops the metadata of their schemas."""

    def __init__(self, config: StreamConfig, fields: InputFields) -> None:
        """Raises InvalidConfigError for unknown properties."""
        check_properties(config, "arrow.allocator.limit", "extractRawTimeValues")
        self._fields = fields
        self._raw_times = config.decoder_properties.get("extractRawTimeValues", "false").lower() == "true"

    def decode(self, messages: MessageBatch) -> DecodedBatch:
        """Return the rows of all messages; see `MessageDecoder.decode`."""
        parts: list[DecodedBatch] = []
        starts: list[int] = []
        undecodable: list[Undecodable] = []
        for place, payload in enumerate(messages.payloads):
            if not payload.is_valid:
                continue
            try:
                batches = self._batches(payload.as_buffer())
            except (pa.ArrowException, OSError, ValueError) as error:
                undecodable.append(Undecodable(place, not_a("an Arrow IPC stream", error)))
                continue
            parts += [DecodedBatch(batch, np.zeros(batch.num_rows, np.int64)) for batch in batches]
            starts += [place] * len(batches)
        if not parts:
            return DecodedBatch(records_to_rows([], self._fields), np.empty(0, np.int64), undecodable)
        rows = joined(parts, starts, self._fields)
        return DecodedBatch(rows.rows, rows.message_of_row, undecodable)

    def _batches(self, payload: pa.Buffer) -> list[pa.RecordBatch]:
        """Return the wanted columns of a message's batches, each of which is validated in full first."""
        found = []
        with pa.ipc.open_stream(payload) as stream:
            wanted = [name for name in dict.fromkeys(stream.schema.names) if self._fields.wants(name)]
            for batch in stream:
                batch.validate(full=True)
                columns = [self._column(batch.column(name)) for name in wanted]
                if columns:
                    found.append(pa.RecordBatch.from_arrays(columns, wanted))
                else:
                    found.append(records_to_rows([{}] * batch.num_rows, self._fields))
        return found

    def _column(self, column: pa.Array) -> pa.Array:
        if self._raw_times and pa.types.is_temporal(column.type):
            return column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
        return plain(column)
