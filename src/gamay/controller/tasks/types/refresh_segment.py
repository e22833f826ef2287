"""`RefreshSegmentTask`: rebuilds segments after a change of the table's schema or config."""

from gamay.cluster.records.records import SegmentRecord
from gamay.controller.tasks.spi import GeneratorInput, TaskPlan, segment_config
from gamay.model.task_settings import REFRESH_SEGMENT, known_task_keys

_STAMP = f"{REFRESH_SEGMENT}.time"


class RefreshSegmentGenerator:
    """Generator of a subtask for each segment that was not refreshed since the last change."""

    task_type = REFRESH_SEGMENT
    keys = known_task_keys(REFRESH_SEGMENT)
    max_tasks = 20

    def plan(self, wanted: GeneratorInput) -> TaskPlan:
        """Return the segments whose stamp is older than the schema or config, the oldest first."""
        changed_ms = wanted.registry.definition_changed_ms(wanted.table)
        busy = {subtask["segmentName"] for subtask in wanted.working}
        records = [r for r in wanted.completed_segments() if _stamp(r) < changed_ms and r.name not in busy]
        chosen = sorted((r for r in records if r.download_url), key=lambda record: (_stamp(record), record.name))
        return TaskPlan([segment_config(wanted.table, record) for record in chosen])


def _stamp(record: SegmentRecord) -> int:
    text = record.custom.get(_STAMP, "")
    return int(text) if text.isascii() and text.isdecimal() else 0


GENERATOR = RefreshSegmentGenerator()
