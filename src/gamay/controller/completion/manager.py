"""The controller's management of tables that consume streams, wired together."""

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from gamay.base.errors import GamayError, InvalidConfigError
from gamay.cluster.records.completion import Call, CompletionRequest, CompletionResponse, Status
from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import SegmentRecord
from gamay.cluster.records.registry import Registry
from gamay.controller.completion.consumption import ConsumptionManager
from gamay.controller.completion.deep_copies import DeepCopyRepair
from gamay.controller.completion.disks import Disks
from gamay.controller.completion.intake import SegmentIntake
from gamay.controller.completion.protocol import CompletionManager
from gamay.controller.completion.replay import DeadLetterReplay
from gamay.controller.completion.validation import PartitionValidator
from gamay.controller.context import ControllerContext
from gamay.controller.realtime.context import realtime_context
from gamay.controller.segments.untracked import set_aside_untracked
from gamay.controller.segments.uploads import UploadManager
from gamay.model.schema.schema import Schema
from gamay.model.table.stored import stored_schema
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType, raw_table_name, table_type_of, typed_table_name

_log = logging.getLogger(__name__)

_STOP_S = 5.0
_ASIDE_MS = 24 * 3_600_000


class RealtimeManager:
    """Manager of segment completion, repair, and the operators' requests.

    Its methods may be called from any thread. lead_registry: for the lead controller's work; its store refuses writes
    after the lead is lost. sleep: waits for a number of seconds, and returns True when the process ends.
    """

    def __init__(
        self,
        controller: ControllerContext,
        uploads: UploadManager,
        lead_registry: Registry,
        sleep: Callable[[float], object],
    ) -> None:
        self._controller = controller
        self._uploads = uploads
        self._intake = SegmentIntake(controller)
        self._context = realtime_context(controller, controller.registry)
        lead_context = replace(self._context, registry=lead_registry)
        self._leads = threading.Event()
        self._takeover: threading.Thread | None = None
        self.completion = CompletionManager(lead_context, lambda table: self._leads.is_set(), controller.url)
        self.consumption = ConsumptionManager(self._context, controller.ids, sleep)
        self.dead_letters = DeadLetterReplay(self._context, controller.servers)
        self._validator = PartitionValidator(lead_context)
        self._lead_consumption = ConsumptionManager(lead_context, controller.ids, sleep)
        self._copies = DeepCopyRepair(lead_context, self._fetch)
        self._disks = Disks(lead_registry, controller.servers)

    # leadership

    def lead(self) -> None:
        """Start to complete segments, and finish at once what another controller may have left unfinished."""
        self.completion.resign()
        self._leads.set()
        self._takeover = threading.Thread(target=self._take_over, name="realtime-takeover", daemon=True)
        self._takeover.start()

    def resign(self) -> None:
        """Stop to complete segments, since another controller leads."""
        self._leads.clear()
        self.completion.resign()

    def stop(self) -> None:
        """Stop the background work; `sleep` must have begun to return True."""
        self.resign()
        if self._takeover is not None:
            self._takeover.join(_STOP_S)
        self.consumption.stop()

    def _take_over(self) -> None:
        try:
            self.validate_all(guard_ms=0)
        except Exception:
            # a slow stream may answer after the store was closed; errors no longer matter then
            if self._leads.is_set():
                raise

    # repair

    def validate_all(self, guard_ms: int | None = None) -> None:
        """Repair all tables that consume streams; the failure of one does not affect the others."""
        if not self._leads.is_set():
            return
        for table in self._controller.registry.table_names():
            if table_type_of(table) is not TableType.REALTIME:
                continue
            if not self._leads.is_set():
                return
            try:
                self.validate(table, guard_ms)
            except (GamayError, OSError, ValueError):
                _log.exception("table %s could not be validated", table)
        self.completion.forget_stale()

    def validate(self, table: str, guard_ms: int | None = None) -> None:
        """Repair one typed table that consumes a stream. Raises NotFoundError, InvalidConfigError for a table without
        a stream, and the metadata store's errors."""
        if table_type_of(table) is not TableType.REALTIME:
            raise InvalidConfigError(f"Table {table} consumes no stream, there is nothing to repair")
        self._lead_consumption.follow_limits(table, self._disks.full)
        self._validator.validate(table, guard_ms=guard_ms)
        self._copies.repair(table, self._context.completion_time_max_ms())
        self._lead_consumption.enforce(table)
        until_ms = self._controller.clock.now_ms() + _ASIDE_MS
        set_aside_untracked(self._controller, self._context.config_of(table), until_ms)

    def store_copies(
        self, table: str, segments: Collection[str] | None, *, force: bool = False
    ) -> tuple[list[str], list[str]]:
        """Copy segments of a typed table (default: those without a copy) from servers to the deep store; any
        controller may do that. Result and errors are those of `DeepCopyRepair.store`.
        """
        guard_ms = self._context.completion_time_max_ms()
        return DeepCopyRepair(self._context, self._fetch).store(table, guard_ms, segments, force=force)

    # completion

    def upload(self, request: CompletionRequest, archive: Path, scratch: Path) -> CompletionResponse:
        """Verify and store a segment's archive in `scratch`; any controller may do that."""
        try:
            location = self._store(request.segment, archive, scratch)
        except (GamayError, OSError, ValueError) as error:
            _log.warning("the upload of %s by %s failed: %s", request.segment, request.instance, error)
            return CompletionResponse(Status.FAILED)
        return CompletionResponse(Status.UPLOAD_SUCCESS, segment_location=location)

    def commit_end(self, request: CompletionRequest, metadata_file: Path | None, scratch: Path) -> CompletionResponse:
        """Commit an uploaded segment. metadata_file: the segment's `metadata.json` in `scratch`; None reads the archive."""

        def describe(config: TableConfig) -> SegmentRecord:
            size = request.segment_size_bytes
            return self._intake.describe(config, request.segment, request.location, scratch, metadata_file, size)

        return self.completion.commit_end(request, describe)

    def commit(self, request: CompletionRequest, archive: Path, scratch: Path) -> CompletionResponse:
        """Start, upload and end a commit in one call."""
        started = self.completion.ask(Call.COMMIT_START, request)
        if started.status is not Status.COMMIT_CONTINUE:
            return started
        uploaded = self.upload(request, archive, scratch)
        if uploaded.segment_location is None:
            return uploaded
        return self.commit_end(replace(request, location=uploaded.segment_location), None, scratch)

    # parts

    def _store(self, segment: str, archive: Path, scratch: Path) -> str:
        table = typed_table_name(LlcName.must_parse(segment).table, TableType.REALTIME)
        config, schema = self._context.config_of(table), self._schema_of(table)
        location, _ = self._intake.store(config, schema, segment, archive, scratch)
        return location

    def _fetch(self, table: str, segment: str, server: str) -> SegmentRecord:
        """Copy a segment from a server to the deep store, verified, and return its record."""
        config, schema = self._context.config_of(table), self._schema_of(table)
        with self._uploads.scratch(f"copy segment '{segment}' from {server}") as scratch:
            archive = scratch / "fetched.tar.gz"
            self._controller.servers.fetch_segment(server, table, segment, archive)
            location, _ = self._intake.store(config, schema, segment, archive, scratch)
            return self._intake.describe(config, segment, location, scratch, None, -1)

    def _schema_of(self, table: str) -> Schema:
        raw = raw_table_name(table)
        document = self._controller.registry.get_schema(raw)
        if document is None:
            raise GamayError(f"table '{table}' has no schema '{raw}'")
        return stored_schema(document)
