"""Pushing of segment archives to controllers: from executors if worthwhile, else from threads of this process."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from gamay.base.errors import ConflictError, InvalidConfigError
from gamay.client.controller import ControllerClient
from gamay.client.http import ServiceError
from gamay.ingest.job.spec import PushJobSpec
from gamay.ingest.read.sources import list_files, path_matcher
from gamay.spark.building.archive_push import (
    ArchivePusher,
    Destination,
    Pushing,
    in_one_request,
    segment_name_of,
)
from gamay.spark.building.attempts import with_attempts
from gamay.spark.building.execute import LocalEngine, run_tasks
from gamay.spark.building.progress import JobProgress, SilentProgress
from gamay.spark.building.report import PushReport
from gamay.spark.building.target import ARCHIVE, METADATA_SUFFIX
from gamay.storage.files import size_of

# A Spark job takes some tenths of a second, including 0.1 s of processor time of the driver, which could itself push the
# metadata of 16 segments in that time, or an archive of 64 MB.
FEWEST_FOR_EXECUTORS, BYTES_FOR_EXECUTORS = 32, 64 << 20
_STEP = "pushing segments"


def list_archives(output_dir: str, pattern: str | None = None) -> list[str]:
    """Return the segment archives below a folder, optionally filtered by `pattern` (`glob:…`, `regex:…`)."""
    matches = path_matcher(pattern) if pattern else None
    found = [f for f in list_files(output_dir) if ARCHIVE.search(f) and not f.endswith(METADATA_SUFFIX)]
    return [f for f in found if matches is None or matches(f)]


def push_segments(
    archives: Sequence[str],
    destination: Destination,
    *,
    spark: Any = None,
    mode: str = "tar",
    options: PushJobSpec | None = None,
    progress: JobProgress | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> PushReport:
    """Push segment archives to every controller of the destination.

    spark: a session, whose executors push; None or a `LocalEngine`: threads of this process push, as also for a session
    with local executors, and for few archives. In all cases `push_parallelism` archives are pushed concurrently.
    mode: `tar` sends each archive, `uri` has the controller fetch it, `metadata` sends only its metadata.
    Responses of 500 and above, missing responses, and unreadable archives are retried up to `push_attempts` times,
    after waits that grow fivefold.
    Raises what the last attempt raised; with `replaces`, the table then keeps its former segments.
    """
    options = options or PushJobSpec()
    if mode not in ("tar", "uri", "metadata"):
        raise InvalidConfigError(f"unknown push mode '{mode}'; known are tar, uri and metadata")
    started = time.monotonic()
    attempts = 0
    for controller in destination.controllers:
        with destination.client(controller) as client:
            push = _Push(client, controller, destination, mode, options, progress or SilentProgress(), sleep)
            push.run(archives, spark if _is_for_executors(spark, archives, mode, destination) else None)
            attempts += push.attempts
    names = tuple(segment_name_of(archive) for archive in archives)
    return PushReport(names, destination.controllers, attempts, time.monotonic() - started)


def _is_for_executors(spark: Any, archives: Sequence[str], mode: str, destination: Destination) -> bool:
    """Return whether executors push: not if they are local threads, nor if the driver would finish before a job starts."""
    if spark is None or isinstance(spark, LocalEngine):
        return False
    if not hasattr(spark, "_jsc"):
        return True  # archives are on the machine of the Spark Connect server
    master = spark.sparkContext.master
    if master == "local" or master.startswith("local["):
        return False
    if len(archives) >= FEWEST_FOR_EXECUTORS or mode != "tar":
        return len(archives) >= FEWEST_FOR_EXECUTORS
    return sum(size_of(uri, destination.access(uri)) or 0 for uri in archives) >= BYTES_FOR_EXECUTORS


class _Push:
    """State of one push to one controller."""

    def __init__(
        self,
        client: ControllerClient,
        controller: str,
        destination: Destination,
        mode: str,
        options: PushJobSpec,
        progress: JobProgress,
        sleep: Callable[[float], None],
    ) -> None:
        self._client = client
        self._controller = controller
        self._to = destination
        self._mode = mode
        self._options = options
        self._progress = progress
        self._sleep = sleep
        self.attempts = 0

    def run(self, archives: Sequence[str], spark: Any) -> None:
        if not self._to.replaces:
            self._push_all(archives, spark)
            return
        table, table_type = self._to.table, self._to.table_type
        new = [segment_name_of(archive) for archive in archives]
        # segments that were replaced before still exist for a while, and cannot be replaced again
        old = [name for name in self._client.list_segments(table, table_type, queried_only=True) if name not in new]
        # aborts only unfinished pushes of the whole table, not replacements of other writers
        entry = self._client.start_replace(table, old, new, table_type, of_table=True)
        try:
            self._push_all(archives, spark)
            # ending is idempotent, since a response may be lost
            with_attempts(lambda: self._client.end_replace(table, entry, table_type), self._options, self._sleep)
        except BaseException as error:
            if self._gives_up(entry) or not isinstance(error, ServiceError):
                raise  # else the replacement has ended, and only the response was lost

    def _gives_up(self, entry: str) -> bool:
        """Abort a replacement; return False if queries already see the new segments."""
        try:
            self._client.revert_replace(self._to.table, entry, self._to.table_type)
        except ConflictError:
            return False
        return True

    def _push_all(self, archives: Sequence[str], spark: Any) -> None:
        if not archives:
            return
        if spark is None:
            self._push_from_here(archives)
        else:
            self._push_from_executors(archives, spark)

    def _push_from_here(self, archives: Sequence[str]) -> None:
        pusher = ArchivePusher(self._client, self._to, self._mode, self._options, self._sleep)

        def push(group: Sequence[str]) -> str:
            pusher.push(group)
            return ""

        groups = self._groups(archives, len(archives))
        try:
            LocalEngine().run(groups, push, _STEP, self._progress, self._options.push_parallelism)
        finally:
            self.attempts += pusher.attempts

    def _push_from_executors(self, archives: Sequence[str], spark: Any) -> None:
        """Push a group of archives in each task; pushing is idempotent, so that Spark may repeat a task."""
        destination, controller, mode, options = self._to, self._controller, self._mode, self._options

        def push(group: Sequence[str]) -> str:
            with destination.client(controller) as client:
                return ArchivePusher(client, destination, mode, options).told(group).to_json()

        groups = self._groups(archives, options.push_parallelism)
        pushed = [Pushing.from_json(text) for text in run_tasks(spark, groups, push, _STEP, self._progress)]
        self.attempts += sum(group.attempts for group in pushed)
        for group in pushed:
            if group.error is not None:
                raise group.error

    def _groups(self, archives: Sequence[str], count: int) -> list[Sequence[str]]:
        """Return `count` groups of archives, each for one task; a single one if all are pushed in one request."""
        if in_one_request(self._mode, self._options):
            return [archives]
        return [archives[first::count] for first in range(min(count, len(archives)))]
