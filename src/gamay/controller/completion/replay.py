"""Replay of dead letters: they are written to their streams again, so that the table consumes them as new messages.

A message is sent first and then recorded on the servers: a failure in between leaves a sent message unrecorded, so that
another replay sends it twice. Messages of uncommitted segments are not sent, since a server that consumes the segment
again also reads the first copy, which may be a valid row by then.
"""

import base64
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from gamay.base.errors import ConflictError, GamayError
from gamay.cluster.records.llc_name import LlcName, Place
from gamay.cluster.records.records import Assignment, SegmentRecord
from gamay.controller.completion.consuming_info import ask_servers
from gamay.controller.context import Servers
from gamay.controller.realtime.context import RealtimeContext
from gamay.controller.realtime.streams import TableStreams

REPLAYED_AT_ONCE = 10_000

_UNKNOWN = "no server that answers has a dead letter with this partition and offset"
_Entry: TypeAlias = Mapping[str, Any]


def merged(answers: Iterable[Iterable[_Entry]]) -> dict[Place, _Entry]:
    """Return the dead letters of several servers by place; replicas report the same messages.

    Of two entries a replayable one is kept, and it counts as replayed if either does.
    """
    found: dict[Place, _Entry] = {}
    for entry in (entry for entries in answers for entry in entries):
        place = entry["partition"], entry["offset"]
        other = found.get(place, entry)
        kept = entry if other.get("notReplayable") else other
        found[place] = {**kept, "replayedTo": other.get("replayedTo") or entry.get("replayedTo")}
    return found


@dataclass(slots=True)
class _Outcome:
    """The results of one call, by message."""

    replayed: dict[Place, str] = field(default_factory=dict)
    refused: dict[Place, str] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)


class DeadLetterReplay:
    """Replay of tables' dead letters, one call at a time per table."""

    def __init__(self, context: RealtimeContext, servers: Servers) -> None:
        self._context = context
        self._servers = servers
        self._lock = threading.Lock()
        self._busy: set[str] = set()

    def replay(self, table: str, places: Sequence[Place] | None, *, again: bool = False) -> dict[str, Any]:
        """Replay messages of a typed table, and return the answer for REST.

        places: None for the oldest REPLAYED_AT_ONCE messages that can be replayed and were not yet. again: also those
        that were replayed already. Raises InvalidConfigError if the table's streams cannot be written to, ConflictError
        while another call runs.
        """
        config = self._context.config_of(table)
        ideal = self._context.registry.must_get_ideal_state(table)
        outcome, more = _Outcome(), False
        with self._alone(table), closing(self._context.open_streams(config)) as streams:
            streams.check_sending()
            if places is None:
                places, more = self._waiting(table, ideal, outcome)
            left = dict.fromkeys(places)
            uncommitted = _uncommitted(self._context.registry.segments(table), streams)
            while left:
                entries, known = self._find(table, ideal, list(left), outcome)
                chosen = {}
                for place, entry in entries.items():
                    del left[place]
                    if reason := _refusal(place, entry, uncommitted, again):
                        outcome.refused[place] = reason
                    else:
                        chosen[place] = entry
                sent = _send(streams, chosen, outcome)
                self._tell(table, ideal, known | sent, outcome)
                if not entries:
                    outcome.refused |= dict.fromkeys(left, _UNKNOWN)
                    break
        return _answer(table, outcome, more)

    @contextmanager
    def _alone(self, table: str) -> Iterator[None]:
        with self._lock:
            if table in self._busy:
                raise ConflictError(f"dead letters of {table} are being replayed; try again later")
            self._busy.add(table)
        try:
            yield
        finally:
            with self._lock:
                self._busy.remove(table)

    def _waiting(self, table: str, ideal: Assignment, outcome: _Outcome) -> tuple[list[Place], bool]:
        answers, silent = ask_servers(ideal, lambda server: self._servers.replayable(server, table, REPLAYED_AT_ONCE))
        outcome.silent.update(silent)
        found = list(dict.fromkeys(place for places, _ in answers.values() for place in places))
        more = len(found) > REPLAYED_AT_ONCE or any(is_more for _, is_more in answers.values())
        return found[:REPLAYED_AT_ONCE], more

    def _find(
        self, table: str, ideal: Assignment, places: Sequence[Place], outcome: _Outcome
    ) -> tuple[dict[Place, _Entry], dict[Place, str]]:
        """Return the dead letters at some of the places, and the offsets to which these were replayed."""
        answers, silent = ask_servers(ideal, lambda server: self._servers.find_dead_letters(server, table, places))
        outcome.silent.update(silent)
        known = {place: to for _, replayed in answers.values() for place, to in replayed.items()}
        entries = merged(entries for entries, _ in answers.values())
        # servers limit their answers, and one may return the entry while another one returns the mark
        entries = {place: {**entry, "replayedTo": known.get(place)} for place, entry in entries.items()}
        return entries, {place: to for place, to in known.items() if place in entries}

    def _tell(self, table: str, ideal: Assignment, replayed: Mapping[Place, str], outcome: _Outcome) -> None:
        if replayed:
            _, silent = ask_servers(ideal, lambda server: self._servers.note_replayed(server, table, replayed))
            outcome.silent.update(silent)


