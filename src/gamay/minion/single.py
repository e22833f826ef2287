"""Subtasks of one segment each: it is stored anew, or stamped alone, unless it has changed since the subtask was made."""

from collections.abc import Callable, Mapping

from gamay.base.errors import GamayError
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
    stamps_unchanged: bool = True,
) -> str:
    """Have the segment of a subtask changed and pushed, with entries for its record, and say what came of it.

    work: how. told: what is said of what was built. stamps_unchanged: push also what is as it was, for its entries.
    Raises as the work and as `TaskContext.upload`.
    """
    name, crc = task.config["segmentName"], int(task.config["crc"])
    record = task.record(name)
    if record is None:
        return f"segment {name} is gone"
    if record.crc != crc:
        return f"segment {name} has CRC {record.crc} now, not {crc}: it is left alone"
    schema, config = task.documents()
    stored = StoredSegment(
        task.table, name, crc, record.tier, schema, config, task.access.controller_url(), task.access.auth_token
    )  # fmt: skip
    try:
        built = task.builder(work(stored), task.folder, task.progress)
    except OtherCopyError as error:
        return f"{error}, not {crc}: it is left alone"
    if not built.is_changed and not stamps_unchanged:
        return told(built)
    return replace_segment(task, built, custom, told(built))


def replace_segment(task: TaskContext, built: Rebuilt, custom: Mapping[str, str], told: str) -> str:
    """Push a segment in place of the one that the subtask knows, and return what is said then, or why it was not.

    Raises as `TaskContext.upload`.
    """
    try:
        task.upload(built, custom, if_match=int(task.config["crc"]), refresh_only=True)
    except GamayError as error:
        if error.http_status in (_PRECONDITION_FAILED, _GONE):
            return f"segment {task.config['segmentName']} was replaced or deleted meanwhile: it is left alone"
        raise
    return told
