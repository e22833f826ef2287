"""Invariants of records, as named predicates that are checked at each read and write.

A predicate returns None if it holds, and otherwise a description of the violation. A record that violates one is a defect
of its writer: rejecting the write keeps the rest of the cluster from acting on it.
"""

import re
from collections.abc import Callable
from typing import TypeVar

from gamay.base.errors import GamayError
from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import (
    COMMITTING,
    IN_PROGRESS,
    SEGMENT_STATES,
    SEGMENT_STATUSES,
    Assignment,
    Instance,
    Lineage,
    LineageState,
    SegmentRecord,
)

_ILLEGAL_IN_NAMES = re.compile(r'[\\/:*?"<>|\x00]')
_CONTROL = re.compile(r"[\x00-\x1f]")
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}")  # matches nearly all names, as a fast path
NAME_BYTES_MAX = 200

Record = TypeVar("Record", SegmentRecord, Assignment, Instance, Lineage)
Predicate = Callable[[Record], str | None]


class InvariantError(GamayError):
    """A record that violates an invariant."""


def name_problem(name: str) -> str | None:
    """Return why a text cannot name a table, schema or segment, or None.

    Names become file names and store paths, so characters that are illegal in either are ruled out.
    """
    if _PLAIN.fullmatch(name):
        return None
    if not name or name in (".", ".."):
        return f"'{name}' is not a name"
    if illegal := sorted(set(_ILLEGAL_IN_NAMES.findall(name))):
        return f"'{name}' contains {' '.join(repr(c) for c in illegal)}, which no name may contain"
    if _CONTROL.search(name) or name != name.strip():
        return f"'{name}' contains control characters, or begins or ends with blanks"
    if len(name.encode()) > NAME_BYTES_MAX:
        return f"the name '{name[:40]}…' has more than {NAME_BYTES_MAX} bytes"
    return None


def segment_is_named(record: SegmentRecord) -> str | None:
    return name_problem(record.name)


def segment_status_is_known(record: SegmentRecord) -> str | None:
    return None if record.status in SEGMENT_STATUSES else f"status '{record.status}' is unknown"


def complete_segment_can_be_verified(record: SegmentRecord) -> str | None:
    """Check that a complete segment has a CRC, with which servers verify their downloads."""
    if record.complete and (record.crc < 0 or record.total_docs < 0):
        return f"a complete segment needs a CRC and a number of docs, not {record.crc} and {record.total_docs}"
    return None


def uploaded_segment_has_a_home(record: SegmentRecord) -> str | None:
    return "an uploaded segment needs a download URL" if record.status == "UPLOADED" and not record.download_url else None


def consuming_segment_has_a_place_in_its_stream(record: SegmentRecord) -> str | None:
    """Check that a consuming segment has a partition and a start offset, and a committing one an end offset."""
    if record.status not in (IN_PROGRESS, COMMITTING):
        return None
    if LlcName.parse(record.name) is None or not record.start_offset:
        return f"a segment with status {record.status} needs a name table__partition__sequence__time and a start offset"
    return (
        None if record.status == IN_PROGRESS or record.end_offset else "a segment with status COMMITTING needs an end offset"
    )


def segment_time_range_is_ordered(record: SegmentRecord) -> str | None:
    if record.total_docs != 0 and record.start_time_ms > record.end_time_ms != -1:
        return f"start time {record.start_time_ms} is after end time {record.end_time_ms}"
    return None


def assigned_states_are_known(record: Assignment) -> str | None:
    for segment, states in record.states.items():
        if not states:
            return f"segment '{segment}' is assigned to no instance"
        if not SEGMENT_STATES.issuperset(states.values()):
            unknown = set(states.values()) - SEGMENT_STATES
            return f"segment '{segment}' has the unknown states {sorted(unknown)}"
    return None


def assigned_segments_are_named(record: Assignment) -> str | None:
    return next((problem for segment in record.states if (problem := name_problem(segment))), None)


def instance_id_names_a_role(record: Instance) -> str | None:
    try:
        return None if record.role else "no role"
    except ValueError:
        return f"'{record.id}' does not begin with Controller_, Broker_, Server_ or Minion_"


def instance_can_be_reached(record: Instance) -> str | None:
    return None if record.host and -1 <= record.port < 65536 else f"'{record.host}', port {record.port} is no address"


def lineage_sides_are_disjoint(record: Lineage) -> str | None:
    for entry in record.entries.values():
        if both := set(entry.segments_from) & set(entry.segments_to):
            return f"entry {entry.id} replaces {sorted(both)} by themselves"
    return None


def lineage_in_progress_does_not_overlap(record: Lineage) -> str | None:
    """Check that no segment is in two open replacements, since its visibility would depend on which of them ends
    first."""
    seen: dict[str, str] = {}
    for entry in record.entries.values():
        if entry.state is not LineageState.IN_PROGRESS:
            continue
        for name in (*entry.segments_from, *entry.segments_to):
            if name in seen:
                return f"segment '{name}' is in the unfinished entries {seen[name]} and {entry.id}"
            seen[name] = entry.id
    return None


SEGMENT: tuple[Predicate[SegmentRecord], ...] = (
    segment_is_named,
    segment_status_is_known,
    complete_segment_can_be_verified,
    uploaded_segment_has_a_home,
    consuming_segment_has_a_place_in_its_stream,
    segment_time_range_is_ordered,
)
ASSIGNMENT: tuple[Predicate[Assignment], ...] = (assigned_segments_are_named, assigned_states_are_known)
INSTANCE: tuple[Predicate[Instance], ...] = (instance_id_names_a_role, instance_can_be_reached)
LINEAGE: tuple[Predicate[Lineage], ...] = (lineage_sides_are_disjoint, lineage_in_progress_does_not_overlap)


def check(record: Record, predicates: tuple[Predicate[Record], ...]) -> Record:
    """Return the record, or raise InvariantError that names the violated predicate."""
    for predicate in predicates:
        if problem := predicate(record):
            raise InvariantError(f"{type(record).__name__} breaks '{predicate.__name__}': {problem}")
    return record
