"""`RefreshSegmentTask`: a segment as the table's schema and config have it now, so that servers need not change it."""

from gamay.minion.context import TaskContext
from gamay.minion.rewrite import Refresh
from gamay.minion.single import change_segment
from gamay.minion.work import Rebuilt
from gamay.model.task_settings import REFRESH_SEGMENT


def run(task: TaskContext) -> str:
    """Do the subtask; a segment that is as it should be is stamped alone."""
    # asked before schema and config are read, so that a change meanwhile is not missed
    name, stamp_ms = task.config["segmentName"], task.access.registry.definition_changed_ms(task.table)

    def told(built: Rebuilt) -> str:
        return f"segment {name} is stored anew" if built.is_changed else f"segment {name} is as schema and config say"

    return change_segment(task, Refresh, {f"{REFRESH_SEGMENT}.time": str(stamp_ms)}, told)
