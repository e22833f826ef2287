"""`UpsertCompactMergeTask`: the valid rows of several segments, in one new segment.

Its name was decided when the task was made, so whoever does it again finds what the first one may have pushed. That stays:
the rows it has are valid no more in the inputs, and a segment made of these now would lack them.
"""

from pyroaring import BitMap

from gamay.minion.context import TaskContext
from gamay.minion.rebuild import Input, OtherCopyError
from gamay.minion.valid_docs import valid_rows

_KIND = "SNAPSHOT"


def run(task: TaskContext) -> str:
    """Do the subtask; when an input has changed since it was made, nothing is done, and said."""
    config = task.config
    names, crcs = config["segmentName"].split(","), [int(crc) for crc in config["crc"].split(",")]
    output = config["outputSegmentName"]
    if output in task.access.registry.must_get_ideal_state(task.table).states:
        return f"segment {output} was pushed by an earlier attempt"
    ignore_crc = config.get("ignoreCrcMismatch") == "true"
    if changed := _changed(task, names, crcs):
        return changed
    mode = config.get("validDocIdsConsensusMode", "EQUAL")
    rows: dict[str, BitMap] = {}
    for name, crc in zip(names, crcs, strict=True):
        rows[name] = valid_rows(task, name, crc, _KIND, mode, ignore_crc=ignore_crc)
    known = dict(zip(names, crcs, strict=True))
    inputs = [Input(name, docs.serialize(), None if ignore_crc else known[name]) for name, docs in rows.items() if docs]
    if not inputs:
        return "no row of the segments is valid: they are deleted when tasks are made next"
    try:
        built = task.rebuild(inputs, output, int(config["creationTime"]))
    except OtherCopyError as error:
        return f"{error}, not {known[error.segment]}: nothing is merged"
    if changed := _changed(task, names, crcs):
        return changed
    task_type = task.leased.job.task_type
    task.upload(built, {f"{task_type}.mergedSegments": ",".join(names), f"{task_type}.time": str(task.clock.now_ms())})
    return f"segment {output} has {built.rows} rows of {len(names)} segments"


def _changed(task: TaskContext, names: list[str], crcs: list[int]) -> str | None:
    """Return which input is not what it was when the task was made."""
    for name, crc in zip(names, crcs, strict=True):
        record = task.record(name)
        if record is None or record.crc != crc:
            now = "gone" if record is None else f"another one, with CRC {record.crc}"
            return f"segment {name} is {now}: nothing is merged"
    return None
