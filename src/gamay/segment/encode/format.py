"""The file of a segment's buffers, and its metadata file: byte layout, writer and checked memory-mapped reader.

    segment folder  := metadata.json columns.bin
    columns.bin     := header buffer*
    header          := MAGIC version:u32 zero-padding-to-64; the version is that of metadata.json
    buffer          := payload zero-padding-to-64
    metadata.json   := UTF-8 JSON object; "checksum" is the CRC-32 of the object's canonical form without that key

All integers are little-endian. The metadata of each column has the offset, the size without padding and the CRC-32 of its
buffers. A buffer's layout is described in the module that reads it: `gamay.segment.encode.dictionary`,
`.forward`, `.raw` and `.index.*`. Buffers are contiguous, in the order of the metadata, so equal rows and
equal config give equal bytes.

Version 2 stores raw texts with LZ4 in small blocks (`gamay.segment.encode.raw_blocks`), version 3 in smaller ones that share
a sample of the values as a dictionary, version 4 raw numbers in frame of reference (`gamay.segment.encode.frames`), and the
reason for a column's encoding. Older versions can still be read.
"""

import json
import mmap
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gamay.base.errors import CorruptSegmentError

MAGIC = b"GAMAYSEG"
FORMAT_VERSION = 4
_READABLE_VERSIONS = (1, 2, 3, 4)
ALIGNMENT = 64
METADATA_FILE = "metadata.json"
COLUMNS_FILE = "columns.bin"
_HEADER = (MAGIC + FORMAT_VERSION.to_bytes(4, "little")).ljust(ALIGNMENT, b"\0")
_READS = f"this release reads versions {_READABLE_VERSIONS[0]} to {_READABLE_VERSIONS[-1]}"


@dataclass(frozen=True, slots=True)
class BufferMeta:
    """One buffer of `columns.bin`: byte offset, size in bytes without padding, CRC-32 of the payload."""

    kind: str
    offset: int
    size: int
    crc: int

    @property
    def end(self) -> int:
        """Return the offset of the next buffer: the end of the payload with its padding."""
        return aligned(self.offset + self.size)


