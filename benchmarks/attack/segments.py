"""Segments with valid checksums and an invalid structure."""

import json
import math
import random
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gamay.segment.encode.format import canonical_json
from gamay.segment.read.reader import open_segment
from gamay.segment.spi import INVERTED, RANGE

WRONG_FIELDS: list[Any] = [math.nan, -1, 0, 1, 7, 2**31, 2**40, 1.5, "", "x", None, True, [], {}, [1], {"a": 1}]
EXTREMES = {1: [0, 1, 127, 255], 2: [0, 1, 2**15, 2**16 - 1], 4: [0, 1, 2**31 - 1, 2**32 - 1], 8: [0, 1, 2**62, 2**64 - 1]}
_METADATA, _BUFFERS = "metadata.json", "columns.bin"
_METADATA_SHARE = 0.4
_DOCS_STEP = 7
_ENTRIES_LOOKED_UP = 20


def content_of(folder: Path) -> tuple[str, bytes]:
    """Return the text of a segment's metadata and its buffers."""
    return (folder / _METADATA).read_text(), (folder / _BUFFERS).read_bytes()


def write_mutant(folder: Path, content: tuple[str, bytes], rng: random.Random) -> str:
    """Overwrite the segment in a folder by one that differs from `content` in one place; return the description."""
    document, buffers = json.loads(content[0]), bytearray(content[1])
    document.pop("checksum")
    what = _mutate(rng, document, buffers)
    write_sealed(folder, document, bytes(buffers))
    return what


def write_sealed(folder: Path, document: dict[str, Any], buffers: bytes) -> None:
    """Write a segment with valid checksums."""
    for column in document["columns"] if isinstance(document["columns"], list) else ():
        for buffer in column["buffers"] if isinstance(column, dict) and isinstance(column.get("buffers"), list) else ():
            if isinstance(buffer, list) and len(buffer) == 4 and all(type(n) is int and n >= 0 for n in buffer[1:3]):
                buffer[3] = zlib.crc32(buffers[buffer[1] : buffer[1] + buffer[2]])
    document["crc"] = zlib.crc32(canonical_json([document["numDocs"], _without_reasons(document["columns"])]))
    (folder / _BUFFERS).write_bytes(buffers)
    sealed = {**document, "checksum": zlib.crc32(canonical_json(document))}
    (folder / _METADATA).write_text(json.dumps(sealed))


def _without_reasons(columns: Any) -> Any:
    """Return the part of the columns' metadata that a segment's CRC covers, without the reasons for their forms."""
    if not isinstance(columns, list):
        return columns
    return [
        {key: value for key, value in column.items() if key != "reason"} if isinstance(column, dict) else column
        for column in columns
    ]


def read_all(folder: Path) -> None:
    """Read everything in a segment, including its indexes.

    Raises CorruptSegmentError, and UnicodeDecodeError for compressed texts, which are looked at when they are shown.
    """
    segment = open_segment(folder)
    docs = np.arange(0, segment.num_docs, _DOCS_STEP, dtype=np.int32)
    for name in segment.column_names:
        column = segment.column(name)
        for vector in (column.values(0, segment.num_docs), column.values_at(docs)):
            values: Any = vector.values
            (values.tolist if isinstance(values, np.ndarray) else values.to_pylist)()
        if column.dictionary is not None:
            entries: Any = column.dictionary.values.values
            for value in entries[: len(entries)].tolist()[:_ENTRIES_LOOKED_UP]:
                assert column.dictionary.id_of(value) >= 0
            if (inverted := column.index(INVERTED)) is not None:
                for dict_id in range(len(column.dictionary)):
                    assert all(doc < segment.num_docs for doc in inverted.docs(dict_id))
        if (ranges := column.index(RANGE)) is not None:
            assert ranges.docs_between(column.stats.minimum, column.stats.maximum, True, True) is not None
        if column.null_docs is not None:
            assert max(column.null_docs, default=0) < segment.num_docs
    segment.close()


def leaves(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the location of each value in a document, as keys and positions."""
    if path:
        yield path
    for key, child in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from leaves(child, (*path, key))


def _mutate(rng: random.Random, document: dict[str, Any], data: bytearray) -> str:
    """Change one field of the metadata, or one number of a buffer."""
    if rng.random() < _METADATA_SHARE:
        *above, last = rng.choice([path for path in leaves(document) if path[0] not in ("crc", "formatVersion")])
        node: Any = document
        for key in above:
            node = node[key]
        node[last] = rng.choice([*WRONG_FIELDS, *([node[last] + 1, node[last] * 2] if type(node[last]) is int else [])])
        return f"{[*above, last]} = {node[last]!r}"
    buffers = [(column["name"], *buffer[:3]) for column in document["columns"] for buffer in column["buffers"] if buffer[2]]
    name, kind, offset, size = rng.choice(buffers)
    width = rng.choice([w for w in EXTREMES if w <= size])
    place = offset + rng.randrange(size // width) * width
    near = int.from_bytes(data[place : place + width], "little") ^ 1 << rng.randrange(8 * width)
    value = rng.choice([*EXTREMES[width], near])
    data[place : place + width] = value.to_bytes(width, "little")
    return f"{name} {kind} at {place - offset} of {size}: {value} in {width} bytes"
