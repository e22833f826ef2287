"""`UpsertCompactMergeTask`: merges the valid rows of several segments into one.

Its name was determined when the task was created, so a later attempt finds a segment pushed by an earlier one. That one
stays: its rows are no longer valid in the inputs, and a segment built now would lack them.
"""

from pyroaring import BitMap

from gamay.minion.context import TaskContext
from gamay.minion.rebuild import Input, OtherCopyError
from gamay.minion.valid_docs import valid_rows

_KIND = "SNAPSHOT"


def run(task: TaskContext) -> str:
    """Execute the subtask; if an input has changed since it was created, only report that."""
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
        return "no row of the segments is valid: the next task generation deletes them"
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
    """Return a sentence about an input that has changed since the task was created, or None."""
    for name, crc in zip(names, crcs, strict=True):
        record = task.record(name)
        if record is None or record.crc != crc:
            now = "gone" if record is None else f"another one, with CRC {record.crc}"
            return f"segment {name} is {now}: nothing is merged"
    return None
