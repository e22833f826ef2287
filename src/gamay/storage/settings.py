"""Settings of a role for file systems and for fetching segments, from Pinot's keys in its properties file.

`pinot.<role>.storage.factory.class.<scheme>` and `pinot.<role>.storage.factory.<scheme>.<key>` describe file systems;
`pinot.<role>.segment.fetcher.protocols`, `….<scheme>.class` and `….<scheme>.<key>` the fetching of files of a scheme.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from gamay.base.errors import InvalidConfigError
from gamay.storage.allowed_uris import ALLOWED_URIS, AllowedUris
from gamay.storage.retries import Retries

MAX_BYTES = "gamay.ingest.bytes.max"
MAX_SECONDS = "gamay.ingest.seconds.max"
ENTRY_POINT_GROUP = "gamay.segment_fetchers"

# By scheme and Pinot's key: the argument of the fsspec file system, with a dot for a nested one.
_ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "s3": {
        "accessKey": "key",
        "secretKey": "secret",
        "sessionToken": "token",
        "region": "client_kwargs.region_name",
        "endpoint": "client_kwargs.endpoint_url",
        "anonymousCredentialsProvider": "anon",
        "serverSideEncryption": "s3_additional_kwargs.ServerSideEncryption",
        "ssekmsKeyId": "s3_additional_kwargs.SSEKMSKeyId",
    },
    "gs": {"projectId": "project", "gcpKey": "token"},
    "abfs": {
        "accountName": "account_name",
        "accessKey": "account_key",
        "tenantId": "tenant_id",
        "clientId": "client_id",
        "clientSecret": "client_secret",
        "sasToken": "sas_token",
    },
    "hdfs": {"hadoop.conf.path": "extra_conf", "user": "user", "kerberos.ticket.cache": "kerb_ticket"},
}
# Aliases of a scheme, whose keys apply as well.
_SAME = {"s3a": "s3", "gcs": "gs", "abfss": "abfs", "adl2": "abfs", "az": "abfs"}
# Pinot's Java classes, whose function is built in.
_JAVA_CLASSES = frozenset(
    {"S3PinotFS", "GcsPinotFS", "HadoopPinotFS", "ADLSGen2PinotFS", "AzurePinotFS", "LocalPinotFS"}
    | {"PinotFSSegmentFetcher", "HttpSegmentFetcher", "HttpsSegmentFetcher", "HdfsSegmentFetcher", "LocalFileSegmentFetcher"}
)
_RETRY_KEYS = ("retry.count", "retry.wait.ms", "retry.delay.scale.factor")


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """Storage settings. options: of fsspec file systems, by scheme. protocols: that may be fetched, None for all;
    fetchers: the
    settings of users' fetchers, by scheme, including `class`. retries: by scheme, "" for all others.
    tokens: the `Authorization` header for external web servers, by scheme. allowed_uris: URIs that users may have the
    controller open, see `gamay.storage.allowed_uris`. max_bytes, max_s: limits on the size of a file and the fetch time.
    """

    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    protocols: frozenset[str] | None = None
    fetchers: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    retries: Mapping[str, Retries] = field(default_factory=dict)
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    allowed_uris: tuple[str, ...] = ()
    max_bytes: int = 64 << 30
    max_s: float = 3600

    @property
    def schemes(self) -> frozenset[str]:
        """The schemes for which the operator has configured a file system or a fetcher."""
        return frozenset({*self.options, *(name for name, same in _SAME.items() if same in self.options), *self.fetchers})

    def options_of(self, scheme: str | None) -> Mapping[str, Any]:
        """Return the arguments of a scheme's file system. S3's own retries are disabled, as retries are configured here."""
        name = scheme or ""
        found = self.options.get(name) or self.options.get(_SAME.get(name, name), {})
        return {"config_kwargs": {"retries": {"max_attempts": 0}}, **found} if name in ("s3", "s3a") else found

    def retries_of(self, scheme: str | None) -> Retries:
        """Return the retries of fetches from a scheme."""
        return self.retries.get(scheme or "") or self.retries.get("") or Retries()


def storage_settings(role: str, properties: Mapping[str, str]) -> tuple[StorageSettings, frozenset[str]]:
    """Return the settings in the properties of a role, and the keys that were used. role: `controller`, `server` or
    `minion`.

    Raises InvalidConfigError, whose message never contains the value of a key, which may be a secret.
    """
    factory, fetcher = storage_prefixes(role)[:2]
    reader = _Reader()
    used = set()
    if role == "controller":
        for key, take in (
            (ALLOWED_URIS, reader.allow),
            (MAX_BYTES, reader.limit_bytes),
            (MAX_SECONDS, reader.limit_seconds),
        ):
            if key in properties:
                take(properties[key])
                used.add(key)
    for key, value in properties.items():
        for prefix, read in ((factory, reader.file_system), (fetcher, reader.fetcher)):
            if key.startswith(prefix) and read(key, key.removeprefix(prefix), value.strip()):
                used.add(key)
    return reader.settings(), frozenset(used)


def storage_prefixes(role: str) -> tuple[str, ...]:
    """Return the prefixes of the keys that `storage_settings` reads: file systems, fetchers, and limits on users' URIs."""
    of_users = (ALLOWED_URIS, MAX_BYTES, MAX_SECONDS) if role == "controller" else ()
    return (f"pinot.{role}.storage.factory.", f"pinot.{role}.segment.fetcher.", *of_users)


