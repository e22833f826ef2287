"""JSON messages prefixed with the id of a schema in a registry."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.decode.json_decoder import JsonDecoder
from gamay.ingest.stream.decode.properties import REGISTRY_PROPERTIES, check_properties
from gamay.ingest.stream.decode.registry import PREFIX_BYTES, schema_ids, stripped
from gamay.ingest.stream.spi import DecodedBatch, InputFields, MessageBatch

_NO_OBJECT = pa.scalar(b"no zero byte and schema id before it", pa.binary())


class RegistryJsonDecoder:
    """A `MessageDecoder` of JSON objects after a prefix of five bytes; it does not query the registry for their schemas."""

    def __init__(self, config: StreamConfig, fields: InputFields) -> None:
        """Raises InvalidConfigError for unknown properties."""
        check_properties(config, *REGISTRY_PROPERTIES)
        self._decoder = JsonDecoder(fields)

    def decode(self, messages: MessageBatch) -> DecodedBatch:
        """Return a row for each message that is an object after its prefix; see `MessageDecoder.decode`."""
        objects = stripped(messages, PREFIX_BYTES)
        lacks_prefix = (schema_ids(messages) < 0) & np.asarray(messages.payloads.is_valid())
        if lacks_prefix.any():
            objects = objects.with_payloads(pc.if_else(pa.array(lacks_prefix), _NO_OBJECT, objects.payloads))
        return self._decoder.decode(objects)
