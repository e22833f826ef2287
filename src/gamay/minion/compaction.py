"""`UpsertCompactionTask`: a segment without the rows that do not count any more.

It keeps its name and its creation time, so that ties with rows of other segments are decided as before. NumPy does it, not
Spark: the rows of one segment are chosen by a bitmap that a server has, which takes less than to start an executor.
"""

from gamay.base.errors import GamayError
from gamay.minion.context import TaskContext
from gamay.minion.valid_docs import valid_rows
from gamay.segment.kept_rows import KeptRows, write_kept

_PRECONDITION_FAILED = 412
_GONE = 410


def compact(task: TaskContext) -> str:
    """Do the subtask; what has changed since it was made is left alone, and said."""
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
        return f"no row of segment {name} counts: it is deleted when tasks are made next"
    segment = task.fetch(name)
    if segment.info.crc != crc and not ignore_crc:
        return f"the stored segment {name} has CRC {segment.info.crc}, not {crc}: it is left alone"
    table_config, schema = task.table_config()
    task.progress.step(f"building segment {name} with {len(rows)} of {segment.num_docs} rows")
    kept = KeptRows.of(segment, rows)
    folder = write_kept([kept], schema, table_config, name, task.folder / "out", segment.info.creation_time_ms)
    before = segment.num_docs
    segment.close()
    custom = {f"{task.leased.job.task_type}.time": str(task.clock.now_ms())}
    try:
        task.upload(folder, custom, if_match=crc, refresh_only=True)
    except GamayError as error:
        if error.http_status in (_PRECONDITION_FAILED, _GONE):
            return f"segment {name} was replaced or deleted meanwhile: it is left alone"
        raise
    return f"segment {name} has {len(rows)} rows, {before - len(rows)} fewer than before"