def aligned(size: int) -> int:
    """Return `size` rounded up to the alignment of buffers."""
    return -(-size // ALIGNMENT) * ALIGNMENT


class BufferWriter:
    """Writer of aligned buffers to a new `columns.bin`."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._offset = len(_HEADER)
        file.write(_HEADER)

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._offset

    def add(self, kind: str, parts: "Iterable[bytes | memoryview | np.ndarray[Any, Any]]") -> BufferMeta:
        """Write the parts end to end as one buffer."""
        offset, crc, size = self._offset, 0, 0
        for part in parts:
            if not len(part):
                continue
            raw = np.ascontiguousarray(part).data.cast("B") if isinstance(part, np.ndarray) else part
            self._file.write(raw)
            crc = zlib.crc32(raw, crc)
            size += len(raw)
        self._offset = aligned(offset + size)
        self._file.write(bytes(self._offset - offset - size))
        return BufferMeta(kind, offset, size, crc)


class BufferFile:
    """A memory-mapped `columns.bin`. The arrays that it returned keep the mapping alive."""

    def __init__(self, path: Path, *, in_memory: bool = False) -> None:
        """Map the file, or read it whole; raises CorruptSegmentError when it is absent, foreign or of another version."""
        self.path = path
        try:
            with path.open("rb") as file:
                self._map: bytes | mmap.mmap = (
                    file.read() if in_memory else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                )
        except FileNotFoundError:
            raise CorruptSegmentError(f"{path} is missing: the folder is not a segment, or not all of it arrived") from None
        except ValueError:
            raise CorruptSegmentError(f"{path} is empty; expected a header of {len(_HEADER)} bytes") from None
        self._bytes = np.frombuffer(self._map, np.uint8)
        self._check_header(bytes(self._map[: len(_HEADER)]))

    def _check_header(self, header: bytes) -> None:
        if header[: len(MAGIC)] != MAGIC[: len(header)]:
            raise CorruptSegmentError(
                f"{self.path} is not a segment file: it starts with {header[:8]!r}, not with {MAGIC!r}"
            )
        version = int.from_bytes(header[8:12], "little")
        if len(header) == len(_HEADER) and version not in _READABLE_VERSIONS:
            raise CorruptSegmentError(f"{self.path} has format version {version}; {_READS}")
        if len(header) != len(_HEADER) or any(header[12:]):
            raise CorruptSegmentError(f"{self.path}: the header is damaged or truncated ({len(header)} bytes)")

    def __len__(self) -> int:
        return len(self._bytes)

    def check_layout(self, buffers: "list[tuple[str, BufferMeta]]") -> None:
        """Check that the (column, buffer) pairs tile the file exactly; raises CorruptSegmentError."""
        position = len(_HEADER)
        for column, buffer in buffers:
            if buffer.offset != position or buffer.size < 0:
                raise CorruptSegmentError(
                    f"{self.path}: buffer '{buffer.kind}' of column '{column}' is recorded at byte {buffer.offset}; "
                    f"expected {position}"
                )
            position = buffer.end
        if len(self) != position:
            raise CorruptSegmentError(
                f"{self.path} has {len(self)} bytes; expected {position}: it is truncated or not this segment's file"
            )

    def check_buffer(self, column: str, buffer: BufferMeta) -> None:
        """Compare a buffer's CRC with the metadata's; raises CorruptSegmentError."""
        payload_end = buffer.offset + buffer.size
        actual = zlib.crc32(self._bytes[buffer.offset : payload_end].data)
        if actual != buffer.crc:
            raise CorruptSegmentError(
                f"{self.path}: buffer '{buffer.kind}' of column '{column}' at bytes {buffer.offset} to {payload_end} "
                f"has CRC {actual:08x}; expected {buffer.crc:08x}"
            )
        if self._bytes[payload_end : buffer.end].any():
            raise CorruptSegmentError(
                f"{self.path}: the padding after buffer '{buffer.kind}' of column '{column}' is not zero; expected zeros"
            )

    def array(self, buffer: BufferMeta, dtype: Any) -> "np.ndarray[Any, np.dtype[Any]]":
        """Return a buffer as a read-only array of a dtype, without copying."""
        return self._bytes[buffer.offset : buffer.offset + buffer.size].view(dtype)

    def close(self) -> None:
        """Release the mapping; it is unmapped once no array refers to it."""
        self._bytes = np.empty(0, np.uint8)
        self._map = b""


def canonical_json(document: Any) -> bytes:
    """Return the canonical bytes of a JSON value, from which checksums are computed."""
    return json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def write_metadata_file(folder: Path, document: dict[str, Any], name: str = METADATA_FILE) -> None:
    """Write `metadata.json`, or a file like it, with its checksum and indented; the caller syncs it."""
    sealed = {**document, "checksum": zlib.crc32(canonical_json(document))}
    text = json.dumps(sealed, ensure_ascii=False, indent=1)
    (folder / name).write_text(text + "\n", encoding="utf-8")


def read_metadata_file(folder: Path, name: str = METADATA_FILE) -> dict[str, Any]:
    """Read `metadata.json`, or a file like it, and verify its checksum; raises CorruptSegmentError."""
    path = folder / name
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise CorruptSegmentError(f"{path} is missing: the folder is not a segment, or not all of it arrived") from None
    except ValueError as reason:
        raise CorruptSegmentError(f"{path} is not JSON ({reason}): it is truncated, damaged or foreign") from None
    if not isinstance(document, dict) or "formatVersion" not in document:
        raise CorruptSegmentError(f"{path} is not the metadata of a segment: it has no 'formatVersion'")
    if document["formatVersion"] not in _READABLE_VERSIONS:
        raise CorruptSegmentError(f"{path} has format version {document['formatVersion']}; {_READS}")
    expected = document.pop("checksum", None)
    actual = zlib.crc32(canonical_json(document))
    if actual != expected:
        raise CorruptSegmentError(
            f"{path}: the content has checksum {actual}; expected {expected}: it was damaged or edited"
        )
    return document
