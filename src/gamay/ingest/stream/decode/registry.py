"""Schemas by id from a registry with Confluent's REST interface, and messages prefixed with such an id."""

import json
from collections.abc import Mapping
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import InvalidConfigError
from gamay.ingest.convert.arrays import null_where
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.decode.properties import REGISTRY_PROPERTIES, check_properties
from gamay.ingest.stream.named import registry_urls
from gamay.ingest.stream.spi import Int64s, MessageBatch, PermanentStreamError, TransientStreamError
from gamay.kernels.encode.avro import gather

_URL = "schema.registry.rest.url"
_USER = ("schema.registry.basic.auth.user.info", "basic.auth.user.info")
_CAPACITY = "cached.schema.map.capacity"
_TIMEOUT_S = 10
PREFIX_BYTES = 5
"""A zero byte and the id of the schema: 4 bytes, big-endian."""

T = TypeVar("T")


class UnknownSchemaError(Exception):
    """The registry has no usable schema for an id."""


class RegistryClient:
    """A client of a schema registry."""

    def __init__(self, config: StreamConfig) -> None:
        """Raises InvalidConfigError if no address is configured."""
        import httpx

        properties = config.decoder_properties
        where = config.property_key("decoder.prop.")
        check_properties(config, *REGISTRY_PROPERTIES)
        self._urls = registry_urls(config)
        if not self._urls:
            raise InvalidConfigError(f"{where}{_URL} is required: the address of the schema registry")
        user = next((properties[key] for key in _USER if properties.get(key)), "")
        name, _, password = user.partition(":")
        self._client = httpx.Client(
            timeout=_TIMEOUT_S,
            auth=(name, password) if user else None,
            verify=properties.get("schema.registry.ssl.ca.location") or True,
        )

    def schema(self, number: int, *, serialized: bool = False) -> Mapping[str, Any]:
        """Return the registry's response for an id: `schema` as text, and `schemaType` unless it is Avro.

        serialized: request Protobuf as its file descriptor in base64. Raises UnknownSchemaError, TransientStreamError if no
        registry responds, PermanentStreamError if it rejects the request.
        """
        return self._get(f"/schemas/ids/{number}", f"schema {number}", serialized)

    def version(self, subject: str, version: int, *, serialized: bool = False) -> Mapping[str, Any]:
        """Return the registry's response for a version of a subject that a schema references; see `schema`."""
        return self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}", f"'{subject}', {version}", serialized)

    def _get(self, path: str, what: str, serialized: bool) -> Mapping[str, Any]:
        import httpx

        query = "?format=serialized" if serialized else ""

        problem = ""
        for url in self._urls:
            try:
                answer = self._client.get(f"{url}{path}{query}")
            except httpx.HTTPError as error:
                problem = f"{type(error).__name__}: {error}"
                continue
            if answer.status_code == 200:
                found: Mapping[str, Any] = json.loads(answer.content)
                return found
            if answer.status_code == 404:
                raise UnknownSchemaError(f"the schema registry has no {what}")
            if answer.status_code in (401, 403):
                raise PermanentStreamError(f"the schema registry at {url} refuses access ({answer.status_code})")
            problem = f"status {answer.status_code}"
        raise TransientStreamError(f"the schema registry at {', '.join(self._urls)} does not answer: {problem}")

    def close(self) -> None:
        """Release the connections."""
        self._client.close()


class SchemaCache(Generic[T]):
    """An LRU cache of the objects built from schemas, by schema id."""

    def __init__(self, config: StreamConfig) -> None:
        text = config.decoder_properties.get(_CAPACITY, "1000")
        if not text.isdigit() or int(text) < 1:
            raise InvalidConfigError(
                f"{config.property_key('decoder.prop.' + _CAPACITY)}: '{text}' is not a positive number"
            )
        self._capacity = int(text)
        self._made: dict[int, T] = {}

    def get(self, number: int) -> T | None:
        """Return the cached value for a schema id, or None."""
        made = self._made.pop(number, None)
        if made is not None:
            self._made[number] = made
        return made

    def put(self, number: int, made: T) -> T:
        """Cache a value for a schema id, and return it."""
        self._made[number] = made
        if len(self._made) > self._capacity:
            del self._made[next(iter(self._made))]
        return made


def schema_ids(messages: MessageBatch) -> Int64s:
    """Return the schema id of each message, -1 for a message without one."""
    payloads = messages.payloads
    lengths = np.asarray(pc.fill_null(pc.binary_length(payloads), 0))
    ids = np.full(len(payloads), -1, np.int64)
    long_enough = np.flatnonzero(lengths >= PREFIX_BYTES)
    if len(long_enough):
        offsets = np.frombuffer(payloads.buffers()[1], np.int32, len(payloads), 4 * payloads.offset)
        data = np.frombuffer(payloads.buffers()[2], np.uint8)
        prefix = data[offsets[long_enough].astype(np.int64)[:, None] + np.arange(PREFIX_BYTES)].astype(np.int64)
        number = (prefix[:, 1] << 24) | (prefix[:, 2] << 16) | (prefix[:, 3] << 8) | prefix[:, 4]
        ids[long_enough] = np.where(prefix[:, 0] == 0, number, -1)
    return ids


def stripped(messages: MessageBatch, size: int) -> MessageBatch:
    """Return the messages without their first bytes; shorter ones are empty."""
    if not size or not len(messages):
        return messages
    payloads = messages.payloads
    before = np.frombuffer(payloads.buffers()[1], np.int32, len(payloads) + 1, 4 * payloads.offset).astype(np.int64)
    values = payloads.buffers()[2]
    lengths = np.maximum(before[1:] - before[:-1] - size, 0)
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    gather(np.frombuffer(values, np.uint8) if values is not None else out, before[:-1] + size, offsets, out)
    rest = pa.Array.from_buffers(pa.binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(out)])
    return messages.with_payloads(null_where(rest, payloads.is_null()) if payloads.null_count else rest)
