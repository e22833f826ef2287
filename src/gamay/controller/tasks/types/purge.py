"""`PurgeTask`: removes rows from segments, selected by purgers on minions or by a list of values."""

from collections.abc import Mapping, Sequence

from gamay.base.errors import InvalidConfigError
from gamay.cluster.records.records import SegmentRecord
from gamay.controller.tasks.spi import GeneratorInput, TaskPlan, segment_config
from gamay.model.segment_task_settings import PurgeSettings
from gamay.model.task_settings import PURGE, TaskSettings, known_task_keys
from gamay.query.layout.chosen_rows import values_of_texts

_STAMP = f"{PURGE}.time"


class PurgeGenerator:
    """Generator of a subtask for each segment whose last purge is old enough; segments without rows are deleted."""

    task_type = PURGE
    keys = known_task_keys(PURGE)
    max_tasks = 0

    def plan(self, wanted: GeneratorInput) -> TaskPlan:
        """Return segments by their last purge: those never purged first, then the oldest."""
        settings = PurgeSettings.of(wanted.given)
        told = _told(wanted, settings)
        busy = {subtask["segmentName"] for subtask in wanted.working}
        latest_ms = wanted.clock.now_ms() - settings.threshold_ms
        records = wanted.completed_segments()
        deleted = [record.name for record in records if record.total_docs == 0]
        filled = [record for record in records if record.total_docs]
        if settings.column is not None:
            _check_all(wanted, filled)
            return TaskPlan([{**segment_config(wanted.table, record), **told} for record in filled], deleted)
        chosen = [r for r in filled if r.download_url and r.name not in busy and _stamp(r) <= latest_ms]
        chosen.sort(key=lambda record: (_stamp(record), record.name))
        return TaskPlan([{**segment_config(wanted.table, record), **told} for record in chosen], deleted)


def _check_all(wanted: GeneratorInput, records: Sequence[SegmentRecord]) -> None:
    """Raise InvalidConfigError unless rows can be deleted from all segments: a request must not be executed partially."""
    if away := [record.name for record in records if not record.download_url]:
        raise InvalidConfigError(
            f"{len(away)} segments of {wanted.table} have no copy in the deep store yet, {away[0]} among them; try again "
            "once they have"
        )
    most = TaskSettings(PURGE, wanted.given).whole("tableMaxNumTasks", 0)
    if 0 < most < len(records):
        raise InvalidConfigError(
            f"tableMaxNumTasks is {most}, and rows are to be deleted from {len(records)} segments; give tableMaxNumTasks 0"
        )


def _stamp(record: SegmentRecord) -> int:
    text = record.custom.get(_STAMP, "")
    return int(text) if text.isascii() and text.isdecimal() else 0


def _told(wanted: GeneratorInput, settings: PurgeSettings) -> Mapping[str, str]:
    """Return the settings of subtasks for the list of values. Raises InvalidConfigError for an invalid list."""
    if settings.column is None:
        return {}
    schema = wanted.schema()
    if settings.column not in schema:
        raise InvalidConfigError(f"purgeColumn names the column '{settings.column}', which the schema does not have")
    if settings.values_uri is None:
        values_of_texts(schema.field(settings.column), settings.values)
        return {"purgeColumn": settings.column, "purgeValues": wanted.given["purgeValues"]}
    opened = wanted.fetchers.check_key("purgeValuesURI", settings.values_uri)
    return {"purgeColumn": settings.column, "purgeValuesURI": settings.values_uri, "openedURI": opened}


GENERATOR = PurgeGenerator()
