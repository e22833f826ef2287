"""The deep store: the durable copy of every segment, a folder tree on any file system.

`<root>/<typed table>/<segment>__<crc>.tar.gz` (or `.tar.zst`; on a local file system also a folder without suffix, which
servers on this machine open in place). The CRC in the name keeps the old and the new copy of a refreshed segment apart until
the record is switched. Records refer to a copy by a URL `deepstore:<typed table>/<file>`, so that the store can be moved.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

from gamay.base.errors import InvalidConfigError

SCHEME = "deepstore:"
DELETED = "Deleted_Segments"
UPSERT_SNAPSHOTS = "Upsert_Snapshots"
UNTIL = "__RETENTION_UNTIL__"
TEMPORARY = "."
"""What the names of files begin with that are not whole yet."""

_COPY = re.compile(r".+__-?\d+(\.tar\.zst|\.tar\.gz|\.tgz)?")


class DeepStore(ABC):
    """One deep store. All methods may be called from any thread.

    Raises OSError when the store does not answer, after having tried again where that can help, and InvalidConfigError
    for a URL that leads out of the store.
    """

    def prepare(self) -> None:
        """Make what must be there before anything is put; controllers do when they begin. Raises OSError."""
        return

    @abstractmethod
    def put(self, source: Path, table: str, segment: str, crc: int) -> str:
        """Move a segment's archive or folder in, durably, and return its URL; a folder may be packed on the way."""

    @abstractmethod
    def put_file(self, source: Path, folder: str, name: str) -> str:
        """Copy another file in, durably and whole or not at all, and return its URL.

        folder: `<what it is>/<typed table>`; not the name of a table alone, for that is where segments are.
        """

    @abstractmethod
    def get(self, url: str, scratch: Path) -> Path:
        """Return a copy as a local file or folder: where it lies when that is local, else downloaded into `scratch`.

        Raises NotFoundError.
        """

    @abstractmethod
    def in_place(self, url: str) -> Path | None:
        """Return where a copy lies when it is a folder of this machine, which can be opened as it is; else None."""

    @abstractmethod
    def location(self, url: str) -> str:
        """Return the URI at which whoever reaches the store's file system finds a copy."""

    @abstractmethod
    def size(self, url: str) -> int:
        """Return the bytes of a copy. Raises NotFoundError."""

    @abstractmethod
    def modified_ms(self, url: str) -> int:
        """Return when a copy was last written, in milliseconds; 0 when it is gone."""

    @abstractmethod
    def discard(self, url: str, until_ms: int | None) -> None:
        """Remove a copy; with `until_ms`, set it aside until then, to be removed by `purge`."""

    @abstractmethod
    def purge(self, now_ms: int) -> int:
        """Remove what was set aside until before now; return how many copies."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """Return the names of what lies in a folder, ascending; none when there is no such folder."""

    @abstractmethod
    def unfinished(self, folder: str) -> list[str]:
        """Return the URLs of what was begun to be sent to a folder and has not got its name; it may still be being sent."""

    def urls(self, table: str) -> Iterator[str]:
        """Yield the URLs of all copies of a table's segments; what is not named like one is none."""
        return (f"{SCHEME}{table}/{name}" for name in self.names(table) if _COPY.fullmatch(name))

    @staticmethod
    def owns(url: str) -> bool:
        """Whether a URL names a copy in the deep store."""
        return url.startswith(SCHEME)


def copy_name(source: Path, segment: str, crc: int) -> str:
    """Return how the copy of a segment's archive or folder is named."""
    return f"{segment}__{crc}{'' if source.is_dir() else _archive_suffix(source.name)}"


def url_of(folder: str, name: str) -> str:
    """Return the URL of what has a name in a folder of the store."""
    return f"{SCHEME}{folder}/{name}"


def path_in_store(url: str) -> str:
    """Return the path of a copy below the root. Raises InvalidConfigError unless it stays there."""
    path = url.removeprefix(SCHEME)
    parts = path.split("/")
    if not url.startswith(SCHEME) or len(parts) < 2 or any(part in ("", ".", "..") for part in parts) or "\0" in path:
        raise InvalidConfigError(f"'{url}' names nothing in the deep store")
    return path


def _archive_suffix(name: str) -> str:
    return next((suffix for suffix in (".tar.zst", ".tar.gz", ".tgz") if name.endswith(suffix)), ".tar.gz")
