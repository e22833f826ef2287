"""Subtasks on one segment: it is rewritten, or only stamped, unless it has changed since the subtask was created."""

from collections.abc import Callable, Mapping

from gamay.base.errors import ConflictError, GamayError
from gamay.cluster.records.records import LineageState
from gamay.minion.context import TaskContext
from gamay.minion.rebuild import OtherCopyError
from gamay.minion.rewrite import StoredSegment
from gamay.minion.work import Rebuilt, Work

_PRECONDITION_FAILED = 412
_GONE = 410


def change_segment(
    task: TaskContext,
    work: Callable[[StoredSegment], Work],
    custom: Mapping[str, str],
    told: Callable[[Rebuilt], str],
    *,
    is_request: bool = False,
) -> str:
    """Change and push the segment of a subtask, with entries for its record; return a sentence about the result.

    work: creates the work. told: returns the sentence about a built segment. is_request: a user relies on the result,
    whatever the segment was when the subtask was created: an unchanged segment is not pushed just for its entries, and
    SegmentChangedError is raised for one that is replaced meanwhile. Raises as the work and `TaskContext.upload`.
    """
    try:
        said = _change(task, work, custom, told, is_request=is_request)
        if is_request:
            _check_not_replaced(task)
        return said
    except SegmentChangedError as error:
        if is_request:
            raise
        return f"{error}: it is left alone"


class SegmentChangedError(ConflictError):
    """A segment that was replaced or deleted since its subtask was created."""


def _change(
    task: TaskContext,
    work: Callable[[StoredSegment], Work],
    custom: Mapping[str, str],
    told: Callable[[Rebuilt], str],
    *,
    is_request: bool,
) -> str:
    name = task.config["segmentName"]
    record = task.record(name)
    if record is None:
        raise SegmentChangedError(f"segment {name} is gone")
    crc = record.crc if is_request else int(task.config["crc"])
    if record.crc != crc:
        raise SegmentChangedError(f"segment {name} has CRC {record.crc} now, not {crc}")
    schema, config = task.documents()
    stored = StoredSegment(
        task.table, name, crc, record.tier, schema, config, task.access.controller_url(), task.access.auth_token
    )  # fmt: skip
    try:
        built = task.builder(work(stored), task.folder, task.progress)
    except OtherCopyError as error:
        raise SegmentChangedError(f"{error}, not {crc}") from error
    if built.is_changed or not is_request:
        replace_segment(task, built, custom, crc)
    return told(built)


def _check_not_replaced(task: TaskContext) -> None:
    """Raise SegmentChangedError if other segments replace this one, or are about to."""
    name = task.config["segmentName"]
    for entry in task.access.registry.get_lineage(task.table).entries.values():
        if name in entry.segments_from and entry.state is not LineageState.REVERTED:
            raise SegmentChangedError(f"segment {name} is replaced by {', '.join(entry.segments_to[:3])}")


def replace_segment(task: TaskContext, built: Rebuilt, custom: Mapping[str, str], crc: int) -> None:
    """Replace the segment with a given CRC.

    Raises SegmentChangedError if it was replaced or deleted meanwhile, and as `TaskContext.upload`.
    """
    try:
        task.upload(built, custom, if_match=crc, refresh_only=True)
    except GamayError as error:
        if error.http_status in (_PRECONDITION_FAILED, _GONE):
            raise SegmentChangedError(f"segment {task.config['segmentName']} was replaced or deleted meanwhile") from error
        raise
