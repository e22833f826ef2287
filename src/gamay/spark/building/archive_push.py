"""Pushing of archives to one controller; runs on executors, or in threads of the driver, independently of Spark."""

import json
import ssl
import tarfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from gamay.base.errors import ConflictError, GamayError, InvalidConfigError, NotFoundError
from gamay.client.controller import ControllerClient, custom_map_headers
from gamay.client.http import ServiceError
from gamay.ingest.job.spec import PushJobSpec, TlsSpec
from gamay.spark.building.attempts import with_attempts
from gamay.spark.building.target import ARCHIVE, METADATA_SUFFIX, pack_metadata, scratch_folder
from gamay.storage.archive import pack, unpack
from gamay.storage.files import Access, fetch, local_path
from gamay.storage.filesystems import scheme_of
from gamay.storage.settings import StorageSettings

_REFUSALS = {kind.__name__: kind for kind in (InvalidConfigError, NotFoundError, ConflictError)}


@dataclass(frozen=True, slots=True)
class Destination:
    """The table that segments are pushed to.

    replaces: they atomically replace all segments of the table. storage: access to the archives' file system.
    custom: entries of the segments' custom maps, by segment.
    """

    controllers: tuple[str, ...]
    table: str
    table_type: str = "OFFLINE"
    auth_token: str | None = field(default=None, repr=False)
    tls: TlsSpec | None = field(default=None, repr=False)
    replaces: bool = False
    storage: StorageSettings = field(default_factory=StorageSettings, repr=False)
    custom: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def access(self, uri: str) -> Access:
        """Return the access parameters of an archive."""
        return Access(options=self.storage.options_of(scheme_of(uri)))

    def headers(self, archive: str) -> Mapping[str, str]:
        """Return the headers for pushing an archive."""
        return custom_map_headers(self.custom.get(segment_name_of(archive), {}))

    def client(self, controller: str) -> ControllerClient:
        """Return a client of one of the controllers."""
        return controller_client(controller, self.auth_token, self.tls)


def controller_client(controller: str, auth_token: str | None, tls: TlsSpec | None) -> ControllerClient:
    """Return a client of a controller. Raises NotFoundError for a missing file of certificates."""
    if tls is None:
        return ControllerClient(controller, auth_token=auth_token)
    for path in (tls.trust_store_path, tls.key_store_path):
        if path and not Path(path).is_file():
            raise NotFoundError(f"tlsSpec: there is no {path} on this machine; all executors that push need it, too")
    context = ssl.create_default_context(cafile=tls.trust_store_path)
    if tls.key_store_path:
        context.load_cert_chain(tls.key_store_path, password=tls.key_store_password)
    return ControllerClient(controller, auth_token=auth_token, timeout_s=tls.read_timeout_ms / 1000, verify=context)


def segment_name_of(archive_uri: str) -> str:
    """Return the segment name of an archive, from its file name.

    >>> segment_name_of("/out/2024/trips_OFFLINE_1_2_0.tar.zst")
    'trips_OFFLINE_1_2_0'
    """
    found = ARCHIVE.search(archive_uri)
    if found is None:
        raise InvalidConfigError(f"{archive_uri} is not a segment archive (.tar.zst, .tar.gz)")
    return unquote(found["name"])


def in_one_request(mode: str, options: PushJobSpec) -> bool:
    """Return whether all archives are pushed in one request."""
    return mode == "metadata" and options.batch_segment_upload


@dataclass(frozen=True, slots=True)
class Pushing:
    """Result of pushing archives. attempts: requests made. error: the failure, None if all were pushed."""

    attempts: int
    error: GamayError | None = None

    def to_json(self) -> str:
        """Return the JSON form that executors send."""
        if self.error is None:
            return json.dumps({"attempts": self.attempts})
        may_pass = isinstance(self.error, ServiceError)
        status = self.error.status if isinstance(self.error, ServiceError) else None
        told = {"kind": type(self.error).__name__, "text": str(self.error), "mayPass": may_pass, "status": status}
        return json.dumps({"attempts": self.attempts, "error": told})

    @classmethod
    def from_json(cls, text: str) -> "Pushing":
        """Read the form of `to_json`; the error keeps the type that callers handle."""
        document = json.loads(text)
        told = document.get("error")
        if told is None:
            return cls(document["attempts"])
        if told["mayPass"]:
            return cls(document["attempts"], ServiceError(told["text"], told["status"]))
        return cls(document["attempts"], _REFUSALS.get(told["kind"], GamayError)(told["text"]))


