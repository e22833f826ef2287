"""JSON messages as text: one object each.

Arrow parses whole batches if the wanted fields are flat; orjson parses the rest.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from gamay.ingest.convert.objects import read_json
from gamay.ingest.stream.decode.json_columns import JsonColumns
from gamay.ingest.stream.decode.records import decode_each, joined, merged, records_to_rows
from gamay.ingest.stream.spi import DecodedBatch, InputFields, MessageBatch
from gamay.model.types import DataType

_PIECES = 16
_PIECE_MESSAGES_MIN = 64
_BATCHES_OFF = 32
_OPEN, _CLOSE = ord("{"), ord("}")


class JsonDecoder:
    """A `MessageDecoder` of JSON objects.

    A batch that Arrow's parser rejects, or would not read exactly, is split into pieces, and only the pieces that it rejects
    again are decoded message by message.
    """

    def __init__(self, fields: InputFields) -> None:
        self._fields = fields
        self._columns = JsonColumns(fields)
        self._loads = read_json if DataType.BIG_DECIMAL in fields.types.values() or fields.names is None else _loads
        self._batches_off = 0  # number of batches to decode message by message before trying Arrow again

    def decode(self, messages: MessageBatch) -> DecodedBatch:
        """Return a row for each message that is an object; see `MessageDecoder.decode`."""
        if self._batches_off:
            self._batches_off -= 1
            return self._decode_each(messages)
        odd = _odd(messages.payloads)
        if odd.any() and 2 * int(odd.sum()) < len(messages):
            return merged(
                self._decode_pieces(messages.where(~odd)), np.flatnonzero(~odd),
                self._decode_each(messages.where(odd)), np.flatnonzero(odd), self._fields,
            )  # fmt: skip
        return self._decode_pieces(messages)

    def _decode_pieces(self, messages: MessageBatch) -> DecodedBatch:
        whole = self._decode_at_once(messages)
        if whole is not None:
            return whole
        size = max(-(-len(messages) // _PIECES), _PIECE_MESSAGES_MIN)
        starts = list(range(0, len(messages), size))
        parts, refused = [], 0
        for start in starts:
            piece = messages.part(start, min(start + size, len(messages)))
            part = self._decode_at_once(piece) if len(starts) > 1 else None
            refused += part is None
            parts.append(self._decode_each(piece) if part is None else part)
        if 2 * refused > len(starts):
            self._batches_off = _BATCHES_OFF
        return joined(parts, starts, self._fields)

    def _decode_at_once(self, messages: MessageBatch) -> DecodedBatch | None:
        """Return the rows if Arrow parses them exactly as orjson would, else None."""
        payloads = messages.payloads
        places = np.arange(len(payloads), dtype=np.int64)
        if payloads.null_count:
            valid = payloads.is_valid()
            places, payloads = places[np.asarray(valid)], payloads.filter(valid)
        if not len(payloads):
            return DecodedBatch(records_to_rows([], self._fields), places)
        lines = _lines(payloads)
        rows = None if lines is None else self._columns.read(lines, len(payloads))
        return None if rows is None else DecodedBatch(rows, places)

    def _decode_each(self, messages: MessageBatch) -> DecodedBatch:
        payloads = messages.payloads.to_pylist()
        try:
            records = list(map(self._loads, payloads))
        except (ValueError, TypeError, RecursionError):
            return decode_each(messages, self._fields, self._load_object, "a JSON object")
        if set(map(type, records)) <= {dict}:
            return DecodedBatch(records_to_rows(records, self._fields), np.arange(len(records), dtype=np.int64))
        return decode_each(messages, self._fields, self._load_object, "a JSON object")

    def _load_object(self, payload: bytes) -> Mapping[str, Any]:
        try:
            record = self._loads(payload)
        except ValueError as error:
            if b"NaN" not in payload and b"Infinity" not in payload and "infinity" not in str(error):
                raise
            record = json.loads(payload.decode())  # like Arrow, it accepts NaN, Infinity and numbers out of range
        if not isinstance(record, dict):
            raise ValueError(f"it is {payload[:80]!r}")
        return record


_loads: Callable[[bytes], Any] = orjson.loads


def _odd(payloads: pa.BinaryArray) -> npt.NDArray[np.bool_]:
    """Return a mask of the non-null messages that do not both begin with `{` and end with `}`."""
    values = payloads.buffers()[2]
    if not len(payloads) or values is None or not values.size:
        return np.asarray(payloads.is_valid())
    offsets = np.frombuffer(payloads.buffers()[1], np.int32, len(payloads) + 1, 4 * payloads.offset)
    data = np.frombuffer(values, np.uint8)
    first, last = np.minimum(offsets[:-1], data.size - 1), np.maximum(offsets[1:] - 1, 0)
    odd: npt.NDArray[np.bool_] = (data[first] != _OPEN) | (data[last] != _CLOSE) | (last <= first)
    return odd & np.asarray(payloads.is_valid()) if payloads.null_count else odd


def _lines(payloads: pa.BinaryArray) -> pa.Buffer | None:
    """Return the messages, each followed by a newline, if each begins and ends with a brace and is UTF-8.

    A JSON string cannot contain a newline, and `}` newline `{` cannot occur within an object. So if a parser finds as many
    objects as there are messages, each message is one object.
    """
    if _odd(payloads).any():
        return None
    try:
        payloads.cast(pa.string())
    except pa.ArrowInvalid:
        return None
    return pc.binary_join_element_wise(payloads, b"", b"\n").buffers()[2]
