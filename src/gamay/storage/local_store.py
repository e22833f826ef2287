"""The deep store in a local folder, or one that several machines mount."""

import errno
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from gamay.base.errors import NotFoundError
from gamay.storage.deep_store import DELETED, TEMPORARY, UNTIL, DeepStore, copy_name, path_in_store, url_of
from gamay.storage.files import fetch, fsync_file, fsync_folder


@dataclass(frozen=True, slots=True)
class LocalStore(DeepStore):
    """A deep store in a local folder. Writes are durable when a method returns."""

    root: Path

    def prepare(self) -> None:
        """Create the folder. It is not created later, since a missing one is probably not mounted."""
        self.root.mkdir(parents=True, exist_ok=True)

    def put(self, source: Path, table: str, segment: str, crc: int) -> str:
        """Move a copy in, by a rename if `source` is on the same file system, else by an atomic copy."""
        name = copy_name(source, segment, crc)
        folder = self._made(self.root / table)
        target = folder / name
        _sync_tree(source)
        if target.is_dir():
            shutil.rmtree(target)
        try:
            os.replace(source, target)
        except OSError as error:
            if error.errno != errno.EXDEV or source.is_dir():
                raise
            fetch(str(source), target)
            source.unlink()
        fsync_folder(folder)
        fsync_folder(self.root)
        return url_of(table, name)

    def put_file(self, source: Path, folder: str, name: str) -> str:
        """Copy a file in."""
        target = self._path(url_of(folder, name))
        self._made(target.parent)
        fetch(str(source), target)
        return url_of(folder, name)

    def get(self, url: str, scratch: Path) -> Path:
        """Return the path of a copy. Raises NotFoundError."""
        return self.path_of(url)

    def path_of(self, url: str) -> Path:
        """Return the path of a copy. Raises NotFoundError."""
        path = self._path(url)
        if not path.exists():
            raise NotFoundError(f"the deep store has no '{path_in_store(url)}'")
        return path

    def in_place(self, url: str) -> Path | None:
        """Return the folder of a copy that was not packed."""
        path = self._path(url)
        return path if path.is_dir() else None

    def location(self, url: str) -> str:
        """Return the `file:` URI of a copy."""
        return self._path(url).as_uri()

    def size(self, url: str) -> int:
        """Return the bytes of a copy. Raises NotFoundError."""
        return size_of(self.path_of(url))

    def modified_ms(self, url: str) -> int:
        """Return the modification time of a copy in milliseconds; 0 if it does not exist."""
        try:
            return self._path(url).stat().st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return 0

    def discard(self, url: str, until_ms: int | None) -> None:
        """Remove a copy, or retain it until then."""
        path = self._path(url)
        if not path.exists():
            return
        if until_ms is None:
            _remove(path)
            return
        aside = self._made(self.root / DELETED / path.parent.name)
        target = aside / f"{path.name}{UNTIL}{until_ms}"
        if target.is_dir():
            shutil.rmtree(target)
        os.replace(path, target)

    def purge(self, now_ms: int) -> int:
        """Remove the retained copies whose time has passed; return their number."""
        purged = 0
        for path in (self.root / DELETED).glob(f"*/*{UNTIL}*"):
            if int(path.name.rpartition(UNTIL)[2]) < now_ms:
                _remove(path)
                purged += 1
        return purged

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, ascending."""
        return [name for name in self._listed(folder) if not name.startswith(TEMPORARY)]

    def unfinished(self, folder: str) -> list[str]:
        """Return the URLs of files whose copying was interrupted or is in progress."""
        return [url_of(folder, name) for name in self._listed(folder) if name.startswith(TEMPORARY)]

    def _listed(self, folder: str) -> list[str]:
        path = self.root / folder
        return sorted(found.name for found in path.iterdir()) if path.is_dir() else []

    def _path(self, url: str) -> Path:
        return self.root / path_in_store(url)

    def _made(self, folder: Path) -> Path:
        if not self.root.is_dir():
            raise FileNotFoundError(errno.ENOENT, "the deep store's folder is gone, is it mounted?", str(self.root))
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    if path.is_dir():
        return sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
    return path.stat().st_size


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync_tree(path: Path) -> None:
    if path.is_dir():
        for child in path.iterdir():
            _sync_tree(child)
    fsync_file(path)
