"""Allow-list of the URIs that clients may have this process open, which excludes its own network.

A URI is parsed before it is compared, never compared as text, since `http://allowed@other/` connects to `other`. fsspec
chains file systems with `::` (`simplecache::file:…`), so such URIs are always rejected.
"""

import posixpath
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from gamay.base.errors import InvalidConfigError
from gamay.storage.files import local_path
from gamay.storage.filesystems import scheme_of

ALLOWED_URIS = "gamay.ingest.allowed_uris"

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+")
_IPV6 = re.compile(r"\[[0-9a-fA-F:.]+\]")
_WEB = ("http", "https")
_PORTS = {"http": 80, "https": 443, "kafka": 9092}
_CONTROL = re.compile(r"[\x00-\x20\x7f\\]")


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry of the list: a scheme, optionally a host (or bucket) and a folder; None allows all."""

    scheme: str
    host: tuple[str, str, int | None] | None = None
    folder: str = "/"

    @classmethod
    def parse(cls, text: str) -> "_Entry":
        if _SCHEME.fullmatch(text.lower()):
            return cls(text.lower())
        parts = urlsplit(text)
        if parts.scheme == "file" and text.startswith("file:///"):
            return cls("file", None, str(local_path(text)))
        if not parts.scheme or parts.scheme == "file" or not parts.hostname or parts.query or parts.fragment:
            raise InvalidConfigError(
                f"'{ALLOWED_URIS}': '{text}' must be a scheme such as s3, a folder such as file:///data/segments/, or the "
                "beginning of URIs such as s3://bucket/segments/ or https://example.com/"
            )
        return cls(parts.scheme, _host_of(parts), _folder_of(parts))

    def covers(self, parts: SplitResult) -> bool:
        """Whether the entry allows a URI, of a scheme other than `file`."""
        if parts.scheme != self.scheme or (self.host is not None and self.host != _host_of(parts)):
            return False
        path = _folder_of(parts)
        return self.folder == "/" or path == self.folder or path.startswith(f"{self.folder}/")


class AllowedUris:
    """The allow-list. entries: those of `gamay.ingest.allowed_uris`.

    schemes: of the file systems that the operator has configured. Raises InvalidConfigError for an invalid entry.
    """

    def __init__(self, entries: Iterable[str] = (), schemes: Collection[str] = ()) -> None:
        self._entries = [*map(_Entry.parse, entries), *(_Entry(scheme) for scheme in schemes if scheme != "file")]

    def check(self, uri: str) -> str:
        """Return the URI to open for one given by a client: itself, or the local file that it resolves to.

        Raises InvalidConfigError.
        """
        if "::" in _IPV6.sub("", uri) or _CONTROL.search(uri if scheme_of(uri) else ""):
            raise InvalidConfigError(
                f"Unsupported URI: {uri!r} chains file systems, or has a character that URIs do not have"
            )
        if scheme_of(uri) in (None, "file"):
            return self._local(uri)
        self._covering(uri)
        return uri

    def must_be_public(self, uri: str) -> bool:
        """Return whether the web server of a URI must have a public address, because only its scheme is listed.

        Raises InvalidConfigError if the URI is not allowed, as may be the target of a redirect.
        """
        return all(entry.host is None for entry in self._covering(uri))

    def covers(self, uri: str) -> bool:
        """Return whether an entry allows the address of a stream, `kafka://host:port`, or its whole scheme."""
        parts = urlsplit(uri)
        return any(entry.covers(parts) for entry in self._entries)

    def names(self, scheme: str) -> bool:
        """Return whether there is any entry for a scheme."""
        return any(entry.scheme == scheme for entry in self._entries)

    def _covering(self, uri: str) -> list[_Entry]:
        try:
            parts = urlsplit(uri)
            found = [entry for entry in self._entries if entry.covers(parts)]
        except ValueError as error:
            raise InvalidConfigError(f"Unsupported URI: {uri!r} cannot be read: {error}") from None
        if not found:
            raise InvalidConfigError(
                f"Unsupported URI: {uri} begins with nothing that {ALLOWED_URIS} names; send the file itself, or have the "
                "operator allow where it is"
            )
        return found

    def _local(self, uri: str) -> str:
        path = local_path(uri)
        assert path is not None
        try:
            real = path.resolve()  # resolve links and `..` before the check
        except (ValueError, OSError) as error:
            raise InvalidConfigError(f"Unsupported URI: {uri!r} can be no file: {error}") from None
        for entry in self._entries:
            if entry.scheme == "file" and path.is_absolute() and real.is_relative_to(Path(entry.folder).resolve()):
                return str(real)
        raise InvalidConfigError(
            f"Unsupported URI: {uri} is a local file of the controller, in no folder that {ALLOWED_URIS} names; send the "
            "file itself, or have the operator allow its folder"
        )


def _host_of(parts: SplitResult) -> tuple[str, str, int | None]:
    """Return container, host and port: `abfs://container@account/…` has a container; for web servers it is the user name."""
    container = "" if parts.scheme in _WEB else parts.username or ""
    return container, (parts.hostname or "").rstrip("."), parts.port or _PORTS.get(parts.scheme)


def _folder_of(parts: SplitResult) -> str:
    """Return a path without `..`, percent-encoded or not, and without a trailing slash."""
    return posixpath.normpath(f"/{unquote(parts.path).lstrip('/')}")
