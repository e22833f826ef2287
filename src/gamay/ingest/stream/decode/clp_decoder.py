"""JSON messages with texts encoded by CLP: split into a log type and variables, which have fewer distinct values."""

import numpy as np
import pyarrow as pa

from gamay.base.errors import InvalidConfigError
from gamay.functions.scalar.text.clp import encode
from gamay.ingest.convert.values import convert
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.decode.json_decoder import JsonDecoder
from gamay.ingest.stream.decode.properties import check_properties
from gamay.ingest.stream.spi import DecodedBatch, InputFields, MessageBatch
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.types import DataType

_PARTS = ("_logtype", "_dictionaryVars", "_encodedVars")
_TYPES = (pa.string(), pa.list_(pa.string()), pa.list_(pa.int64()))
_VARIABLES_MAX = 1000


class ClpDecoder:
    """A `MessageDecoder` of JSON objects.

    fieldsForClpEncoding: each of these fields is encoded into `<field>_logtype`, `<field>_dictionaryVars` and
    `<field>_encodedVars`, from which `clpDecode` restores the text; other values than text are encoded as their JSON.
    removeProcessedFields: whether the field itself is dropped. topicNameDestinationColumn: the column for the topic's name.
    A text with more than 1,000 variables is not encoded: `unencodableFieldError`, if given, is encoded instead, and the text
    is stored in `<field><unencodableFieldSuffix>`, if that is given. errorSamplingPeriod has no effect.
    """

    def __init__(self, config: StreamConfig, fields: InputFields) -> None:
        """Raises InvalidConfigError for unknown properties, and if no fields are given."""
        check_properties(
            config, "fieldsForClpEncoding", "removeProcessedFields", "unencodableFieldSuffix", "unencodableFieldError",
            "topicNameDestinationColumn", "errorSamplingPeriod",
        )  # fmt: skip
        given = config.decoder_properties
        self._encoded = [name for part in given.get("fieldsForClpEncoding", "").split(",") if (name := part.strip())]
        if not self._encoded:
            key = config.property_key("decoder.prop.fieldsForClpEncoding")
            raise InvalidConfigError(
                f"{key} is required: the fields whose texts are taken apart; for none use the decoder json"
            )
        self._removes = given.get("removeProcessedFields", "false").strip().lower() == "true"
        self._suffix = given.get("unencodableFieldSuffix")
        error = given.get("unencodableFieldError")
        self._instead = (None, None, None) if error is None else encode(error)
        self._topic, self._topic_column = config.topic, given.get("topicNameDestinationColumn")
        self._fields = fields
        self._json = JsonDecoder(_with_texts(fields, self._encoded))

    def decode(self, messages: MessageBatch) -> DecodedBatch:
        """Return a row for each message that is an object; see `MessageDecoder.decode`."""
        decoded = self._json.decode(messages)
        rows = decoded.rows
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        for name in self._encoded:
            source = columns.get(name)
            columns |= self._taken_apart(name, pa.nulls(rows.num_rows) if source is None else source)
            if self._removes:
                columns.pop(name, None)
        if self._topic_column is not None:
            columns[self._topic_column] = pa.repeat(pa.scalar(self._topic), rows.num_rows)
        wanted = {name: column for name, column in columns.items() if self._fields.wants(name)}
        if not wanted:
            return decoded
        rows = pa.RecordBatch.from_arrays(list(wanted.values()), list(wanted))
        return DecodedBatch(rows, decoded.message_of_row, decoded.undecodable)

    def _taken_apart(self, name: str, source: pa.Array) -> dict[str, pa.Array]:
        texts, _ = convert(source, FieldSpec(name, DataType.STRING))
        distinct = texts.dictionary_encode()
        parts = [encode(text) for text in distinct.dictionary.to_pylist()]
        too_many = np.array([max(len(part[1]), len(part[2])) > _VARIABLES_MAX for part in parts], np.bool_)
        used = [self._instead if fails else part for part, fails in zip(parts, too_many, strict=True)]
        found = {
            name + suffix: pa.array([part[place] for part in used], kind).take(distinct.indices)
            for place, (suffix, kind) in enumerate(zip(_PARTS, _TYPES, strict=True))
        }
        if self._suffix is not None:
            kept = [text if fails else None for text, fails in zip(distinct.dictionary.to_pylist(), too_many, strict=True)]
            found[name + self._suffix] = pa.array(kept, pa.string()).take(distinct.indices)
        return found


def _with_texts(fields: InputFields, encoded: list[str]) -> InputFields:
    """Return the fields to read: the wanted ones, and the texts to encode."""
    if fields.names is None:
        return fields
    types = {**fields.types, **{name: DataType.STRING for name in encoded if name not in fields.types}}
    return InputFields(
        fields.names | set(encoded), types, fields.multi_value - set(encoded), fields.as_written - set(encoded)
    )
