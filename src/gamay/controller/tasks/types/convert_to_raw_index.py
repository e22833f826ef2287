"""`ConvertToRawIndexTask`: segments drop the dictionaries of columns that the table config stores without one."""

from gamay.controller.tasks.spi import GeneratorInput, TaskPlan, segment_config
from gamay.model.segment_task_settings import columns_to_convert
from gamay.model.task_settings import CONVERT_TO_RAW, known_task_keys

_COLUMNS = f"{CONVERT_TO_RAW}.columns"


class ConvertToRawIndexGenerator:
    """Generator of a subtask for each segment whose columns were not converted yet."""

    task_type = CONVERT_TO_RAW
    keys = known_task_keys(CONVERT_TO_RAW)
    max_tasks = 0

    def plan(self, wanted: GeneratorInput) -> TaskPlan:
        """Return the segments by name."""
        columns = columns_to_convert(wanted.given, wanted.config, wanted.schema())
        busy = {subtask["segmentName"] for subtask in wanted.working}
        chosen = [
            record
            for record in wanted.completed_segments()
            if record.download_url
            and record.name not in busy
            and not set(columns) <= set(record.custom.get(_COLUMNS, "").split(","))
        ]
        told = {"columnsToConvert": ",".join(columns)}
        return TaskPlan([{**segment_config(wanted.table, record), **told} for record in chosen])


GENERATOR = ConvertToRawIndexGenerator()
