"""Fetching of files by the scheme of their URI, with built-in fetchers and those of users' packages."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.storage.allowed_uris import ALLOWED_URIS, AllowedUris
from gamay.storage.files import Access, FetchLimits, fetch
from gamay.storage.filesystems import explained, scheme_of
from gamay.storage.settings import ENTRY_POINT_GROUP, MAX_BYTES, MAX_SECONDS, StorageSettings, load_object


class SegmentFetcher(Protocol):
    """A fetcher of a user's package for a scheme.

    It is created from the keys below `pinot.<role>.segment.fetcher.<scheme>.`, and found by the key `class` there or by an
    entry point with the scheme's name in the group `gamay.segment_fetchers`. It must be thread-safe.
    """

    def fetch(self, uri: str, destination: Path) -> None:
        """Write the file at a URI to a path. Raises FileNotFoundError if it does not exist, OSError for a transient
        failure."""
        ...


class Fetchers:
    """Fetching of files by the settings of a role. tls: for the verification of web servers; None trusts the system's

    authorities. deep_store: its URI, so that its file system is treated as configured.
    """

    def __init__(
        self, settings: StorageSettings | None = None, tls: ssl.SSLContext | None = None, deep_store: str | None = None
    ) -> None:
        self._settings = settings or StorageSettings()
        self._tls = tls
        own = scheme_of(deep_store or "")
        self._allowed = AllowedUris(self._settings.allowed_uris, self._settings.schemes | ({own} if own else set()))
        self._own: dict[str, SegmentFetcher] = {}
        for scheme in self._settings.fetchers:  # what is wrong is told at the start
            self._own_of(scheme)

    def fetch_member(self, url: str, destination: Path, headers: Mapping[str, str]) -> None:
        """Download from a member of this cluster, without retries, since there are other members. Raises as `fetch`."""
        fetch(url, destination, Access(headers, self._tls))

    def fetch(self, uri: str, destination: Path) -> None:
        """Copy the file at a URI to a local path, atomically, with retries of transient failures.

        Raises NotFoundError, InvalidConfigError, OSError.
        """
        self._fetch(uri, destination, Access())

    def check(self, uri: str) -> None:
        """Raise InvalidConfigError for a client's URI that `gamay.ingest.allowed_uris` does not allow."""
        self._check_protocol(uri)
        self._allowed.check(uri)

    def check_key(self, key: str, uri: str) -> str:
        """Return the URI to open for one in a config: itself, or the local file that it resolves to.

        Servers and minions open it later, without checking addresses, so a web server is allowed only if its host is
        listed. Raises InvalidConfigError for a URI that `gamay.ingest.allowed_uris` does not allow.
        """
        try:
            opened = self._allowed.check(uri)
            if scheme_of(uri) in ("http", "https") and self._allowed.must_be_public(uri):
                raise InvalidConfigError(f"Unsupported URI: {uri}: {ALLOWED_URIS} must name the host, as https://host:port/")
            return opened
        except (InvalidConfigError, ValueError) as error:
            raise InvalidConfigError(f"{key}: {error}") from error

    def check_address(self, key: str, uri: str, *, may_name_any: bool) -> None:
        """Raise InvalidConfigError unless a stream may connect to an address in a config, as `kafka://host:port`.

        Entries of the stream's type in `gamay.ingest.allowed_uris` apply to all users. may_name_any: without such an entry,
        whether every address is allowed, else none.
        """
        scheme = scheme_of(uri) or ""
        if self._allowed.covers(uri) or (may_name_any and not self._allowed.names(scheme)):
            return
        who = "" if may_name_any else ", or have a user set it who may use all tables"
        raise InvalidConfigError(
            f"{key}: Unsupported URI: {uri} is nothing that {ALLOWED_URIS} names: have the operator allow it{who}"
        )

    def options_of(self, uri: str) -> Mapping[str, Any]:
        """Return the arguments of the file system of a URI."""
        return self._settings.options_of(scheme_of(uri))

    def fetch_named(self, uri: str, destination: Path) -> None:
        """Fetch a client's URI if it is allowed, with limits on size and time. Raises as `fetch`."""
        self._check_protocol(uri)
        limits = FetchLimits(self._settings.max_bytes, self._settings.max_s, (MAX_BYTES, MAX_SECONDS))
        access = Access(must_be_public=self._allowed.must_be_public, limits=limits)
        self._fetch(self._allowed.check(uri), destination, access)

    def fetch_recorded(self, uri: str, destination: Path) -> None:
        """Fetch the URI of a record, which was allowed when it was written; redirects may lead to public web servers only.

        Raises as `fetch`.
        """
        self._check_protocol(uri)
        host = urlsplit(uri).netloc
        self._fetch(uri, destination, Access(must_be_public=lambda url: urlsplit(url).netloc != host))

    def _check_protocol(self, uri: str) -> None:
        scheme = (scheme_of(uri) or "file").lower()
        allowed = self._settings.protocols
        if allowed is not None and scheme not in allowed:
            raise InvalidConfigError(
                f"cannot fetch {uri}: of the protocols, only {', '.join(sorted(allowed))} are in segment.fetcher.protocols"
            )

    def _fetch(self, uri: str, destination: Path, access: Access) -> None:
        scheme = (scheme_of(uri) or "file").lower()
        own = self._own_of(scheme)
        if own is not None:
            source = _Own(own, uri)
            self._settings.retries_of(scheme).call(f"fetching {uri}", lambda: source.fetch(destination))
            return
        token = self._settings.tokens.get(scheme)
        headers = {"Authorization": token} if token else {}
        access = replace(access, headers=headers, tls=self._tls, options=self._settings.options_of(scheme))
        self._settings.retries_of(scheme).call(f"fetching {uri}", lambda: fetch(uri, destination, access))

    def _own_of(self, scheme: str) -> SegmentFetcher | None:
        if scheme in self._own:
            return self._own[scheme]
        told = self._settings.fetchers.get(scheme, {})
        key = f"segment.fetcher.{scheme}.class"
        factory: Any = load_object(key, told["class"]) if "class" in told else None
        if factory is None:
            installed = {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}
            factory = installed[scheme].load() if scheme in installed else None
        if factory is None:
            return None
        made: SegmentFetcher = factory({name: value for name, value in told.items() if name != "class"})
        self._own[scheme] = made
        return made


@dataclass(frozen=True, slots=True)
class _Own:
    fetcher: SegmentFetcher
    uri: str

    def fetch(self, destination: Path) -> None:
        partial = destination.with_name(f".{destination.name}.part")
        try:
            with explained(f"cannot fetch {self.uri}"):
                self.fetcher.fetch(self.uri, partial)
            partial.replace(destination)
        except FileNotFoundError:
            raise NotFoundError(f"there is no file at {self.uri}") from None
        finally:
            partial.unlink(missing_ok=True)