class _Reader:
    """Collector of the settings."""

    def __init__(self) -> None:
        self._options: dict[str, dict[str, Any]] = {}
        self._protocols: frozenset[str] | None = None
        self._fetchers: dict[str, dict[str, str]] = {}
        self._retries: dict[str, dict[str, float]] = {}
        self._tokens: dict[str, str] = {}
        self._allowed: tuple[str, ...] = ()
        self._limits: dict[str, int] = {}

    def allow(self, text: str) -> None:
        self._allowed = tuple(part.strip() for part in text.split(",") if part.strip())
        AllowedUris(self._allowed)  # fail at startup if invalid

    def limit_bytes(self, text: str) -> None:
        self._limits["max_bytes"] = _whole(MAX_BYTES, text)

    def limit_seconds(self, text: str) -> None:
        self._limits["max_s"] = _whole(MAX_SECONDS, text)

    def settings(self) -> StorageSettings:
        retries = {
            scheme: Retries(
                int(found.get("retry.count", 3)), found.get("retry.wait.ms", 100) / 1000,
                found.get("retry.delay.scale.factor", 5),
            )
            for scheme, found in self._retries.items()
        }  # fmt: skip
        return StorageSettings(
            self._options, self._protocols, self._fetchers, retries, self._tokens, self._allowed, **self._limits
        )

    def file_system(self, key: str, rest: str, value: str) -> bool:
        first, _, name = rest.partition(".")
        if first == "class":
            if value.rpartition(".")[2] not in _JAVA_CLASSES:
                _register(name, key, value)
            return bool(name)
        scheme = _SAME.get(first, first)
        if scheme == "s3" and name == "disableAcl":
            return True  # the value is never used
        argument = _ARGUMENTS.get(scheme, {}).get(name)
        if argument is None:
            return False
        self._set(scheme, argument, key, value)
        return True

    def fetcher(self, key: str, rest: str, value: str) -> bool:
        if rest == "protocols":
            self._protocols = frozenset(part.strip().lower() for part in value.split(",") if part.strip())
            return True
        if rest in _RETRY_KEYS:
            self._retry("", rest, key, value)
            return True
        scheme, _, name = rest.partition(".")
        if not name or scheme == "auth":
            return False
        if name in _RETRY_KEYS:
            self._retry(scheme, name, key, value)
        elif name == "auth.token":
            self._tokens[scheme] = value if value.startswith(("Basic ", "Bearer ")) else f"Basic {value}"
        elif scheme == "hdfs" and name.removeprefix("hadoop.") != name:
            return self.file_system(key, f"hdfs.{name}", value)
        elif name != "class" or value.rpartition(".")[2] not in _JAVA_CLASSES:
            self._fetchers.setdefault(scheme, {})[name] = value
        return True

    def _retry(self, scheme: str, name: str, key: str, value: str) -> None:
        try:
            number = float(value)
        except ValueError:
            number = -1
        if number < (1 if name != "retry.wait.ms" else 0):
            raise InvalidConfigError(f"'{key}' must be a number of at least {0 if name == 'retry.wait.ms' else 1}")
        self._retries.setdefault(scheme, {})[name] = number

    def _set(self, scheme: str, argument: str, key: str, value: str) -> None:
        target = self._options.setdefault(scheme, {})
        outer, _, inner = argument.partition(".")
        if inner:
            target.setdefault(outer, {})[inner] = value
        elif argument == "extra_conf":
            target[argument] = _hadoop_properties(key, Path(value))
        else:
            target[argument] = value.lower() == "true" if argument == "anon" else value


def _whole(key: str, text: str) -> int:
    if not text.strip().isdigit() or int(text) == 0:
        raise InvalidConfigError(f"'{key}' must be a whole number of at least 1, not '{text}'")
    return int(text)


def load_object(key: str, name: str) -> Any:
    """Import and return the object `package.module:Name`. Raises InvalidConfigError."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidConfigError(f"'{key}' must name a class as package.module:Class: {error}") from error


def _register(scheme: str, key: str, name: str) -> None:
    import fsspec

    fsspec.register_implementation(scheme, load_object(key, name), clobber=True)


def _hadoop_properties(key: str, folder: Path) -> dict[str, str]:
    """Read the properties in the files of a Hadoop configuration folder."""
    found: dict[str, str] = {}
    for name in ("core-site.xml", "hdfs-site.xml"):
        path = folder / name
        try:
            root = ElementTree.parse(path).getroot() if path.exists() else None
        except ElementTree.ParseError as error:
            raise InvalidConfigError(f"'{key}': {path} cannot be read: {error}") from error
        for entry in () if root is None else root.iter("property"):
            found[entry.findtext("name", "").strip()] = entry.findtext("value", "").strip()
    if not found:
        raise InvalidConfigError(f"'{key}': there is no core-site.xml or hdfs-site.xml with properties in {folder}")
    return found
