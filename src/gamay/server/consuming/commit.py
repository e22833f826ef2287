"""The segment that is built of a consumer's rows, on its way into the cluster: built, brought to the deep store, committed.

`gamay.server.consuming.machine` says when each of these is done; here is how, and what the controller answers.
"""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gamay.base.errors import GamayError
from gamay.cluster.records.completion import PEER_SCHEME, Call, CompletionRequest, CompletionResponse, Status
from gamay.segment.encode.metadata import read_metadata
from gamay.segment.mutable.segment import MutableSegment
from gamay.segment.mutable.sizing import SizingHistory
from gamay.segment.spi import DocIds
from gamay.server.consuming.builds import Build, lease
from gamay.server.consuming.counts import PartitionCounts
from gamay.server.consuming.host import NoteError, Owner, Resources
from gamay.server.consuming.machine import ConsumerMachine
from gamay.server.consuming.status import BuiltSegment
from gamay.storage.archive import ZSTD_LEVEL_QUICK, pack
from gamay.storage.files import fsync_tree


class SegmentCommit:
    """Does this for one consumer, on its thread.

    rows, machine: of the consumer; the machine is asked where it is, and told nothing. has_peers: whether servers may fetch
    the segment from each other. direct: whether it goes to the deep store without the controller, None where has_peers says.
    """

    def __init__(
        self, resources: Resources, owner: Owner, table: str, rows: MutableSegment, machine: ConsumerMachine,
        counts: PartitionCounts, history: SizingHistory, note_error: NoteError, *, has_peers: bool, direct: bool | None,
    ) -> None:  # fmt: skip
        self._resources, self._owner = resources, owner
        self._table, self._segment = table, rows.name
        self._rows, self._machine = rows, machine
        self._counts, self._history = counts, history
        self._note_error = note_error
        self._has_peers = has_peers
        self._is_direct = has_peers if direct is None else direct
        self._build: Build | None = None
        self._controller_url: str | None = None

    @property
    def folder(self) -> Path:
        """The folder of the segment that was built."""
        return self._built.folder

    def ask_consumed(self, reason: str) -> CompletionResponse:
        """Tell the controller that consumption has ended, and return what it wants done."""
        answer = self._ask(Call.CONSUMED, reason=reason)
        self._controller_url = answer.controller_url
        return answer

    def ask_start(self) -> Status:
        """Ask whether the segment may be committed."""
        return self._ask(Call.COMMIT_START).status

    def tell_stopped(self, reason: str) -> Status:
        """Tell the controller that this replica consumes no longer."""
        return self._ask(Call.STOPPED_CONSUMING, reason=reason).status

    def build(self, lease_s: float | None, kept: "Callable[[], DocIds | None]") -> str | None:
        """Build the segment in the place of one that was built before; return why it cannot be, None where it was.

        lease_s: after this long the controller is asked for more time. kept: gives the rows that it has, None for all.
        """
        self.discard()
        resources, counts, clock = self._resources, self._counts, self._resources.clock
        begun_s = clock.monotonic_s()
        out = resources.folder / self._table / f"build-{resources.ids.new()}"
        try:
            with lease(lease_s, self._extend), resources.permits.taken():
                building_s = clock.monotonic_s()
                folder = self._rows.seal(out, kept(), durable=False)
        except (GamayError, OSError, MemoryError) as error:
            shutil.rmtree(out, ignore_errors=True)
            counts.build_failures += 1
            reason = f"the segment cannot be built: {error}"
            self._note_error(reason, permanent=True)
            return reason
        size = sum(path.stat().st_size for path in folder.iterdir())
        counts.build_s = clock.monotonic_s() - building_s
        took_ms = round(counts.build_s * 1000)
        built = self._build = Build(folder, self._rows.num_docs, size, took_ms, round((building_s - begun_s) * 1000))
        now_ms = clock.now_ms()
        self._owner.note_build(
            self._table, BuiltSegment(self._segment, built.num_rows, size, took_ms, built.wait_ms, now_ms)
        )
        self._history.record(self._rows.sizing(), now_ms)
        return None

    def upload(self) -> str | None:
        """Return where the segment is: in the deep store, or, where its table allows that, nowhere but on its servers."""
        location = self._upload_directly()
        if location is None:
            answer = self._send_archive(Call.UPLOAD)
            location = answer.segment_location if answer.status is Status.UPLOAD_SUCCESS else None
        self._counts.upload_failures += location is None
        if location is None and self._has_peers:
            self._note_error(
                "the segment cannot be brought to the deep store; its servers are its copies for now", permanent=False
            )
            fsync_tree(self.folder)  # elsewhere the copy in the deep store outlives a crash of the machine
            location = f"{PEER_SCHEME}///{self._segment}"
        return location

    def end(self, location: str) -> Status:
        """Commit the segment, which is at this location."""
        return self._ask(Call.COMMIT_END_WITH_METADATA, file=self.folder / "metadata.json", location=location).status

    def send_whole(self) -> Status:
        """Commit the segment by one message that has all of it."""
        return self._send_archive(Call.COMMIT).status

    def discard(self) -> None:
        """Remove what was built, where there is something."""
        built, self._build = self._build, None
        if built is not None:
            shutil.rmtree(built.folder.parent, ignore_errors=True)

    @property
    def _built(self) -> Build:
        if self._build is None:
            raise RuntimeError(f"no segment was built for {self._segment}")
        return self._build

    def _extend(self, seconds: int) -> Status:
        return self._ask(Call.EXTEND_BUILD_TIME, extra_time_s=seconds).status

    def _upload_directly(self) -> str | None:
        store = self._resources.deep_store
        if store is None or not self._is_direct:
            return None
        try:
            return store.put(self._archive(), self._table, self._segment, read_metadata(self.folder).crc)
        except OSError as error:
            self._note_error(f"the deep store does not take the segment: {error}", permanent=False)
            return None

    def _archive(self) -> Path:
        archive = self.folder.parent / f"{self._segment}.tar.zst"
        if not archive.exists():
            pack(self.folder, archive, ZSTD_LEVEL_QUICK)  # the partition waits
        return archive

    def _send_archive(self, call: Call) -> CompletionResponse:
        url = self._controller_url if call is Call.UPLOAD else None
        return self._ask(call, file=self._archive(), controller_url=url)

    def _ask(
        self, call: Call, *, reason: str = "", location: str = "", extra_time_s: int = 0, file: Path | None = None,
        controller_url: str | None = None,
    ) -> CompletionResponse:  # fmt: skip
        stopped = self._machine.stop_reason
        request = CompletionRequest(
            instance=self._resources.server,
            segment=self._segment,
            offset=str(self._machine.offset),
            reason=reason or ("" if stopped is None else stopped.value),
            row_count=self._rows.num_docs,
            extra_time_s=extra_time_s,
            location=location,
        )
        built = self._build
        if built is not None:
            request = replace(
                request, segment_size_bytes=built.size_bytes, build_time_ms=built.build_ms, wait_time_ms=built.wait_ms
            )
        answer = self._resources.completion.ask(call, request, file, controller_url)
        self._counts.answers[answer.status] += 1
        return answer
