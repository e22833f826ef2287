"""Handing segment archives to controllers."""

import re
import ssl
import tarfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from gamay.base.errors import ConflictError, InvalidConfigError, NotFoundError
from gamay.client.controller import ControllerClient, custom_map_headers
from gamay.client.http import ServiceError
from gamay.ingest.job.spec import PushJobSpec, TlsSpec
from gamay.ingest.read.sources import list_files, path_matcher
from gamay.spark.building.progress import JobProgress, SilentProgress
from gamay.spark.building.report import PushReport
from gamay.spark.building.target import METADATA_SUFFIX, pack_metadata, scratch_folder
from gamay.storage.archive import pack, unpack
from gamay.storage.files import Access, fetch, local_path
from gamay.storage.filesystems import scheme_of
from gamay.storage.settings import StorageSettings

ARCHIVE = re.compile(r"(?P<name>[^/]+)(?P<suffix>\.tar\.zst|\.tar\.gz|\.tgz)$")
BACKOFF_FACTOR = 5


@dataclass(frozen=True, slots=True)
class Destination:
    """The table that segments are pushed to.

    replaces: they take the place of all segments of the table, at once. storage: how the archives' file system is reached.
    custom: entries of the segments' records, by segment.
    """

    controllers: tuple[str, ...]
    table: str
    table_type: str = "OFFLINE"
    auth_token: str | None = None
    tls: TlsSpec | None = None
    replaces: bool = False
    storage: StorageSettings = field(default_factory=StorageSettings, repr=False)
    custom: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def access(self, uri: str) -> Access:
        """Return how an archive is reached."""
        return Access(options=self.storage.options_of(scheme_of(uri)))

    def headers(self, archive: str) -> Mapping[str, str]:
        """Return the headers that an archive is pushed with."""
        return custom_map_headers(self.custom.get(segment_name_of(archive), {}))

    def client(self, controller: str) -> ControllerClient:
        """Return a client of one of the controllers."""
        return controller_client(controller, self.auth_token, self.tls)


def controller_client(controller: str, auth_token: str | None, tls: TlsSpec | None) -> ControllerClient:
    """Return a client of a controller."""
    if tls is None:
        return ControllerClient(controller, auth_token=auth_token)
    context = ssl.create_default_context(cafile=tls.trust_store_path)
    if tls.key_store_path:
        context.load_cert_chain(tls.key_store_path, password=tls.key_store_password)
    return ControllerClient(controller, auth_token=auth_token, timeout_s=tls.read_timeout_ms / 1000, verify=context)


def list_archives(output_dir: str, pattern: str | None = None) -> list[str]:
    """Return the segment archives below a folder; `pattern` (`glob:…`, `regex:…`) chooses among them."""
    matches = path_matcher(pattern) if pattern else None
    found = [f for f in list_files(output_dir) if ARCHIVE.search(f) and not f.endswith(METADATA_SUFFIX)]
    return [f for f in found if matches is None or matches(f)]


def segment_name_of(archive_uri: str) -> str:
    """Return the name of the segment in an archive, which its file is named after.

    >>> segment_name_of("/out/2024/trips_OFFLINE_1_2_0.tar.zst")
    'trips_OFFLINE_1_2_0'
    """
    found = ARCHIVE.search(archive_uri)
    if found is None:
        raise InvalidConfigError(f"{archive_uri} is not a segment archive (.tar.zst, .tar.gz)")
    return unquote(found["name"])


