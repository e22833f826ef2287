"""The deep store on a file system supported by fsspec: `s3://`, `hdfs://`, `gs://`, `abfs://`, …"""

import shutil
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.base.ids import RANDOM_IDS, Ids
from gamay.storage.archive import ZSTD_LEVEL_QUICK, pack
from gamay.storage.deep_store import DELETED, TEMPORARY, UNTIL, DeepStore, copy_name, path_in_store, url_of
from gamay.storage.files import local_path
from gamay.storage.filesystems import explained, open_filesystem, scheme_of
from gamay.storage.local_store import LocalStore
from gamay.storage.retries import Retries

T = TypeVar("T")

# Schemes where uploads are atomic. Elsewhere a file is sent under a temporary name and renamed.
_WHOLE_OBJECTS = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})
_MODIFIED_KEYS = ("LastModified", "mtime", "last_modified", "updated", "modified", "created")


def open_deep_store(
    uri: str, options: Mapping[str, Any] | None = None, retries: Retries | None = None, ids: Ids = RANDOM_IDS
) -> DeepStore:
    """Return the deep store at a URI or a path. options: arguments of its fsspec file system, such as credentials.

    Raises InvalidConfigError for a scheme that is unknown or read-only, or whose package is missing.
    """
    local = local_path(uri)
    if local is not None:
        return LocalStore(local.expanduser().absolute())
    if scheme_of(uri) in ("http", "https"):
        raise InvalidConfigError(f"the deep store cannot be at {uri}: a web server is read-only")
    return RemoteStore(uri, options or {}, retries or Retries(), ids)


