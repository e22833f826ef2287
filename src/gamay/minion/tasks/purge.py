"""`PurgeTask`: removes rows from a segment.

With purgers, the segment is stamped, so that it is purged again after a while. A list of values is a single request,
which fails rather than skip a segment.
"""

from gamay.minion.context import TaskContext
from gamay.minion.purge import Purge
from gamay.minion.single import change_segment
from gamay.minion.work import Rebuilt
from gamay.model.task_settings import PURGE


def run(task: TaskContext) -> str:
    """Execute the subtask; a segment in which nothing changes is only stamped."""
    name, by_values = task.config["segmentName"], "purgeColumn" in task.config

    def told(built: Rebuilt) -> str:
        if not built.is_changed:
            return f"segment {name} has no row to purge or change"
        return f"segment {name} has {built.rows} rows, {built.rows_before - built.rows} fewer than before"

    custom = {} if by_values else {f"{PURGE}.time": str(task.clock.now_ms())}
    return change_segment(
        task,
        lambda stored: Purge(stored, task.config, task.factories, task.access.storage),
        custom,
        told,
        is_request=by_values,
    )