def _refusal(place: Place, entry: _Entry, uncommitted: Callable[[Place], str | None], again: bool) -> str | None:
    if entry["notReplayable"]:
        return str(entry["notReplayable"])
    if entry["replayedTo"] == entry["offset"] and not again:
        return "a server consumed it again successfully; again=true replays it regardless"
    if entry["replayedTo"] is not None and not again:
        return f"it was replayed already, to offset {entry['replayedTo']}; again=true replays it again"
    if (segment := uncommitted(place)) is not None:
        return (
            f"segment {segment} is not committed yet, and a server that consumes it again reads this message: "
            "force a commit before the replay"
        )
    return None


def _uncommitted(records: Iterable[SegmentRecord], streams: TableStreams) -> Callable[[Place], str | None]:
    """Return a function from a place to the uncommitted segment that contains it, or to None."""
    by_partition: dict[int, list[SegmentRecord]] = {}
    for record in records:
        name = LlcName.parse(record.name)
        if name is not None and not record.complete:
            by_partition.setdefault(name.partition, []).append(record)

    def find(place: Place) -> str | None:
        partition, offset = place
        for record in by_partition.get(partition, ()):
            at = streams.order(partition, offset)
            if streams.order(partition, record.start_offset) <= at and not (
                record.end_offset and streams.order(partition, record.end_offset) <= at
            ):
                return record.name
        return None

    return find


def _send(streams: TableStreams, chosen: Mapping[Place, _Entry], outcome: _Outcome) -> dict[Place, str]:
    """Write messages to their partitions, in order; return the new offsets of those that were written."""
    sent: dict[Place, str] = {}
    for partition in sorted({partition for partition, _ in chosen}):
        mine = {place: entry for place, entry in chosen.items() if place[0] == partition}
        entries = list(mine.values())
        payloads = pa.array([base64.b64decode(e["payload"]) for e in entries], pa.binary())
        keys = [None if e["key"] is None else base64.b64decode(e["key"]) for e in entries]
        headers = [[(name, base64.b64decode(value)) for name, value in e["headers"] or ()] for e in entries]
        try:
            results = streams.send(
                partition,
                payloads,
                pa.array(keys, pa.binary()) if any(key is not None for key in keys) else None,
                pa.array(headers, pa.map_(pa.string(), pa.binary())) if any(headers) else None,
            )
        except (GamayError, OSError) as error:
            outcome.refused |= dict.fromkeys(mine, str(error))
            continue
        for place, result in zip(mine, results, strict=True):
            if isinstance(result, GamayError):
                outcome.refused[place] = str(result)
            else:
                sent[place] = result
    outcome.replayed |= sent
    return sent


def _answer(table: str, outcome: _Outcome, more: bool) -> dict[str, Any]:
    return {
        "tableName": table,
        "replayed": [{"partition": p, "offset": offset, "replayedTo": to} for (p, offset), to in outcome.replayed.items()],
        "notReplayed": [{"partition": p, "offset": o, "reason": reason} for (p, o), reason in outcome.refused.items()],
        "more": more,
        "serversFailingToRespond": sorted(outcome.silent),
    }