class RemoteStore(DeepStore):
    """A deep store that is accessed over a network. Every call is retried according to `retries`.

    An upload succeeds only if the store then reports the same size.
    """

    def __init__(self, uri: str, options: Mapping[str, Any], retries: Retries, ids: Ids = RANDOM_IDS) -> None:
        self.uri = uri.rstrip("/")
        self._fs, root = open_filesystem(self.uri, options)
        self._root = root.rstrip("/")
        self._whole = scheme_of(uri) in _WHOLE_OBJECTS
        self._retries = retries
        self._ids = ids

    def put(self, source: Path, table: str, segment: str, crc: int) -> str:
        """Upload an archive; a folder is first packed next to it."""
        archive = source
        if source.is_dir():
            archive = pack(source, source.with_name(f"{source.name}.tar.zst"), ZSTD_LEVEL_QUICK)
        name = copy_name(archive, segment, crc)
        self._send(archive, f"{table}/{name}")
        archive.unlink()
        if archive != source:
            shutil.rmtree(source)
        return url_of(table, name)

    def put_file(self, source: Path, folder: str, name: str) -> str:
        """Upload a file."""
        url = url_of(folder, name)
        self._send(source, path_in_store(url))
        return url

    def get(self, url: str, scratch: Path) -> Path:
        """Download a copy into `scratch`. Raises NotFoundError."""
        path = self._path(url)
        target = scratch / path.rpartition("/")[2]

        def download() -> Path:
            size = self._info(path)["size"]
            self._fs.get_file(path, str(target))
            if target.stat().st_size != size:
                raise OSError(f"{self._shown(path)} has {size} bytes, of which {target.stat().st_size} were received")
            return target

        try:
            return self._do(f"fetching {self._shown(path)}", download)
        except FileNotFoundError:
            raise NotFoundError(f"the deep store has no '{self._shown(path)}'") from None

    def in_place(self, url: str) -> Path | None:
        """Return None: no copy is local."""
        return None

    def location(self, url: str) -> str:
        """Return the URI of a copy."""
        return f"{self.uri}/{path_in_store(url)}"

    def size(self, url: str) -> int:
        """Return the bytes of a copy. Raises NotFoundError."""
        path = self._path(url)
        try:
            return int(self._do(f"looking for {self._shown(path)}", lambda: self._info(path)["size"]))
        except FileNotFoundError:
            raise NotFoundError(f"the deep store has no '{self._shown(path)}'") from None

    def modified_ms(self, url: str) -> int:
        """Return the modification time of a copy in milliseconds; 0 if it does not exist."""
        path = self._path(url)
        try:
            return _modified_ms(self._do(f"looking for {self._shown(path)}", lambda: self._info(path)))
        except FileNotFoundError:
            return 0

    def discard(self, url: str, until_ms: int | None) -> None:
        """Remove a copy, or retain it until then."""
        path = self._path(url)
        table, _, name = path_in_store(url).rpartition("/")

        def discard() -> None:
            if not self._exists(path):
                return
            if until_ms is None:
                self._fs.rm(path)
                return
            aside = f"{self._root}/{DELETED}/{table.rpartition('/')[2]}"
            self._make_folder(aside)
            self._fs.mv(path, f"{aside}/{name}{UNTIL}{until_ms}")

        self._do(f"removing {self._shown(path)}", discard)

    def purge(self, now_ms: int) -> int:
        """Remove the retained copies whose time has passed; return their number."""
        due = [path for path in self._find_deleted() if int(path.rpartition(UNTIL)[2]) < now_ms]
        for path in due:
            self._do(f"removing {self._shown(path)}", partial(self._remove, path))
        return len(due)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, ascending."""
        return [name for name in self._listed(folder) if not name.startswith(TEMPORARY)]

    def unfinished(self, folder: str) -> list[str]:
        """Return the URLs of files whose upload was interrupted or is in progress; object stores have none."""
        return [url_of(folder, name) for name in self._listed(folder) if name.startswith(TEMPORARY)]

    # parts

    def _send(self, source: Path, relative: str) -> None:
        path = f"{self._root}/{relative}"
        folder, _, name = path.rpartition("/")

        def send() -> None:
            self._make_folder(folder)
            sent_as = path if self._whole else f"{folder}/{TEMPORARY}{name}.{self._ids.new()}"
            self._fs.put_file(str(source), sent_as)
            size, sent = source.stat().st_size, self._info(sent_as)["size"]
            if sent != size:
                raise OSError(f"{self._shown(sent_as)} has {sent} bytes, of the {size} that were sent")
            if not self._whole:
                if self._exists(path):
                    self._fs.rm(path)
                self._fs.mv(sent_as, path)

        try:
            self._do(f"storing {self._shown(path)}", send)
        except FileNotFoundError as error:
            raise OSError(f"cannot store {self._shown(path)}: the bucket or folder is missing ({error})") from error

    def _listed(self, folder: str) -> list[str]:
        path = f"{self._root}/{folder}"

        def listed() -> list[str]:
            self._fs.invalidate_cache()
            found = (entry["name"].rstrip("/").rpartition("/")[2] for entry in self._fs.ls(path, detail=True))
            return sorted(name for name in found if name)

        try:
            return self._do(f"listing {self._shown(path)}", listed)
        except FileNotFoundError:
            return []

    def _find_deleted(self) -> list[str]:
        folder = f"{self._root}/{DELETED}"

        def find() -> list[str]:
            self._fs.invalidate_cache()
            return [path for path in self._fs.find(folder) if UNTIL in path]

        try:
            return self._do(f"listing {self._shown(folder)}", find)
        except FileNotFoundError:
            return []

    def _remove(self, path: str) -> None:
        if self._exists(path):
            self._fs.rm(path)

    def _make_folder(self, path: str) -> None:
        if not self._whole:
            self._fs.makedirs(path, exist_ok=True)

    def _exists(self, path: str) -> bool:
        try:
            self._info(path)
        except FileNotFoundError:
            return False
        return True

    def _info(self, path: str) -> dict[str, Any]:
        self._fs.invalidate_cache()
        found: dict[str, Any] = self._fs.info(path)
        return found

    def _do(self, what: str, action: Callable[[], T]) -> T:
        def attempt() -> T:
            with explained(f"{self.uri} does not answer"):
                return action()

        return self._retries.call(what, attempt)

    def _path(self, url: str) -> str:
        return f"{self._root}/{path_in_store(url)}"

    def _shown(self, path: str) -> str:
        return f"{self.uri}{path.removeprefix(self._root)}"


def _modified_ms(info: Mapping[str, Any]) -> int:
    """Return the modification time, which file systems report under different keys, as a datetime or in seconds."""
    found = next((info[key] for key in _MODIFIED_KEYS if info.get(key) is not None), None)
    if isinstance(found, str):
        found = datetime.fromisoformat(found)
    if isinstance(found, datetime):
        found = found.timestamp()
    if found is None:
        raise OSError(f"the deep store does not report when '{info.get('name')}' was changed")
    return round(float(found) * 1000)