class ArchivePusher:
    """Pusher of archives to one controller. Thread-safe. attempts: requests made so far."""

    def __init__(
        self,
        client: ControllerClient,
        destination: Destination,
        mode: str,
        options: PushJobSpec,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._to = destination
        self._mode = mode
        self._options = options
        self._sleep = sleep
        self._lock = threading.Lock()
        self.attempts = 0

    def push(self, archives: Sequence[str]) -> None:
        """Push archives one by one or, according to the options, in one request.

        Raises the errors of `HttpService.request`, NotFoundError, and GamayError for an unreadable archive.
        """
        if in_one_request(self._mode, self._options):
            self._with_attempts(lambda: self._push_metadata_batch(archives), f"{archives[0]} and those pushed with it")
            return
        push = {"tar": self._push_tar, "uri": self._push_uri, "metadata": self._push_metadata}[self._mode]
        for archive in archives:
            self._with_attempts(partial(push, archive), archive)

    def told(self, archives: Sequence[str]) -> Pushing:
        """Push archives, and return the result; stops at the first user-caused failure."""
        try:
            self.push(archives)
        except GamayError as error:
            return Pushing(self.attempts, error)
        return Pushing(self.attempts)

    def _with_attempts(self, push: Callable[[], object], what: str) -> None:
        def counted() -> None:
            with self._lock:
                self.attempts += 1
            push()

        try:
            with_attempts(counted, self._options, self._sleep)
        except OSError as error:
            raise GamayError(f"cannot push {what}: {error}") from error

    def _push_tar(self, archive: str) -> None:
        with scratch_folder() as scratch:
            copy = self._fetched(archive, scratch)
            self._client.upload_tar(self._to.table, copy, headers=self._to.headers(archive), table_type=self._to.table_type)

    def _push_uri(self, archive: str) -> None:
        self._client.upload_uri(
            self._to.table,
            self._download_uri(archive),
            headers=self._to.headers(archive),
            table_type=self._to.table_type,
        )

    def _push_metadata(self, archive: str) -> None:
        with scratch_folder() as scratch:
            self._client.upload_metadata(
                self._to.table,
                self._metadata_archive(archive, scratch),
                self._download_uri(archive),
                copy_to_deep_store=self._options.copy_to_deep_store,
                headers=self._to.headers(archive),
                table_type=self._to.table_type,
            )

    def _fetched(self, uri: str, scratch: Path) -> Path:
        """Return the path of a local file, or of a downloaded copy. Raises NotFoundError, OSError."""
        local = local_path(uri)
        if local is None:
            local = scratch / uri.rpartition("/")[2]
            fetch(uri, local, self._to.access(uri))
        elif not local.exists():
            raise NotFoundError(f"there is no {local} on the machine that is to push it; executors need to reach it, too")
        return local

    def _metadata_archive(self, archive: str, scratch: Path) -> Path:
        if self._options.prefer_metadata_tar_gz:
            try:
                return self._fetched(ARCHIVE.sub(rf"\g<name>{METADATA_SUFFIX}", archive), scratch)
            except NotFoundError:
                pass  # it was not written when the segment was built
        return pack_metadata(unpack(self._fetched(archive, scratch), scratch / segment_name_of(archive)))

    def _push_metadata_batch(self, archives: Sequence[str]) -> None:
        with scratch_folder() as scratch, ThreadPoolExecutor(self._options.metadata_generation_parallelism) as pool:
            folder = scratch / "batch"
            folder.mkdir()
            entries = list(pool.map(lambda archive: self._add_to_batch(archive, scratch, folder), archives))
            (folder / "all_segments_metadata").write_text("".join(f"{name}\n{uri}\n" for name, uri in entries))
            self._client.upload_metadata_batch(
                self._to.table,
                pack(folder, scratch / "batch.tar.gz"),
                table_type=self._to.table_type,
                copy_to_deep_store=self._options.copy_to_deep_store,
            )

    def _add_to_batch(self, archive: str, scratch: Path, folder: Path) -> tuple[str, str]:
        name = segment_name_of(archive)
        own = scratch / f"{name}.scratch"
        own.mkdir()
        with tarfile.open(self._metadata_archive(archive, own)) as tar:
            member = next(m for m in tar.getmembers() if m.name.endswith("metadata.json"))
            content = tar.extractfile(member)
            assert content is not None
            (folder / f"{name}.metadata.json").write_bytes(content.read())
        return name, self._download_uri(archive)

    def _download_uri(self, archive: str) -> str:
        """Return the URI of the archive for controllers and servers."""
        path = local_path(archive)
        uri = archive if path is None else path.absolute().as_uri()
        prefix, suffix = self._options.segment_uri_prefix, self._options.segment_uri_suffix
        if prefix is None and suffix is None:
            return uri
        return f"{prefix or ''}{urlsplit(uri).path}{suffix or ''}"
