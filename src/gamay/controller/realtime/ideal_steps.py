"""Changes of a table's ideal state while its segments are consumed and completed. Pure functions.

Each step is idempotent, also when two controllers apply it. With compare-and-set around the steps, any controller can
finish an interrupted completion at any time.

No step makes two segments of a partition consume at once. A record written by an older controller or by hand can have
such a state: then no segment starts to consume until the earlier one has been committed or released. Such a record
can still be read, because it has to be repaired.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import CONSUMING, OFFLINE, ONLINE, Assignment

_PAUSE_STATE = "pauseState"
_OLD_PAUSE_FLAG = "isTablePaused"
_KEYS_MOVED = "gamay.keys.moved.ms"

ADMINISTRATIVE = "ADMINISTRATIVE"
STORAGE_QUOTA_EXCEEDED = "STORAGE_QUOTA_EXCEEDED"
RESOURCE_LIMIT_EXCEEDED = "RESOURCE_UTILIZATION_LIMIT_EXCEEDED"

KEYS_MOVED = (
    "the topic has got more partitions since the table was created, so rows of one key may be in two partitions, which are "
    "not deduplicated against each other"
)


@dataclass(frozen=True, slots=True)
class PauseState:
    """The pause state of a table. at_ms: the time of its last change. inactive_topics: indexes of the paused topics."""

    paused: bool = False
    reason: str | None = None
    comment: str | None = None
    at_ms: int = 0
    inactive_topics: tuple[int, ...] = ()

    def pauses(self, name: LlcName) -> bool:
        """Whether the partition of a segment is paused."""
        return self.paused or name.topic_index in self.inactive_topics


def pause_state(ideal: Assignment) -> PauseState:
    """Return the pause state in an ideal state."""
    text = ideal.simple.get(_PAUSE_STATE)
    if text is None:
        return PauseState(paused=ideal.simple.get(_OLD_PAUSE_FLAG) == "true")
    document: dict[str, Any] = orjson.loads(text)
    return PauseState(
        bool(document.get("paused")),
        document.get("reasonCode"),
        document.get("comment"),
        int(document.get("timeInMillis") or 0),
        tuple(document.get("indexOfInactiveTopics") or ()),
    )


def with_pause_state(ideal: Assignment, state: PauseState) -> Assignment:
    """Return the ideal state with another pause state."""
    document = {
        "paused": state.paused,
        "reasonCode": state.reason,
        "comment": state.comment,
        "timeInMillis": state.at_ms,
        "indexOfInactiveTopics": list(state.inactive_topics),
    }
    simple = {key: value for key, value in ideal.simple.items() if key != _OLD_PAUSE_FLAG}
    return replace(ideal, simple={**simple, _PAUSE_STATE: orjson.dumps(document).decode()})


def consuming_segments(ideal: Assignment) -> dict[str, tuple[str, ...]]:
    """Return the segments that are CONSUMING on some server -> these servers."""
    found = {
        segment: tuple(sorted(server for server, state in states.items() if state == CONSUMING))
        for segment, states in ideal.states.items()
    }
    return {segment: servers for segment, servers in sorted(found.items()) if servers}


def is_online(states: Mapping[str, str]) -> bool:
    """Whether a segment is ONLINE on all its servers. states: instance -> state."""
    return set(states.values()) == {ONLINE}


def latest_segments(ideal: Assignment) -> dict[int, LlcName]:
    """Return the segment with the highest sequence of each partition."""
    latest: dict[int, LlcName] = {}
    for segment in ideal.states:
        name = LlcName.parse(segment)
        if name is not None and (name.partition not in latest or latest[name.partition].sequence < name.sequence):
            latest[name.partition] = name
    return latest


def consumed_segment(ideal: Assignment, partition: int) -> LlcName | None:
    """Return the earliest segment of a partition that is CONSUMING on some server, or None."""
    names = (name for segment in consuming_segments(ideal) if (name := LlcName.parse(segment)) is not None)
    return min((name for name in names if name.partition == partition), key=lambda name: name.sequence, default=None)


def may_be_followed(ideal: Assignment, done: LlcName) -> bool:
    """Whether a segment is the latest of its partition, and no other segment of the partition is CONSUMING."""
    return latest_segments(ideal)[done.partition] == done and consumed_segment(ideal, done.partition) in (None, done)


def advanced(ideal: Assignment, done: LlcName, successor: LlcName | None, servers: Sequence[str]) -> Assignment:
    """Return the ideal state in which a segment whose end is decided is ONLINE, and its successor consumes on `servers`.

    Nothing changes if the segment is ONLINE everywhere: it was advanced already. No successor is added if it is None,
    or if the partition is paused, has a later segment, or has another consuming segment.
    """
    states = ideal.states.get(str(done))
    if states is None or is_online(states):
        return ideal
    # replicas that had stopped consuming download the segment
    completed = ideal.with_segments({str(done): dict.fromkeys(states, ONLINE)})
    if successor is None or not servers or pause_state(ideal).pauses(done) or not may_be_followed(ideal, done):
        return completed
    return completed.with_segments({str(successor): dict.fromkeys(sorted(servers), CONSUMING)})


def continued(ideal: Assignment, last: LlcName | None, successor: LlcName, servers: Sequence[str]) -> Assignment:
    """Return the ideal state in which an idle partition continues with `successor` on `servers`.

    last: the latest segment of the partition at the time of the decision, or None. Nothing changes if it is no longer the
    latest, or if the partition is consumed or paused.
    """
    latest = latest_segments(ideal).get(successor.partition)
    if latest != last or pause_state(ideal).pauses(successor):
        return ideal
    if consumed_segment(ideal, successor.partition) is not None:
        return ideal
    return ideal.with_segments({str(successor): dict.fromkeys(sorted(servers), CONSUMING)})


def with_keys_moved(ideal: Assignment, now_ms: int) -> Assignment:
    """Return the ideal state of a table with primary keys, marked as having got partitions at `now_ms`."""
    return replace(ideal, simple={**ideal.simple, _KEYS_MOVED: str(now_ms)})


def has_moved_keys(ideal: Assignment) -> bool:
    """Whether there are still segments from before the topic of a table with primary keys got more partitions."""
    moved_ms = int(ideal.simple.get(_KEYS_MOVED, "-1"))
    names = (LlcName.parse(segment) for segment in ideal.states)
    return any(name is not None and name.created_ms <= moved_ms for name in names)


def replaced(ideal: Assignment, last: LlcName, successor: LlcName) -> Assignment:
    """Return the ideal state in which the servers that consume a segment consume `successor` instead.

    Nothing changes if no server consumes it, or it is no longer the latest of its partition.
    """
    states = ideal.states.get(str(last), {})
    servers = sorted(server for server, state in states.items() if state == CONSUMING)
    if not servers or latest_segments(ideal)[last.partition] != last:
        return ideal
    return ideal.with_segments(
        {str(last): dict.fromkeys(states, OFFLINE), str(successor): dict.fromkeys(servers, CONSUMING)}
    )


def let_go(ideal: Assignment, segment: LlcName) -> Assignment:
    """Return the ideal state in which a segment that a later one of its partition replaced is OFFLINE on all servers.

    Nothing changes if no server consumes it, or it is the latest of its partition.
    """
    states = ideal.states.get(str(segment), {})
    if CONSUMING not in states.values() or latest_segments(ideal)[segment.partition].sequence <= segment.sequence:
        return ideal
    return ideal.with_segments({str(segment): dict.fromkeys(states, OFFLINE)})


def marked_offline(ideal: Assignment, segment: str, server: str, *, is_committing: bool = False) -> Assignment:
    """Return the ideal state in which a server no longer consumes a segment; nothing changes if it does not consume it.

    is_committing: the segment's end is decided, but it is not stored yet (pauseless tables). Then a server on which it is
    ONLINE consumes it as well, since there is nothing to download yet.
    """
    states = ideal.states.get(segment, {})
    if states.get(server) != CONSUMING and not (is_committing and states.get(server) == ONLINE):
        return ideal
    return ideal.with_segments({segment: {**states, server: OFFLINE}})


def revived(ideal: Assignment, segment: str) -> Assignment:
    """Return the ideal state in which all replicas of a segment consume, if at least one does."""
    states = ideal.states.get(segment)
    if states is None or CONSUMING not in states.values() or OFFLINE not in states.values():
        return ideal
    return ideal.with_segments({segment: {s: CONSUMING if state == OFFLINE else state for s, state in states.items()}})
