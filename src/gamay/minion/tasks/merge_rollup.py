"""`MergeRollupTask`: merges the segments of a bucket into few, atomically.

The names of the new segments contain the subtask and the time of the attempt. A later attempt recognises by them what
an earlier one has pushed: it is removed, or, if it is visible, nothing is left to do.
"""

from gamay.minion.context import TaskContext
from gamay.minion.rebuild import OtherCopyError
from gamay.minion.replacing import build_pieces, inputs_of, piece_for, replace_segments, settle_earlier, stamp
from gamay.model.merge_task_settings import MergeRollupSettings


def run(task: TaskContext) -> str:
    """Execute the subtask; if an input has changed since it was created, only report that."""
    config = task.config
    level, names, stem = config["mergeLevel"], config["segmentName"].split(","), config["segmentNamePrefix"]
    if settle_earlier(task, task.table, stem):
        return f"{len(names)} segments were replaced by an earlier attempt"
    form = MergeRollupSettings.form_of(level, config)
    records = inputs_of(task)
    if isinstance(records, str):
        return records
    first_ms = min(record.start_time_ms for record in records) // form.bucket_ms * form.bucket_ms
    last_ms = max(record.end_time_ms for record in records) + 1
    window = first_ms, -(-last_ms // form.bucket_ms) * form.bucket_ms
    whole = piece_for(task, task.table, stem)
    try:
        packed = build_pieces(task, whole, records, form, window)
    except OtherCopyError as error:
        return f"{error}, which is another one: nothing is done"
    rows_before = sum(record.total_docs for record in records)
    if (found := sum(one.rows_before for one in packed)) != rows_before:
        raise RuntimeError(
            f"{found} of the {rows_before} rows of {len(names)} segments are in the new ones: nothing is replaced"
        )
    changed = inputs_of(task)
    if isinstance(changed, str):
        return changed
    replace_segments(task, task.table, names, packed, stamp(task, records, form.round_ms, mergeLevel=level))
    return f"{len(names)} segments with {rows_before} rows became {len(packed)} with {sum(one.rows for one in packed)}"
