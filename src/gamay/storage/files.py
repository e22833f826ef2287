"""Atomic writing of files, and copies from and to any file system."""

import os
import shutil
import ssl
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import DiskFullError, InvalidConfigError, NotFoundError
from gamay.storage.addresses import check_public, check_public_address
from gamay.storage.filesystems import NO_ROOM, explained, open_filesystem, scheme_of

_COPY_BYTES = 1 << 20
_SHARED_MODE = 0o644
_HTTP = ("http", "https")
_AS_IT_IS = {"Accept-Encoding": "identity"}
_HTTP_TIMEOUT_S = 60  # without receiving a byte
_REDIRECTS_MAX = 6


@contextmanager
def full_disk_explained(what: str, folder: Path) -> Iterator[None]:
    """Convert the OSError of a full disk or exhausted quota to a DiskFullError that names the operation `what`."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise DiskFullError(f"{what}: there is no space on the disk of {folder}; nothing was changed, free some") from error


def fsync_file(path: Path) -> None:
    """Make a file's content durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_folder(path: Path) -> None:
    """Make the entries of a folder durable."""
    fsync_file(path)


def atomic_write(path: Path, data: bytes) -> None:
    """Replace a file's content atomically: after a crash it is either the old or the new one."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    fsync_folder(path.parent)


def fsync_tree(root: Path) -> None:
    """Make a folder and all that is in it durable."""
    for folder, _, names in os.walk(root):
        for name in names:
            fsync_file(Path(folder) / name)
        fsync_folder(Path(folder))


def publish_folder(temporary: Path, final: Path, *, durable: bool = True) -> None:
    """Rename a finished folder to its final name, after syncing its files if `durable`.

    Raises OSError if `final` exists and is not an empty folder.
    """
    if durable:
        fsync_tree(temporary)
    os.rename(temporary, final)
    if durable:
        fsync_folder(final.parent)


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits on the size of a file and the time to fetch it; None is unlimited. keys: the settings that define them."""

    max_bytes: int | None = None
    max_s: float | None = None
    keys: tuple[str, str] = ("", "")

    def bounded(self, parts: Iterable[bytes], uri: str) -> Iterator[bytes]:
        """Yield the parts of a file. Raises InvalidConfigError once they exceed the size or time limit."""
        begun_s, num_bytes = SYSTEM_CLOCK.monotonic_s(), 0
        for part in parts:
            num_bytes += len(part)
            if self.max_bytes is not None and num_bytes > self.max_bytes:
                raise InvalidConfigError(f"{uri} has more than the {self.max_bytes} bytes that {self.keys[0]} allows")
            if self.max_s is not None and SYSTEM_CLOCK.monotonic_s() - begun_s > self.max_s:
                raise InvalidConfigError(f"fetching {uri} takes more than the {self.max_s:g} s that {self.keys[1]} allows")
            yield part


