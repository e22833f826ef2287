"""BSON messages: one document each (`pip install gamay[bson]`)."""

from gamay.ingest.read.bson_values import bson_reader
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.decode.properties import check_properties
from gamay.ingest.stream.decode.records import decode_each
from gamay.ingest.stream.spi import DecodedBatch, InputFields, MessageBatch


class BsonDecoder:
    """A `MessageDecoder` of BSON documents; `gamay.ingest.read.bson_values` defines the conversion of values."""

    def __init__(self, config: StreamConfig, fields: InputFields) -> None:
        """Raises InvalidConfigError for any property, or if the library is not installed."""
        check_properties(config)
        self._fields = fields
        self._read = bson_reader("the BSON decoder")

    def decode(self, messages: MessageBatch) -> DecodedBatch:
        """Return a row for each message that is a document; see `MessageDecoder.decode`."""
        return decode_each(messages, self._fields, self._read, "a BSON document")
