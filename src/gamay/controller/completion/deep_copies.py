"""Repair of segments without a copy in the deep store, from a server that has them.

The copy is missing if the committer of a pauseless table died between deciding the end and uploading, or if a server
could not reach the deep store and committed without it (peer download).
"""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass

from gamay.base.errors import GamayError, NotFoundError
from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import COMMITTING, DONE, ONLINE, SegmentRecord
from gamay.controller.realtime.context import RealtimeContext
from gamay.controller.realtime.lifecycle import CommitRefusedError, Committed, SegmentLifecycle

_log = logging.getLogger(__name__)

# (table, segment, server) -> the record of the verified copy that was brought from the server to the deep store
Fetch = Callable[[str, str, str], SegmentRecord]


@dataclass(frozen=True, slots=True)
class DeepCopyRepair:
    """Repair of such segments. fetch: raises GamayError or OSError if the server does not have the segment."""

    context: RealtimeContext
    fetch: Fetch

    def repair(self, table: str, guard_ms: int) -> tuple[list[str], list[str]]:
        """Return the segments that got a copy and those that still have none. guard_ms: skip segments whose end was
        decided less than this ago. Raises NotFoundError if the table does not exist."""
        return self._repair(table, None, lambda record, age_ms: _lacks_copy(record) and age_ms >= guard_ms)

    def store(
        self, table: str, guard_ms: int, chosen: Collection[str] | None, *, force: bool
    ) -> tuple[list[str], list[str]]:
        """Store copies on an operator's request; return what `repair` does.

        guard_ms: applies to segments not committed yet. chosen: only these. force: also those that have a copy. Raises
        NotFoundError for a segment that does not exist.
        """

        def is_due(record: SegmentRecord, age_ms: int) -> bool:
            if record.status == COMMITTING:  # its server may be about to upload it
                return age_ms >= guard_ms
            return _lacks_copy(record) or (force and record.status == DONE)

        return self._repair(table, chosen, is_due)

    def _repair(
        self, table: str, chosen: Collection[str] | None, is_due: Callable[[SegmentRecord, int], bool]
    ) -> tuple[list[str], list[str]]:
        registry, now_ms = self.context.registry, self.context.clock.now_ms()
        ideal = registry.must_get_ideal_state(table)
        repaired: list[str] = []
        left: list[str] = []
        names = sorted(name for name in ideal.states if LlcName.parse(name) is not None)
        if chosen is not None:
            if missing := sorted(set(chosen) - set(names)):
                raise NotFoundError(f"Segment {', '.join(missing)} not found in table {table}")
            names = sorted(chosen)
        for segment, record in registry.get_segments(table, names).items():
            if not is_due(record, now_ms - record.end_decided_ms):
                continue
            servers = sorted(server for server, state in ideal.states[segment].items() if state == ONLINE)
            done = any(self._copy(table, record, server) for server in servers)
            (repaired if done else left).append(segment)
        if left:
            _log.error("table %s: no server has a usable copy of %s for the deep store", table, ", ".join(left))
        return repaired, left

    def _copy(self, table: str, record: SegmentRecord, server: str) -> bool:
        try:
            built = self.fetch(table, record.name, server)
            if record.status == COMMITTING:
                committed = Committed(record.end_offset, built.total_docs, built.size_bytes)
                SegmentLifecycle(self.context).complete(table, built, committed)
                return True
            return self._add_url(table, record.name, built)
        except CommitRefusedError as error:
            _log.info("segment %s got a copy from elsewhere meanwhile: %s", record.name, error)
            return True
        except (GamayError, OSError) as error:
            _log.warning("segment %s cannot be copied from %s: %s", record.name, server, error)
            return False

    def _add_url(self, table: str, segment: str, built: SegmentRecord) -> bool:
        same: list[bool] = []

        def add(record: SegmentRecord | None) -> SegmentRecord | None:
            same[:] = [record is not None and record.crc == built.crc]
            if record is None or record.crc != built.crc or record.download_url:
                return record
            return record.with_changes(download_url=built.download_url, size_bytes=built.size_bytes)

        self.context.registry.update_segment(table, segment, add)
        return same[0]


def _lacks_copy(record: SegmentRecord) -> bool:
    return record.status == COMMITTING or (record.status == DONE and not record.download_url)
