"""The secondary indexes of a segment on disk: layout, writer and checked reader.

    indexes.json := UTF-8 JSON object with a checksum, as metadata.json: the CRC of the segment that they were built from,
    and
                    for each index its kind, columns, settings, the content of its type, and its files' sizes and CRC-32
    indexes/<i>/ := the files of index i of `indexes.json`, as its type writes them

They are derived from the segment and not part of its CRC.
"""

import logging
import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gamay.base.errors import CorruptSegmentError
from gamay.model.table.secondary_indexes import IndexDeclaration
from gamay.segment.encode.format import (
    FORMAT_VERSION,
    BufferFile,
    BufferMeta,
    BufferWriter,
    read_metadata_file,
    write_metadata_file,
)
from gamay.segment.secondary.registry import index_type, missing_extra
from gamay.segment.spi import IndexSource, SecondaryIndex

INDEXES_FILE = "indexes.json"
INDEXES_FOLDER = "indexes"
_BUFFERS_FILE = "index.bin"
_COPY_BYTES = 1 << 20
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StoredIndex:
    """An index on disk. content: the result of its type's `build`. files: name -> (bytes, CRC-32)."""

    declaration: IndexDeclaration
    folder: Path
    content: Mapping[str, Any]
    files: Mapping[str, tuple[int, int]]
    build_ms: int

    @property
    def kind(self) -> str:
        return self.declaration.kind

    @property
    def size_bytes(self) -> int:
        return sum(size for size, _ in self.files.values())

    @property
    def note(self) -> str:
        """A note for people, such as why the index is omitted in this segment."""
        return str(self.content.get("note", ""))

    def check_files(self) -> None:
        """Verify the size and checksum of each file; raises CorruptSegmentError."""
        for name, expected in self.files.items():
            path = self.folder / name
            if not path.is_file() or _size_and_crc(path) != expected:
                raise CorruptSegmentError(f"{path} is damaged: its size or checksum is not that of {INDEXES_FILE}")

    def open(self, columns: Sequence[IndexSource]) -> SecondaryIndex:
        """Open the index. columns: those of its segment."""
        return index_type(self.kind).open(self.folder, self.content, columns, self.declaration.settings)


def describe_index(declaration: IndexDeclaration, folder: Path, content: Mapping[str, Any], build_ms: int) -> StoredIndex:
    """Return the description of an index whose files were just written into `folder`."""
    files = {path.name: _size_and_crc(path) for path in sorted(folder.iterdir())}
    return StoredIndex(declaration, folder, content, files, build_ms)


def index_folder(segment: Path, number: int) -> Path:
    """Return the folder of the files of a segment's index."""
    return segment / INDEXES_FOLDER / str(number)


def link_index(stored: StoredIndex, folder: Path) -> StoredIndex:
    """Link the files of an index, or copy them, into another copy of its segment."""
    folder.mkdir(parents=True)
    for name in stored.files:
        try:
            os.link(stored.folder / name, folder / name)
        except OSError:  # another file system, or one without hard links
            shutil.copyfile(stored.folder / name, folder / name)
    return StoredIndex(stored.declaration, folder, stored.content, stored.files, stored.build_ms)


def write_index_list(segment: Path, segment_crc: int, indexes: Sequence[StoredIndex]) -> None:
    """Write `indexes.json`; index i is in `index_folder(segment, i)`."""
    entries = [
        {
            "kind": index.kind,
            "columns": list(index.declaration.columns),
            "settings": dict(index.declaration.settings),
            "content": dict(index.content),
            "files": {name: list(expected) for name, expected in index.files.items()},
            "buildMs": index.build_ms,
        }
        for index in indexes
    ]
    document = {"formatVersion": FORMAT_VERSION, "segmentCrc": segment_crc, "indexes": entries}
    write_metadata_file(segment, document, INDEXES_FILE)


def remove_indexes(segment: Path) -> None:
    """Remove the indexes of a segment's folder, if it has any."""
    (segment / INDEXES_FILE).unlink(missing_ok=True)
    shutil.rmtree(segment / INDEXES_FOLDER, ignore_errors=True)


