"""Key files: the keys of a segment's valid rows in the order of their hashes, so that a restart reads no columns.

`<segment>__<crc>/keys.snapshot`: the magic bytes, the length of a header and that header in JSON, padded to 8 bytes; then,
in this order, the doc ids (int32, padded), the hashes, the lower halves, the comparison values, and for keys stored
as bytes their offsets, flags (padded) and bytes. In native byte order; a file from a machine with another order is ignored.
Rows that became valid after the file was written are not in it; it is then ignored, and rewritten.
"""

import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from gamay.base.arrays import Array
from gamay.storage.files import atomic_write
from gamay.upsert.index.key_index import NO_TEXT, Keys

_log = logging.getLogger(__name__)
_MAGIC = b"GAMAYKY1"
_ALIGNED = 8


@dataclass(frozen=True, slots=True)
class StoredKeys:
    """Rows of a segment in the order of their keys' hashes. docs: int32 [n]; comparisons: int64 [n, columns]."""

    docs: Array
    keys: Keys
    comparisons: Array

    @classmethod
    def sorted(cls, docs: Array, keys: Keys, comparisons: Array) -> "StoredKeys":
        """Sort rows by the upper 16 bits of their hashes, which is fast and as useful as sorting by all bits."""
        order = np.argsort((keys.hashes >> np.uint64(48)).astype(np.uint16), kind="stable")
        return cls(docs, keys, comparisons).at(order)

    def __len__(self) -> int:
        return len(self.docs)

    def at(self, positions: Array) -> "StoredKeys":
        """Return the rows at these positions, int64 [m]."""
        return StoredKeys(self.docs[positions], self.keys.at(positions), self.comparisons[positions])

    def part(self, start: int, stop: int) -> "StoredKeys":
        """Return the rows in [start, stop), as views."""
        return StoredKeys(self.docs[start:stop], self.keys.part(start, stop), self.comparisons[start:stop])


def write_keys(path: Path, signature: str, stored: StoredKeys) -> None:
    """Write or replace the file. signature: of the settings that keys and values depend on. Raises OSError."""
    keys = stored.keys
    arrays = [stored.docs, keys.hashes, keys.lows, stored.comparisons]
    if len(keys.is_text):
        arrays += [keys.offsets - keys.offsets[0], keys.is_text, keys.data[keys.offsets[0] : keys.offsets[-1]]]
    parts = [np.ascontiguousarray(array).tobytes() for array in arrays]
    body = b"".join(part + b"\0" * (-len(part) % _ALIGNED) for part in parts)
    header = orjson.dumps({
        "signature": signature, "byteorder": sys.byteorder, "rows": len(stored), "words": keys.words,
        "columns": stored.comparisons.shape[1], "sizes": [len(part) for part in parts], "sum": _sum(body),
    })  # fmt: skip
    header += b" " * (-len(header) % _ALIGNED)
    atomic_write(path, _MAGIC + len(header).to_bytes(_ALIGNED, "little") + header + body)


def read_keys(path: Path, signature: str) -> StoredKeys | None:
    """Return the stored keys as arrays over the mapped file; None if it is missing or unusable."""
    try:
        raw = np.memmap(path, np.uint8, "c")  # kernels are compiled for writable arrays
        if raw[: len(_MAGIC)].tobytes() != _MAGIC:
            raise ValueError("it does not start like a key file")
        start = len(_MAGIC) + _ALIGNED
        end = start + int.from_bytes(raw[len(_MAGIC) : start].tobytes(), "little")
        header = orjson.loads(raw[start:end].tobytes())
        if header["signature"] != signature or header["byteorder"] != sys.byteorder:
            return None
        body = np.asarray(raw[end:])
        if len(body) != sum(size + -size % _ALIGNED for size in header["sizes"]) or _sum(body) != header["sum"]:
            raise ValueError("its checksum differs")
        return _stored(body, header)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("the keys %s cannot be read and are ignored: %s", path, error)
        return None


def _stored(body: Array, header: dict[str, Any]) -> StoredKeys:
    parts, at = [], 0
    for size in header["sizes"]:
        parts.append(body[at : at + size])
        at += size + -size % _ALIGNED
    docs, hashes, lows = parts[0].view(np.int32), parts[1].view(np.uint64), parts[2].view(np.uint64)
    comparisons = parts[3].view(np.int64).reshape(header["rows"], header["columns"])
    text = (parts[6], parts[4].view(np.int64), parts[5]) if len(parts) > 4 else NO_TEXT
    return StoredKeys(docs, Keys(header["words"], hashes, lows, *text), comparisons)


def _sum(body: "bytes | Array") -> int:
    """Return a sum over 64-bit words, which detects disk corruption at memory bandwidth."""
    return int(np.add.reduce(np.frombuffer(body, np.uint64), dtype=np.uint64))