def push_segments(
    archives: Sequence[str],
    destination: Destination,
    *,
    mode: str = "tar",
    options: PushJobSpec | None = None,
    progress: JobProgress | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> PushReport:
    """Push segment archives to every controller of the destination.

    mode: `tar` sends each archive, `uri` has the controller fetch it, `metadata` sends its metadata only.
    Answers of 500 and above, and missing ones, are tried again up to `push_attempts` times, after waits that grow fivefold.
    Raises what the last attempt raised; with `replaces`, the table then shows what it showed before.
    """
    options = options or PushJobSpec()
    if mode not in ("tar", "uri", "metadata"):
        raise InvalidConfigError(f"unknown push mode '{mode}'; known are tar, uri and metadata")
    started = time.monotonic()
    attempts = 0
    for controller in destination.controllers:
        with destination.client(controller) as client:
            pusher = _Pusher(client, destination, mode, options, progress or SilentProgress(), sleep)
            pusher.push(archives)
            attempts += pusher.attempts
    names = tuple(segment_name_of(archive) for archive in archives)
    return PushReport(names, destination.controllers, attempts, time.monotonic() - started)


def with_attempts(push: Callable[[], object], options: PushJobSpec, sleep: Callable[[float], None] = time.sleep) -> None:
    """Do something, again where a ServiceError says that it may succeed later, after waits that grow fivefold.

    Raises what the last attempt raised.
    """
    wait_s = options.push_retry_interval_ms / 1000
    for attempt in range(1, options.push_attempts + 1):
        try:
            push()
            return
        except ServiceError:
            if attempt == options.push_attempts:
                raise
        sleep(wait_s)
        wait_s *= BACKOFF_FACTOR


def _copied(uri: str, scratch: Path, access: Access) -> Path | None:
    """Return a file where it lies, or a copy of it; None when there is none."""
    local = local_path(uri)
    if local is not None:
        return local if local.exists() else None
    copy = scratch / uri.rpartition("/")[2]
    try:
        fetch(uri, copy, access)
    except NotFoundError:
        return None
    return copy


class _Pusher:
    """Pushes to one controller."""

    def __init__(
        self,
        client: ControllerClient,
        destination: Destination,
        mode: str,
        options: PushJobSpec,
        progress: JobProgress,
        sleep: Callable[[float], None],
    ) -> None:
        self._client = client
        self._to = destination
        self._mode = mode
        self._options = options
        self._progress = progress
        self._sleep = sleep
        self._lock = threading.Lock()
        self.attempts = 0

    def push(self, archives: Sequence[str]) -> None:
        if not self._to.replaces:
            self._push_all(archives)
            return
        table, table_type = self._to.table, self._to.table_type
        new = [segment_name_of(archive) for archive in archives]
        # what was replaced before is still there for a while, and cannot be replaced again
        old = [name for name in self._client.list_segments(table, table_type, queried_only=True) if name not in new]
        entry = self._client.start_replace(table, old, new, table_type)
        try:
            self._push_all(archives)
            # ended once, it may be ended again: an answer may be lost
            with_attempts(lambda: self._client.end_replace(table, entry, table_type), self._options, self._sleep)
        except BaseException as error:
            if self._gives_up(entry) or not isinstance(error, ServiceError):
                raise  # else the replacement has ended, and only the answer was lost

    def _gives_up(self, entry: str) -> bool:
        """Give a replacement up; return whether it is: not when queries see the new segments."""
        try:
            self._client.revert_replace(self._to.table, entry, self._to.table_type)
        except ConflictError:
            return False
        return True

    def _push_all(self, archives: Sequence[str]) -> None:
        if self._mode == "metadata" and self._options.batch_segment_upload:
            self._with_attempts(lambda: self._push_metadata_batch(archives))
            self._progress.update("pushing segments", len(archives), len(archives))
            return
        done = 0
        self._progress.update("pushing segments", 0, len(archives))
        with ThreadPoolExecutor(self._options.push_parallelism, "gamay-push") as pool:
            try:
                for _ in pool.map(self._push_one, archives):
                    done += 1
                    self._progress.update("pushing segments", done, len(archives))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _push_one(self, archive: str) -> None:
        push = {"tar": self._push_tar, "uri": self._push_uri, "metadata": self._push_metadata}[self._mode]
        self._with_attempts(lambda: push(archive))

    def _with_attempts(self, push: Callable[[], object]) -> None:
        def counted() -> None:
            with self._lock:
                self.attempts += 1
            push()

        with_attempts(counted, self._options, self._sleep)

    def _push_tar(self, archive: str) -> None:
        path = local_path(archive)
        if path is not None:
            self._client.upload_tar(self._to.table, path, headers=self._to.headers(archive), table_type=self._to.table_type)
            return
        with scratch_folder() as scratch:
            copy = scratch / archive.rpartition("/")[2]
            fetch(archive, copy, self._to.access(archive))
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

    def _metadata_archive(self, archive: str, scratch: Path) -> Path:
        found = ARCHIVE.search(archive)
        assert found is not None
        beside = archive[: found.start("suffix")] + METADATA_SUFFIX
        if (
            self._options.prefer_metadata_tar_gz
            and (found_beside := _copied(beside, scratch, self._to.access(beside))) is not None
        ):
            return found_beside
        source = local_path(archive)
        if source is None:
            source = scratch / archive.rpartition("/")[2]
            fetch(archive, source, self._to.access(archive))
        return pack_metadata(unpack(source, scratch / segment_name_of(archive)))

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
        """Return where a controller or server finds the archive."""
        path = local_path(archive)
        uri = archive if path is None else path.absolute().as_uri()
        prefix, suffix = self._options.segment_uri_prefix, self._options.segment_uri_suffix
        if prefix is None and suffix is None:
            return uri
        return f"{prefix or ''}{urlsplit(uri).path}{suffix or ''}"
