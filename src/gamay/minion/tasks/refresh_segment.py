"""`RefreshSegmentTask`: rebuilds a segment by the table's current schema and config, so that servers need not convert
it."""

from gamay.minion.context import TaskContext
from gamay.minion.rewrite import Refresh
from gamay.minion.single import change_segment
from gamay.minion.work import Rebuilt
from gamay.model.task_settings import REFRESH_SEGMENT


def run(task: TaskContext) -> str:
    """Execute the subtask; a segment that is as it should be is only stamped."""
    # read before schema and config, so that a concurrent change is not missed
    name, stamp_ms = task.config["segmentName"], task.access.registry.definition_changed_ms(task.table)

    def told(built: Rebuilt) -> str:
        return f"segment {name} is rebuilt" if built.is_changed else f"segment {name} matches schema and config"

    return change_segment(task, Refresh, {f"{REFRESH_SEGMENT}.time": str(stamp_ms)}, told)
