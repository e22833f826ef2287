"""Snapshots on a server's disk: the valid docs of each segment, and the watermark of each partition.

`<root>/<segment>__<crc>/validdocids.bitmap.snapshot`, with a delete column also `queryabledocids.bitmap.snapshot`: roaring
bitmaps in their portable format; beside them `keys.snapshot` of `gamay.upsert.rows.key_files`.
`<root>/ttl.watermark.partition.<id>`: a big-endian IEEE double.
Every file is written atomically; an unreadable one is treated as missing.
"""

import logging
import shutil
import struct
import threading
from pathlib import Path
from typing import TypeAlias

from pyroaring import BitMap

from gamay.storage.files import atomic_write, full_disk_explained
from gamay.upsert.rows.key_files import StoredKeys, read_keys, write_keys
from gamay.upsert.rows.valid_docs import SegmentDocs

_log = logging.getLogger(__name__)

SnapshotRows: TypeAlias = tuple[BitMap, BitMap | None]
"""The valid rows of a segment, and with a delete column the queryable ones among them."""

VALID = "validdocids.bitmap.snapshot"
QUERYABLE = "queryabledocids.bitmap.snapshot"
_KEYS = "keys.snapshot"
_WATERMARK = "ttl.watermark.partition."


class SnapshotFolder:
    """The snapshots of one table on one server, with no other writer.

    The folder is listed once, when a snapshot is first written or removed; later the list of snapshots is kept in memory.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._listed: dict[str, set[str]] | None = None

    def read(self, segment: str, crc: int, num_docs: int, has_deletes: bool) -> SnapshotRows | None:
        """Return the valid and queryable rows of a segment with this CRC; None if there is no snapshot of it."""
        folder = self._folder(segment, crc)
        valid = _bitmap(folder / VALID, num_docs)
        if valid is None or not has_deletes:
            return None if valid is None else (valid, None)
        queryable = _bitmap(folder / QUERYABLE, num_docs)
        # without it, the deletions are known only from reading the rows
        return None if queryable is None else (valid, queryable & valid)

    def has(self, segment: str, crc: int) -> bool:
        """Whether there is a snapshot of the segment."""
        return (self._folder(segment, crc) / VALID).exists()

    def write(self, segment: str, crc: int, docs: SegmentDocs, has_deletes: bool) -> None:
        """Store the current valid docs. Raises DiskFullError, OSError."""
        folder = self._folder(segment, crc)
        version = docs.version
        with full_disk_explained(f"cannot store the valid docs of segment '{segment}'", self.root):
            with self._lock:
                self._crcs().setdefault(segment, set()).add(str(crc))
                folder.mkdir(parents=True, exist_ok=True)
            if has_deletes:
                atomic_write(folder / QUERYABLE, docs.snapshot().bitmap().serialize())
            atomic_write(folder / VALID, docs.snapshot(with_deleted=True).bitmap().serialize())
        docs.stored_version = version

    def read_keys(self, segment: str, crc: int, signature: str) -> StoredKeys | None:
        """Return the stored keys of the rows that were valid then; None if there are none or their signature differs."""
        return read_keys(self._folder(segment, crc) / _KEYS, signature)

    def write_keys(self, segment: str, crc: int, signature: str, keys: StoredKeys) -> None:
        """Store the keys of rows of a segment that has a snapshot. Raises DiskFullError, OSError."""
        with full_disk_explained(f"cannot store the keys of segment '{segment}'", self.root):
            write_keys(self._folder(segment, crc) / _KEYS, signature, keys)

    def remove(self, segment: str, kept_crc: int | None = None) -> None:
        """Remove the snapshots of a segment, except that of the copy with `kept_crc`."""
        with self._lock:
            crcs = self._crcs().get(segment, set())
            for crc in crcs - {str(kept_crc)}:
                folder = self._folder(segment, crc)
                shutil.rmtree(folder, ignore_errors=True)
                if not folder.exists():
                    crcs.discard(crc)
            if not crcs:
                self._crcs().pop(segment, None)

    def read_watermark(self, partition: int) -> float | None:
        """Return the watermark of a partition; None if there is none."""
        path = self.root / f"{_WATERMARK}{partition}"
        try:
            (value,) = struct.unpack(">d", path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, struct.error) as error:
            _log.warning("the watermark %s cannot be read and is ignored: %s", path, error)
            return None
        return float(value)

    def write_watermark(self, partition: int, value: float) -> None:
        """Store the watermark of a partition. Raises DiskFullError, OSError."""
        with full_disk_explained("cannot store a watermark", self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            atomic_write(self.root / f"{_WATERMARK}{partition}", struct.pack(">d", value))

    def remove_watermark(self, partition: int) -> None:
        """Remove the watermark of a partition."""
        (self.root / f"{_WATERMARK}{partition}").unlink(missing_ok=True)

    def remove_all(self) -> None:
        """Remove everything, with the table."""
        with self._lock:
            shutil.rmtree(self.root, ignore_errors=True)
            self._listed = None

    def _folder(self, segment: str, crc: int | str) -> Path:
        return self.root / f"{segment}__{crc}"

    def _crcs(self) -> dict[str, set[str]]:
        """Return the CRCs of the copies that have a folder, by segment; the lock is held."""
        if self._listed is None:
            found: dict[str, set[str]] = {}
            for folder in self.root.iterdir() if self.root.is_dir() else ():
                segment, _, crc = folder.name.rpartition("__")
                found.setdefault(segment, set()).add(crc)
            self._listed = found
        return self._listed


def _bitmap(path: Path, num_docs: int) -> "BitMap | None":
    try:
        found = BitMap.deserialize(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, MemoryError) as error:
        _log.warning("the snapshot %s cannot be read and is ignored: %s", path, error)
        return None
    if found and found.max() >= num_docs:
        _log.warning(
            "the snapshot %s is of another segment, it names row %d of %d; it is ignored", path, found.max(), num_docs
        )
        return None
    return found
