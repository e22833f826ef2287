"""The deep store: the durable copy of every segment, a folder tree on any file system.

`<root>/<typed table>/<segment>__<crc>.tar.gz` (or `.tar.zst`; on a local file system also a folder without suffix, which
servers on this machine open in place). The CRC in the name distinguishes the old and the new copy of a refreshed segment
until
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
"""Prefix of the names of incomplete files."""

_COPY = re.compile(r".+__-?\d+(\.tar\.zst|\.tar\.gz|\.tgz)?")


class DeepStore(ABC):
    """A deep store. Thread-safe.

    Methods raise OSError if the store does not answer, after retries where these can help, and InvalidConfigError
    for a URL outside the store.
    """

    def prepare(self) -> None:
        """Create the prerequisites of `put`; controllers call this at startup. Raises OSError."""
        return

    @abstractmethod
    def put(self, source: Path, table: str, segment: str, crc: int) -> str:
        """Move a segment's archive or folder into the store, durably, and return its URL; a folder may be packed."""

    @abstractmethod
    def put_file(self, source: Path, folder: str, name: str) -> str:
        """Copy another file into the store, durably and atomically, and return its URL.

        folder: `<kind of file>/<typed table>`; not just a table's name, since that folder has segments.
        """

    @abstractmethod
    def get(self, url: str, scratch: Path) -> Path:
        """Return a copy as a local file or folder: in place if the store is local, else downloaded into `scratch`.

        Raises NotFoundError.
        """

    @abstractmethod
    def in_place(self, url: str) -> Path | None:
        """Return the path of a copy that is a local folder, which can be opened in place; else None."""

    @abstractmethod
    def location(self, url: str) -> str:
        """Return the URI of a copy in the store's file system."""

    @abstractmethod
    def size(self, url: str) -> int:
        """Return the bytes of a copy. Raises NotFoundError."""

    @abstractmethod
    def modified_ms(self, url: str) -> int:
        """Return the modification time of a copy in milliseconds; 0 if it does not exist."""

    @abstractmethod
    def discard(self, url: str, until_ms: int | None) -> None:
        """Remove a copy; with `until_ms`, retain it until then, for `purge` to remove."""

    @abstractmethod
    def purge(self, now_ms: int) -> int:
        """Remove the retained copies whose time has passed; return their number."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, ascending; none if there is no such folder."""

    @abstractmethod
    def unfinished(self, folder: str) -> list[str]:
        """Return the URLs of incomplete files in a folder; their upload may still be in progress."""

    def urls(self, table: str) -> Iterator[str]:
        """Yield the URLs of all copies of a table's segments; files with other names are ignored."""
        return (f"{SCHEME}{table}/{name}" for name in self.names(table) if _COPY.fullmatch(name))

    @staticmethod
    def owns(url: str) -> bool:
        """Whether a URL names a copy in the deep store."""
        return url.startswith(SCHEME)


def copy_name(source: Path, segment: str, crc: int) -> str:
    """Return the name of the copy of a segment's archive or folder."""
    return f"{segment}__{crc}{'' if source.is_dir() else _archive_suffix(source.name)}"


def url_of(folder: str, name: str) -> str:
    """Return the URL of a name in a folder of the store."""
    return f"{SCHEME}{folder}/{name}"


def path_in_store(url: str) -> str:
    """Return the path of a copy below the root. Raises InvalidConfigError if it is outside the root."""
    path = url.removeprefix(SCHEME)
    parts = path.split("/")
    if not url.startswith(SCHEME) or len(parts) < 2 or any(part in ("", ".", "..") for part in parts) or "\0" in path:
        raise InvalidConfigError(f"'{url}' names nothing in the deep store")
    return path


def _archive_suffix(name: str) -> str:
    return next((suffix for suffix in (".tar.zst", ".tar.gz", ".tgz") if name.endswith(suffix)), ".tar.gz")
