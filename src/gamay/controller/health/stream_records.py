"""Reconstruction of a consumed segment's record: from its fields, its copy, its servers and its neighbours."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import COMMITTING, CONSUMING, DONE, IN_PROGRESS, SegmentRecord
from gamay.cluster.records.registry import Registry
from gamay.controller.context import ControllerContext
from gamay.controller.health.salvage import UndecidedError, document_of, number, texts
from gamay.controller.realtime.context import is_pauseless, realtime_context
from gamay.controller.realtime.ideal_steps import latest_segments
from gamay.controller.realtime.lifecycle import SegmentLifecycle

_FIRST = " (if that record is damaged, too, repair it first)"
_OFFSETS = {
    "start_offset": "segment.realtime.startOffset",
    "end_offset": "segment.realtime.endOffset",
    "lost_offsets": "gamay.segment.lost.offsets",
    "stop_reason": "gamay.segment.stop.reason",
    "tier": "segment.tier",
    "crypter": "segment.crypter",
}
_NUMBERS = {
    "creation_time_ms": "segment.creation.time",
    "push_time_ms": "segment.push.time",
    "refresh_time_ms": "segment.refresh.time",
    "num_replicas": "segment.realtime.numReplicas",
    "flush_threshold_rows": "segment.flush.threshold.size",
    "end_decided_ms": "gamay.segment.end.time",
    "abandoned_ms": "gamay.segment.abandoned.time",
}


@dataclass(frozen=True, slots=True)
class _Left:
    """The remains of a record. fields: its simple fields with string values; custom: its custom map."""

    name: LlcName
    fields: Mapping[str, str]
    custom: Mapping[str, str]

    @classmethod
    def of(cls, name: str, value: bytes) -> "_Left":
        document = document_of(value)
        fields = texts(document.get("simpleFields"))
        maps = document.get("mapFields")
        custom = texts(maps.get("custom.map")) if isinstance(maps, dict) else {}
        return cls(LlcName.must_parse(name), fields, custom or texts(_json(fields.get("custom.map"))))

    def place(self, before: SegmentRecord | None, after: SegmentRecord | None) -> dict[str, Any]:
        """Return the fields that no copy has; missing offsets are taken from the adjacent segments."""
        found: dict[str, Any] = {field: self.fields.get(key, "") for field, key in _OFFSETS.items()}
        found |= {field: number(self.fields.get(key)) for field, key in _NUMBERS.items()}
        if not found["start_offset"] and before is not None:
            found["start_offset"] = before.end_offset
        if not found["end_offset"] and after is not None:
            found["end_offset"] = after.lost_offsets.partition(",")[0] or after.start_offset
        if found["end_decided_ms"] < 0 and after is not None:  # the time in the next segment's name
            found["end_decided_ms"] = LlcName.must_parse(after.name).created_ms
        return {**found, "custom": self.custom}

    @property
    def status(self) -> str:
        return self.fields.get("segment.realtime.status", "")


@dataclass(frozen=True, slots=True)
class StreamRecords:
    """Builder of such records. copies: records of the intact copies of a segment in the deep store, newest first."""

    context: ControllerContext
    copies: Callable[[str, str], Sequence[SegmentRecord]]

    def anew(self, table: str, name: str, value: bytes, states: Mapping[str, str]) -> SegmentRecord:
        """Return the record. value: the damaged record; states: instance -> state of the segment. Raises
        UndecidedError."""
        left = _Left.of(name, value)
        before, after = self._neighbours(table, left.name)
        place = left.place(before, after)
        if not states:
            raise UndecidedError("the segment is assigned to no server, so it is unknown whether it is consumed or complete")
        if not place["start_offset"]:
            raise UndecidedError(f"its start offset is neither in it nor in the preceding segment{_FIRST}")
        is_complete = CONSUMING not in states.values() or after is not None or left.status == DONE
        if is_complete and not place["end_offset"]:
            raise UndecidedError(f"its end offset is neither in it nor in the following segment{_FIRST}")
        if not is_complete:
            return self._consumed(table, left, place, states)
        place["num_replicas"] = len(states) if place["num_replicas"] < 0 else place["num_replicas"]
        copy = self._copy(table, name, left)
        if copy is not None:
            kept = {field: value for field, value in place.items() if value not in ("", -1)}
            return copy.with_changes(**{"push_time_ms": self.context.clock.now_ms(), **kept, "status": DONE})
        return self._without_copy(table, left, place, states)

    def _consumed(self, table: str, left: _Left, place: Mapping[str, Any], states: Mapping[str, str]) -> SegmentRecord:
        registry = self.context.registry
        realtime = realtime_context(self.context, registry)
        partitions = latest_segments(registry.must_get_ideal_state(table)).keys() | {left.name.partition}
        lifecycle, config = SegmentLifecycle(realtime), realtime.config_of(table)
        new = lifecycle.new_record(config, left.name, place["start_offset"], len(states), partitions)
        new = new.with_changes(**{field: value for field, value in place.items() if value not in ("", -1)})
        if left.status != COMMITTING or not place["end_offset"]:
            return new.with_changes(status=IN_PROGRESS, end_offset="", end_decided_ms=-1)
        decided_ms = place["end_decided_ms"] if place["end_decided_ms"] >= 0 else self.context.clock.now_ms()
        return new.with_changes(status=COMMITTING, end_decided_ms=decided_ms)

    def _without_copy(self, table: str, left: _Left, place: dict[str, Any], states: Mapping[str, str]) -> SegmentRecord:
        """Return the record of a segment that only servers have: of a pauseless table, or because no copy could be
        stored."""
        crc, rows = number(left.fields.get("segment.crc")), number(left.fields.get("segment.total.docs"))
        if left.status == DONE and crc >= 0 and rows >= 0 and not left.fields.get("segment.download.url"):
            return SegmentRecord(str(left.name), crc, rows, **{**place, "status": DONE})
        pauseless = is_pauseless(realtime_context(self.context, self.context.registry).config_of(table))
        if pauseless and left.status != DONE:
            fields = {**left.fields, "segment.realtime.status": COMMITTING}
            return self._consumed(table, _Left(left.name, fields, left.custom), place, states)
        raise UndecidedError(
            "the deep store has no intact copy of it, or several copies and no record of which one was committed"
        )

    def _copy(self, table: str, name: str, left: _Left) -> SegmentRecord | None:
        """Return the record of the committed copy: the one that the damaged record names, or the only one."""
        copies = self.copies(table, name)
        url, crc = left.fields.get("segment.download.url"), number(left.fields.get("segment.crc"))
        named = [copy for copy in copies if copy.download_url == url] or [copy for copy in copies if copy.crc == crc]
        found = named or copies
        return found[0] if len(found) == 1 else None

    def _neighbours(self, table: str, name: LlcName) -> tuple[SegmentRecord | None, SegmentRecord | None]:
        """Return the records of the preceding and the following sequence number, each None unless there is exactly
        one."""
        registry: Registry = self.context.registry
        beside: dict[int, list[str]] = {-1: [], 1: []}
        for other in registry.segment_names(table):
            parsed = LlcName.parse(other)
            if parsed is not None and parsed.partition == name.partition and parsed.sequence - name.sequence in beside:
                beside[parsed.sequence - name.sequence].append(other)
        found = {by: list(registry.readable_segments(table, names)[0].values()) for by, names in beside.items()}
        before, after = (one[0] if len(one) == 1 else None for one in (found[-1], found[1]))
        return before, after


def _json(text: str | None) -> Any:
    try:
        return orjson.loads(text or "{}")
    except ValueError:
        return {}
