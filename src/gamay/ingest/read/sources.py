"""Input sources: local paths and URIs, one file or a folder, plain or gzipped."""

import gzip
import io
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import fsspec
import pyarrow as pa

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.storage.files import local_path

GZIP_MAGIC = b"\x1f\x8b"
READ_BYTES = 1 << 20


def open_raw(uri: str) -> BinaryIO:
    """Open a file without decompression; raises NotFoundError if it does not exist."""
    path = local_path(uri)
    try:
        if path is not None:
            return path.open("rb", buffering=READ_BYTES)
        return cast(BinaryIO, fsspec.open(uri, "rb").open())
    except FileNotFoundError as error:
        raise NotFoundError(f"the input file {uri} does not exist") from error
    except IsADirectoryError as error:
        raise InvalidConfigError(f"the input {uri} is a folder, not a file") from error


def open_bytes(uri: str) -> BinaryIO:
    """Open a file for reading from its start; a gzipped file, recognised by its first two bytes, is decompressed."""
    raw = open_raw(uri)
    magic = raw.read(2)
    raw.seek(0)
    if magic != GZIP_MAGIC:
        return raw
    if (path := local_path(uri)) is not None:
        raw.close()
        return io.BufferedReader(_Gunzip(path), READ_BYTES)
    return cast(BinaryIO, gzip.open(raw, "rb"))


class _Gunzip(io.RawIOBase):
    """A local gzip file through Arrow's decompressor, about twice as fast as Python's; seeks back by starting over."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._position = 0
        self._stream = self._open()

    def _open(self) -> "pa.NativeFile":
        return pa.input_stream(self._path, compression="gzip", buffer_size=READ_BYTES)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = int(self._stream.readinto(buffer))
        self._position += count
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_END:
            raise io.UnsupportedOperation("the end of a gzip file is not known before it is read")
        target = offset + (self._position if whence == os.SEEK_CUR else 0)
        if target < self._position:
            self._stream.close()
            self._stream = self._open()
            self._position = 0
        while self._position < target and (skipped := self._stream.read(min(READ_BYTES, target - self._position))):
            self._position += len(skipped)
        return self._position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def list_files(
    input_uri: str,
    *,
    recursive: bool = True,
    include: str | None = None,
    exclude: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> list[str]:
    """Return the files under a folder (or the one file named), sorted; hidden files and empty markers are omitted.

    include, exclude: `glob:**/*.csv` or `regex:.*\\.csv` over the whole path. Local results are absolute paths, others URIs.
    options: arguments of the file system.
    Raises NotFoundError if the input does not exist.
    """
    path = local_path(input_uri)
    found = _list_local(path, recursive) if path is not None else _list_remote(input_uri, recursive, options or {})
    keeps = path_matcher(include) if include else None
    drops = path_matcher(exclude) if exclude else None
    return sorted(f for f in found if (keeps is None or keeps(f)) and not (drops is not None and drops(f)))


def absolute_uri(uri: str) -> str:
    """Return a path or URI in the form of `list_files`."""
    path = local_path(uri)
    if path is not None:
        return os.path.abspath(path)
    fs, root = fsspec.core.url_to_fs(uri)
    return str(fs.unstrip_protocol(root))


def _list_local(path: Path, recursive: bool) -> list[str]:
    path = Path(os.path.abspath(path))
    if path.is_file():
        return [str(path)]
    if not path.is_dir():
        raise NotFoundError(f"the input {path} does not exist")
    files = path.rglob("*") if recursive else path.glob("*")
    return [str(f) for f in files if f.is_file() and not _is_hidden(f.relative_to(path).parts)]


def _list_remote(uri: str, recursive: bool, options: Mapping[str, Any]) -> list[str]:
    fs, root = fsspec.core.url_to_fs(uri, **options)
    fs.invalidate_cache()  # file systems are shared, and cache their listings
    if fs.isfile(root):
        return [str(fs.unstrip_protocol(root))]
    if not fs.isdir(root):
        raise NotFoundError(f"the input {uri} does not exist")
    names = fs.find(root) if recursive else [e["name"] for e in fs.ls(root, detail=True) if e["type"] == "file"]
    depth = len(root.rstrip("/")) + 1
    return [str(fs.unstrip_protocol(n)) for n in names if not _is_hidden(tuple(n[depth:].split("/")))]


def _is_hidden(parts: tuple[str, ...]) -> bool:
    return any(part.startswith((".", "_")) for part in parts)


def path_matcher(pattern: str) -> Callable[[str], bool]:
    """Return the predicate of `glob:…` or `regex:…` over whole paths; raises InvalidConfigError for other texts.

    >>> matches = path_matcher("glob:**/*.csv")
    >>> matches("/data/2024/a.csv"), matches("a.csv"), matches("/data/a.json")
    (True, True, False)
    """
    kind, colon, body = pattern.partition(":")
    if not colon or kind not in ("glob", "regex"):
        raise InvalidConfigError(f"the file name pattern {pattern!r} must start with 'glob:' or 'regex:'")
    try:
        compiled = re.compile(glob_regex(body) if kind == "glob" else body)
    except re.error as error:
        raise InvalidConfigError(f"the file name pattern {pattern!r} is not valid: {error}") from error
    return lambda path: compiled.fullmatch(path) is not None


_GLOB_PARTS = re.compile(r"\*\*/|\*\*|\*|\?|\[[^]]*\]|\{[^}]*\}|.", re.DOTALL)


def glob_regex(glob: str) -> str:
    """Return Java's glob as a regular expression: `*` stays within a folder, `**` crosses folders, `{a,b}` is a choice."""
    out = []
    for part in _GLOB_PARTS.findall(glob):
        match part:
            case "**/":
                out.append("(?:.*/)?")
            case "**":
                out.append(".*")
            case "*":
                out.append("[^/]*")
            case "?":
                out.append("[^/]")
            case _ if part.startswith("{") and len(part) > 1:
                out.append("(?:" + "|".join(glob_regex(p) for p in part[1:-1].split(",")) + ")")
            case _ if part.startswith("[") and len(part) > 1:
                out.append("[^" + part[2:] if part[1] == "!" else part)
            case _:
                out.append(re.escape(part))
    return "".join(out)
