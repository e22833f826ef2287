"""Merging of servers' reports into external views. Pure functions."""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from gamay.cluster.records.records import CONSUMING, ERROR, OFFLINE, ONLINE, Assignment


class SegmentStatus(Enum):
    """How a segment's external view compares to its ideal state."""

    GOOD = "GOOD"
    BAD = "BAD"
    UPDATING = "UPDATING"


def fold(resource: str, reports: Mapping[str, Mapping[str, str]]) -> Assignment:
    """Return the external view. reports: live instance -> segment -> state."""
    states: dict[str, dict[str, str]] = {}
    for instance, report in sorted(reports.items()):
        for segment, state in report.items():
            states.setdefault(segment, {})[instance] = state
    return Assignment(resource, states)


def segment_status(ideal: Mapping[str, str], actual: Mapping[str, str] | None) -> SegmentStatus:
    """Compare a segment's states, instance -> state: BAD with any error, GOOD if all states are as they should be."""
    actual = actual or {}
    if ERROR in actual.values():
        return SegmentStatus.BAD
    if all(actual.get(instance, OFFLINE) == state for instance, state in ideal.items()):
        return SegmentStatus.GOOD
    return SegmentStatus.UPDATING


def servers_of(segment: str, ideal: Assignment, view: Assignment | None, excluded: Iterable[str] = ()) -> Sequence[str]:
    """Return the instances that can answer for a segment: ready in both ideal state and external view, ascending."""
    actual = {} if view is None else view.states.get(segment, {})
    without = frozenset(excluded)
    ready = (ONLINE, CONSUMING)
    return sorted(
        instance
        for instance, state in ideal.states.get(segment, {}).items()
        if state in ready and actual.get(instance) in ready and instance not in without
    )
