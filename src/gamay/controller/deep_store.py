"""The deep store: the durable copy of every segment, a folder tree on a file system.

`<root>/<typed table>/<segment>__<crc>.tar.gz` (or `.tar.zst`, or a folder without suffix that servers on this machine open
in place). The CRC in the name keeps the old and the new copy of a refreshed segment apart until the record is switched.
Records refer to a copy by a URL `deepstore:<typed table>/<file>`, so that the folder can be moved.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gamay.base.errors import NotFoundError

SCHEME = "deepstore:"
_DELETED = "Deleted_Segments"
_UNTIL = "__RETENTION_UNTIL__"


@dataclass(frozen=True, slots=True)
class DeepStore:
    """A deep store under a local folder."""

    root: Path

    def put(self, source: Path, table: str, segment: str, crc: int) -> str:
        """Move a file or folder in, durably, and return its URL. `source` must lie on the same file system."""
        suffix = "" if source.is_dir() else _archive_suffix(source.name)
        folder = self.root / table
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"{segment}__{crc}{suffix}"
        _sync_tree(source)
        if target.is_dir():
            shutil.rmtree(target)
        os.replace(source, target)
        _sync(folder)
        _sync(self.root)
        return f"{SCHEME}{table}/{target.name}"

    def path_of(self, url: str) -> Path:
        """Return where a copy lies. Raises NotFoundError when it is gone, ValueError for a URL of another store."""
        if not self.owns(url):
            raise ValueError(f"'{url}' is not in the deep store")
        path = self.root / url.removeprefix(SCHEME)
        if not path.exists():
            raise NotFoundError(f"the deep store has no '{url.removeprefix(SCHEME)}'")
        return path

    @staticmethod
    def owns(url: str) -> bool:
        """Whether a URL names a copy in this store."""
        return url.startswith(SCHEME)

    def discard(self, url: str, until_ms: int | None) -> None:
        """Remove a copy; with `until_ms`, set it aside until then, to be removed by `purge`."""
        path = self.root / url.removeprefix(SCHEME)
        if not path.exists():
            return
        if until_ms is None:
            _remove(path)
            return
        aside = self.root / _DELETED / path.parent.name
        aside.mkdir(parents=True, exist_ok=True)
        target = aside / f"{path.name}{_UNTIL}{until_ms}"
        if target.is_dir():
            shutil.rmtree(target)
        os.replace(path, target)

    def purge(self, now_ms: int) -> int:
        """Remove what was set aside until before now; return how many copies."""
        purged = 0
        for path in (self.root / _DELETED).glob(f"*/*{_UNTIL}*"):
            if int(path.name.rpartition(_UNTIL)[2]) < now_ms:
                _remove(path)
                purged += 1
        return purged

    def modified_ms(self, url: str) -> int:
        """Return when a copy was last written, in milliseconds; 0 when it is gone."""
        path = self.root / url.removeprefix(SCHEME)
        try:
            return path.stat().st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return 0

    def urls(self, table: str) -> Iterator[str]:
        """Yield the URLs of all copies of a table's segments."""
        folder = self.root / table
        if folder.is_dir():
            for path in sorted(folder.iterdir()):
                yield f"{SCHEME}{table}/{path.name}"


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    if path.is_dir():
        return sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
    return path.stat().st_size


def _archive_suffix(name: str) -> str:
    return next((suffix for suffix in (".tar.zst", ".tar.gz", ".tgz") if name.endswith(suffix)), ".tar.gz")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync_tree(path: Path) -> None:
    if path.is_dir():
        for child in path.iterdir():
            _sync_tree(child)
    _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