@dataclass(frozen=True, slots=True)
class Access:
    """Access parameters: headers and TLS of requests over HTTP, arguments of an fsspec file system.

    must_be_public: called with each URL before a request, including redirects; returns whether its host must
    have a public address, and raises InvalidConfigError for a forbidden URL.
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: ssl.SSLContext | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    must_be_public: Callable[[str], bool] = field(default=lambda _: False, repr=False)
    limits: FetchLimits = FetchLimits()


_PLAIN = Access()


def fetch(uri: str, destination: Path, access: Access = _PLAIN) -> None:
    """Copy a file from a URI (`file`, `http`, `https`, `s3`, … or a plain path) to a local path, atomically.

    Raises NotFoundError if it does not exist, InvalidConfigError for an unsupported scheme, and OSError for a failure that
    may be transient.
    """
    descriptor, temporary = tempfile.mkstemp(prefix=f".{destination.name}.", dir=destination.parent)
    try:
        with os.fdopen(descriptor, "wb") as target:
            if scheme_of(uri) in _HTTP:
                parts: Iterator[bytes] = _downloaded(uri, access)
            else:
                parts = _read(uri, access.options)
            target.writelines(access.limits.bounded(parts, uri))
            target.flush()
            os.fsync(target.fileno())
        os.replace(temporary, destination)
    except FileNotFoundError:
        os.unlink(temporary)
        raise NotFoundError(f"there is no file at {uri}") from None
    except BaseException:
        os.unlink(temporary)
        raise
    fsync_folder(destination.parent)


def put(source: Path, uri: str, access: Access = _PLAIN) -> None:
    """Copy a local file to a URI (`file`, `s3`, … or a plain path); missing folders are created.

    A local destination appears atomically, as do objects in object stores, and is readable by other users, as the folder
    may be shared. Raises InvalidConfigError for an unsupported scheme, and OSError for a failure that may be transient.
    """
    local = local_path(uri)
    if local is not None:
        local.parent.mkdir(parents=True, exist_ok=True)
        fetch(str(source), local)
        local.chmod(_SHARED_MODE)
        return
    if scheme_of(uri) in _HTTP:
        raise InvalidConfigError(f"cannot write to {uri}: a web server is read-only; use file, s3 or another file system")
    with source.open("rb") as data, explained(f"cannot write {uri}"), _open(uri, "wb", access.options) as target:
        shutil.copyfileobj(data, target, _COPY_BYTES)


def size_of(uri: str, access: Access = _PLAIN) -> int | None:
    """Return the bytes of a file (`file`, `s3`, … or a plain path), None if it does not exist.

    Raises InvalidConfigError for an unsupported scheme, and OSError for a failure that may be transient.
    """
    local = local_path(uri)
    if local is not None:
        return local.stat().st_size if local.exists() else None
    fs, path = open_filesystem(uri, access.options)
    with explained(f"cannot look for {uri}"):
        fs.invalidate_cache()
        return int(fs.size(path)) if fs.exists(path) else None


def remove(uri: str, access: Access = _PLAIN) -> None:
    """Remove a file, or a folder with its content, if it exists (`file`, `s3`, … or a plain path).

    Raises InvalidConfigError for an unsupported scheme, and OSError for a failure that may be transient.
    """
    local = local_path(uri)
    if local is not None:
        if local.is_dir():
            shutil.rmtree(local)
        else:
            local.unlink(missing_ok=True)
        return
    fs, path = open_filesystem(uri, access.options)
    with explained(f"cannot remove {uri}"):
        fs.invalidate_cache()
        if fs.exists(path):
            fs.rm(path, recursive=True)


def local_path(uri: str) -> Path | None:
    """Return the path that a `file:` URI (percent-encoded) or a plain path names; None for another scheme.

    >>> local_path("file:///data/a%20b"), local_path("/data/a%20b"), local_path("s3://bucket/key")
    (PosixPath('/data/a b'), PosixPath('/data/a%20b'), None)
    """
    scheme = scheme_of(uri)
    if scheme == "file":
        return Path(unquote(uri[len("file:") :].removeprefix("//").removeprefix("localhost")))
    return Path(uri) if scheme is None else None


def _downloaded(uri: str, access: Access) -> Iterator[bytes]:
    """Yield the response of a web server; httpx raises if it is truncated."""
    import httpx

    headers, url = {**_AS_IT_IS, **access.headers}, httpx.URL("")
    try:
        with httpx.Client(verify=access.tls or True, timeout=_HTTP_TIMEOUT_S) as client:
            for _ in range(_REDIRECTS_MAX):
                before, url = url, url.join(uri) if url.host else httpx.URL(uri)
                if before.host and (before.scheme, before.host, before.port) != (url.scheme, url.host, url.port):
                    headers = _AS_IT_IS  # credentials are only for the original host
                must_be_public = access.must_be_public(str(url))
                if must_be_public:
                    check_public(url.host)
                with client.stream("GET", url, headers=headers) as answer:
                    if must_be_public:  # the name may resolve to another address by now
                        address = answer.extensions["network_stream"].get_extra_info("server_addr")
                        check_public_address(str(address[0]), url.host)
                    if answer.has_redirect_location:
                        uri = answer.headers["Location"]
                        continue
                    _check_status(uri, answer.status_code)
                    yield from answer.iter_raw(_COPY_BYTES)
                    return
        raise OSError(f"{uri}: more than {_REDIRECTS_MAX} redirects")
    except httpx.HTTPError as reason:
        raise OSError(f"cannot fetch {uri}: {reason}") from reason
    except httpx.InvalidURL as reason:
        raise InvalidConfigError(f"cannot use {uri}: {reason}") from None


def _check_status(uri: str, status: int) -> None:
    if status in (404, 410):
        raise FileNotFoundError
    if status in (401, 403):
        raise PermissionError(f"{uri} was refused with HTTP status {status}: check the authorization")
    if status != 200:
        raise OSError(f"{uri} was answered with HTTP status {status}")


def _read(uri: str, options: Mapping[str, Any]) -> Iterator[bytes]:
    with _open(uri, "rb", options) as source, explained(f"cannot fetch {uri}"):
        while part := source.read(_COPY_BYTES):
            yield part


def _open(uri: str, mode: str, options: Mapping[str, Any] | None) -> Any:
    local = local_path(uri)
    if local is not None:
        return local.open(mode)
    fs, path = open_filesystem(uri, options)
    with explained(f"cannot open {uri}"):
        return fs.open(path, mode)
