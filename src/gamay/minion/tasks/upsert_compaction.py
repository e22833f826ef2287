"""`UpsertCompactionTask`: removes invalid rows from a segment.

It keeps its name and its creation time, so that ties with rows of other segments are resolved as before.
"""

from gamay.minion.context import TaskContext
from gamay.minion.rebuild import Input, OtherCopyError
from gamay.minion.single import SegmentChangedError, replace_segment
from gamay.minion.valid_docs import valid_rows


def run(task: TaskContext) -> str:
    """Execute the subtask; a segment that has changed since it was created is only reported."""
    config, name = task.config, task.config["segmentName"]
    crc = int(config["crc"])
    record = task.record(name)
    if record is None:
        return f"segment {name} is gone"
    if record.crc != crc:
        return f"segment {name} has CRC {record.crc} now, not {crc}: it is left alone"
    ignore_crc = config.get("ignoreCrcMismatch") == "true"
    kind, mode = config.get("validDocIdsType", "SNAPSHOT"), config.get("validDocIdsConsensusMode", "EQUAL")
    rows = valid_rows(task, name, crc, kind, mode, ignore_crc=ignore_crc)
    if not rows:
        return f"no row of segment {name} is valid: the next task generation deletes it"
    try:
        built = task.rebuild([Input(name, rows.serialize(), None if ignore_crc else crc)], name)
    except OtherCopyError as error:
        return f"{error}, not {crc}: it is left alone"
    custom = {f"{task.leased.job.task_type}.time": str(task.clock.now_ms())}
    try:
        replace_segment(task, built, custom, crc)
    except SegmentChangedError as error:
        return f"{error}: it is left alone"
    return f"segment {name} has {built.rows} rows, {built.rows_before - built.rows} fewer than before"
