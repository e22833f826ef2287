"""Committing: upload of a consumer's built segment to the deep store, in coordination with the controller.

`gamay.server.consuming.machine` decides when each step is done; this module executes it and returns the controller's answer.
"""

from dataclasses import replace
from pathlib import Path

from gamay.cluster.records.completion import PEER_SCHEME, Call, CompletionRequest, CompletionResponse, Status
from gamay.segment.encode.metadata import read_metadata
from gamay.segment.mutable.segment import MutableSegment
from gamay.server.consuming.building import SegmentBuild
from gamay.server.consuming.context import SegmentContext
from gamay.storage.files import fsync_tree


class SegmentCommit:
    """Commit of one segment, on its consumer's thread. build: the segment to commit."""

    def __init__(self, context: SegmentContext, rows: MutableSegment, build: SegmentBuild) -> None:
        self._context, self._rows, self._build = context, rows, build
        self._has_peers = context.task.layout.config.segments.peer_segment_download_scheme is not None
        direct = context.task.stream.server_upload_to_deep_store
        self._is_direct = self._has_peers if direct is None else direct
        self._controller_url: str | None = None

    def ask_consumed(self, reason: str) -> CompletionResponse:
        """Report the end of consumption to the controller, and return its instruction."""
        answer = self._ask(Call.CONSUMED, reason=reason)
        self._controller_url = answer.controller_url
        return answer

    def ask_start(self) -> Status:
        """Ask whether the segment may be committed."""
        return self._ask(Call.COMMIT_START).status

    def ask_time(self, seconds: int) -> Status:
        """Ask for more time to build the segment."""
        return self._ask(Call.EXTEND_BUILD_TIME, extra_time_s=seconds).status

    def tell_stopped(self, reason: str) -> Status:
        """Report to the controller that this replica has stopped consuming."""
        return self._ask(Call.STOPPED_CONSUMING, reason=reason).status

    def upload(self) -> str | None:
        """Upload the segment and return its location: in the deep store or, if the table allows it, only on its servers."""
        location = self._upload_directly()
        if location is None:
            answer = self._send_archive(Call.UPLOAD, self._controller_url)
            location = answer.segment_location if answer.status is Status.UPLOAD_SUCCESS else None
        self._context.counts.upload_failures += location is None
        if location is None and self._has_peers:
            self._context.note_error(
                "the segment cannot be uploaded to the deep store; only its servers have copies for now", permanent=False
            )
            fsync_tree(self._build.folder)  # otherwise the copy in the deep store survives a crash of the machine
            location = f"{PEER_SCHEME}///{self._context.segment}"
        return location

    def end(self, location: str) -> Status:
        """Commit the segment with this location."""
        metadata = self._build.folder / "metadata.json"
        return self._ask(Call.COMMIT_END_WITH_METADATA, file=metadata, location=location).status

    def send_whole(self) -> Status:
        """Commit the segment with a single request that contains all of it."""
        return self._send_archive(Call.COMMIT).status

    def _upload_directly(self) -> str | None:
        context, build = self._context, self._build
        store = context.server.deep_store
        if store is None or not self._is_direct:
            return None
        try:
            return store.put(build.archive(), context.table, context.segment, read_metadata(build.folder).crc)
        except OSError as error:
            context.note_error(f"the deep store does not take the segment: {error}", permanent=False)
            return None

    def _send_archive(self, call: Call, controller_url: str | None = None) -> CompletionResponse:
        return self._ask(call, file=self._build.archive(), controller_url=controller_url)

    def _ask(
        self, call: Call, *, reason: str = "", location: str = "", extra_time_s: int = 0, file: Path | None = None,
        controller_url: str | None = None,
    ) -> CompletionResponse:  # fmt: skip
        context, machine = self._context, self._context.machine
        request = CompletionRequest(
            instance=context.server.server,
            segment=context.segment,
            offset=str(machine.offset),
            reason=reason or ("" if machine.stop_reason is None else machine.stop_reason.value),
            row_count=self._rows.num_docs,
            extra_time_s=extra_time_s,
            location=location,
        )
        built = self._build.built
        if built is not None:
            request = replace(
                request, segment_size_bytes=built.size_bytes, build_time_ms=built.build_ms, wait_time_ms=built.wait_ms
            )
        answer = context.server.completion.ask(call, request, file, controller_url)
        context.counts.answers[answer.status] += 1
        return answer
