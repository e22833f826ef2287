"""`ConvertToRawIndexTask`: removes the dictionaries of a segment's columns."""

from gamay.minion.context import TaskContext
from gamay.minion.rewrite import ConvertToRaw
from gamay.minion.single import change_segment
from gamay.minion.work import Rebuilt
from gamay.model.task_settings import CONVERT_TO_RAW


def run(task: TaskContext) -> str:
    """Execute the subtask; a segment without such dictionaries is only stamped."""
    name, columns = task.config["segmentName"], tuple(task.config["columnsToConvert"].split(","))

    def told(built: Rebuilt) -> str:
        named = ", ".join(columns)
        return f"segment {name} has {'now ' if built.is_changed else ''}no dictionary of {named}"

    custom = {f"{CONVERT_TO_RAW}.time": str(task.clock.now_ms()), f"{CONVERT_TO_RAW}.columns": ",".join(columns)}
    return change_segment(task, lambda stored: ConvertToRaw(stored, columns), custom, told)