def read_index_list(segment: Path, segment_crc: int) -> tuple[StoredIndex, ...]:
    """Return the indexes listed in a segment's folder, without checking their files.

    Raises CorruptSegmentError for a list that is damaged or belongs to another segment.
    """
    if not (segment / INDEXES_FILE).exists():
        return ()
    document = read_metadata_file(segment, INDEXES_FILE)
    try:
        if document["segmentCrc"] != segment_crc:
            raise CorruptSegmentError(
                f"{segment / INDEXES_FILE} was made of a segment with CRC {document['segmentCrc']}; "
                f"this one has {segment_crc}"
            )
        return tuple(_stored(segment, number, entry) for number, entry in enumerate(document["indexes"]))
    except (KeyError, TypeError, ValueError) as reason:
        raise CorruptSegmentError(f"{segment / INDEXES_FILE} does not describe indexes: {reason!r}") from None


def _stored(segment: Path, number: int, entry: Mapping[str, Any]) -> StoredIndex:
    declaration = IndexDeclaration(str(entry["kind"]), tuple(map(str, entry["columns"])), dict(entry["settings"]))
    files = {name: (int(size), int(crc)) for name, (size, crc) in entry["files"].items()}
    for name in files:
        if Path(name).name != name or name in ("", ".", ".."):
            raise ValueError(f"{name!r} is not a file name")
    return StoredIndex(declaration, index_folder(segment, number), dict(entry["content"]), files, int(entry["buildMs"]))


def usable_indexes(
    segment: Path, segment_crc: int, column: Callable[[str], IndexSource], *, is_own: bool
) -> Iterator[StoredIndex]:
    """Yield the indexes of a segment that have intact files and a supported kind; logs those that do not.

    is_own: whether this server built them; otherwise, kinds that are not portable are skipped.
    """
    try:
        listed = read_index_list(segment, segment_crc)
    except CorruptSegmentError as error:
        _log.warning("the indexes are not used: %s", error)
        return
    for stored in listed:
        try:
            if _is_usable(stored, is_own=is_own):
                stored.check_files()
                if not is_own:
                    columns = [column(name) for name in stored.declaration.columns]
                    index_type(stored.kind).check(stored.folder, stored.content, columns)
                yield stored
        except (CorruptSegmentError, KeyError, TypeError, ValueError) as error:
            named = ", ".join(stored.declaration.columns)
            _log.warning("the %s index of %s in %s is not used: %s", stored.kind, named, segment, error)


def _is_usable(stored: StoredIndex, *, is_own: bool) -> bool:
    try:
        wanted = index_type(stored.kind)
    except KeyError:  # a kind of a newer version
        return False
    return missing_extra(stored.kind) is None and (is_own or wanted.is_portable)


def _size_and_crc(path: Path) -> tuple[int, int]:
    crc = size = 0
    with path.open("rb") as file:
        while chunk := file.read(_COPY_BYTES):
            crc, size = zlib.crc32(chunk, crc), size + len(chunk)
    return size, crc


# Buffers of an index in Gamay's own format


def write_buffers(folder: Path, write: Callable[[BufferWriter], Sequence[BufferMeta]]) -> list[list[Any]]:
    """Write buffers into a file of an index's folder; return their positions, for `content`."""
    with (folder / _BUFFERS_FILE).open("wb") as file:
        return [[buffer.kind, buffer.offset, buffer.size, buffer.crc] for buffer in write(BufferWriter(file))]


def read_buffers(folder: Path, listed: Sequence[Sequence[Any]]) -> tuple[BufferFile, dict[str, BufferMeta]]:
    """Map the file of `write_buffers`; raises CorruptSegmentError if the buffers do not tile it."""
    file = BufferFile(folder / _BUFFERS_FILE)
    buffers = {str(kind): BufferMeta(str(kind), int(offset), int(size), int(crc)) for kind, offset, size, crc in listed}
    file.check_layout([("index", buffer) for buffer in buffers.values()])
    return file, buffers
