"""ZNRecord: the JSON document that every node of the cluster holds.

`{"id": …, "simpleFields": {k: text}, "mapFields": {k: {k: text}}, "listFields": {k: [text]}}`. Documents above
`COMPRESS_ABOVE_BYTES` are stored gzipped, as Helix does, because ideal states of large tables would not fit a node.
"""

import gzip
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

import orjson

from gamay.base.errors import GamayError

COMPRESS_ABOVE_BYTES = 16_384
_GZIP_MAGIC = b"\x1f\x8b"

T = TypeVar("T")


class CorruptRecordError(GamayError):
    """A node of the metadata store that does not hold a ZNRecord."""


@dataclass(slots=True)
class ZNRecord:
    """One document; the owner may change it until it is encoded."""

    id: str
    simple: dict[str, str] = field(default_factory=dict)
    maps: dict[str, dict[str, str]] = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the document as clients see it."""
        return {"id": self.id, "simpleFields": self.simple, "mapFields": self.maps, "listFields": self.lists}


def encode(record: ZNRecord) -> bytes:
    """Return the bytes of a node; equal records give equal bytes."""
    text = orjson.dumps(record.to_json(), option=orjson.OPT_SORT_KEYS)
    return text if len(text) <= COMPRESS_ABOVE_BYTES else gzip.compress(text, compresslevel=6, mtime=0)


def decode(value: bytes) -> ZNRecord:
    """Return the record that a node holds. Raises CorruptRecordError."""
    try:
        document = orjson.loads(gzip.decompress(value) if value.startswith(_GZIP_MAGIC) else value)
        simple, maps, lists = (document.get(key) or {} for key in ("simpleFields", "mapFields", "listFields"))
        texts = [document["id"], *simple.values()]
        texts += chain.from_iterable(found.values() for found in maps.values())
        texts += chain.from_iterable(lists.values())
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptRecordError(f"not a ZNRecord: {value[:60]!r}… ({error})") from error
    if set(map(type, texts)) != {str} or not all(type(found) is list for found in lists.values()):
        raise CorruptRecordError(f"not a ZNRecord: {value[:60]!r}… (its fields are not strings)")
    return ZNRecord(document["id"], simple, maps, lists)


def read_record(path: str, value: bytes, parse: Callable[[ZNRecord], T], record_id: str | None = None) -> T:
    """Return the parsed record of the node at a path. record_id: the id it must have, by default the last part of the
    path.

    Raises CorruptRecordError, which names the path.
    """
    try:
        record = decode(value)
    except CorruptRecordError as error:
        raise CorruptRecordError(f"the record {path} is damaged: {error}") from error
    return parse_record(path, record, parse, record_id)


def parse_record(path: str, record: ZNRecord, parse: Callable[[ZNRecord], T], record_id: str | None = None) -> T:
    """Return the parsed form of a record read from a path. Raises CorruptRecordError, as `read_record` does."""
    try:
        if record.id != (path.rpartition("/")[2] if record_id is None else record_id):
            raise ValueError(f"its id is '{record.id}'")
        return parse(record)
    except (GamayError, ValueError, KeyError, TypeError, AttributeError) as error:
        told = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise CorruptRecordError(f"the record {path} is damaged: {told}") from error
