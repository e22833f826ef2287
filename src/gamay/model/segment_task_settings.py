"""The settings of `PurgeTask` and `ConvertToRawIndexTask`, parsed and validated."""

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from gamay.base.errors import InvalidConfigError
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.task_settings import CONVERT_TO_RAW, PURGE, TaskSettings
from gamay.model.types import FieldRole


@dataclass(frozen=True, slots=True)
class PurgeSettings:
    """`PurgeTask`. threshold_ms: a segment that was purged within this time is skipped.

    column: determines the rows to be removed from all segments: those whose values are `values`, or the lines of a file.
    None if purgers decide.
    """

    threshold_ms: int
    column: str | None
    values: tuple[str, ...]
    values_uri: str | None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "PurgeSettings":
        """Parse the settings. Raises InvalidConfigError."""
        settings = TaskSettings(PURGE, given)
        column, uri = settings.given.get("purgeColumn"), settings.given.get("purgeValuesURI")
        where = f"task.taskTypeConfigsMap.{PURGE}"
        if column is None and (uri or "purgeValues" in settings.given):
            raise InvalidConfigError(f"{where} needs purgeColumn: the column that has the values of the rows to be removed")
        if column is not None and (uri is None) == ("purgeValues" not in settings.given):
            raise InvalidConfigError(
                f"{where}.purgeColumn needs either purgeValues, by commas or as a JSON list, or purgeValuesURI, a file with "
                "one value a line"
            )
        values = _values(settings.given.get("purgeValues", ""))
        return cls(settings.period_ms("lastPurgeTimeThresholdPeriod", "14d"), column, values, uri)


def _values(text: str) -> tuple[str, ...]:
    if not text.lstrip().startswith("["):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidConfigError(f"task.taskTypeConfigsMap.{PURGE}.purgeValues is no JSON list: {error}") from None
    if not all(isinstance(value, str | int | float) for value in found):
        raise InvalidConfigError(f"task.taskTypeConfigsMap.{PURGE}.purgeValues must be a list of texts and numbers")
    return tuple(str(value).lower() if isinstance(value, bool) else str(value) for value in found)


def columns_to_convert(given: Mapping[str, str], config: TableConfig, schema: Schema) -> tuple[str, ...]:
    """Return the columns that `ConvertToRawIndexTask` stores without dictionary: those named, else all metrics.

    Raises InvalidConfigError for a column with a dictionary in the table config: servers would build it again.
    """
    where = f"task.taskTypeConfigsMap.{CONVERT_TO_RAW}.columnsToConvert"
    named = [name.strip() for name in given.get("columnsToConvert", "").split(",") if name.strip()]
    for name in named:
        if name not in schema:
            raise InvalidConfigError(f"{where} names the column '{name}', which the schema does not have")
        if config.column_index(schema, name).dictionary:
            raise InvalidConfigError(
                f"{where} names the column '{name}', for which servers would build a dictionary again: add it to "
                "tableIndexConfig.noDictionaryColumns"
            )
    metrics = (spec.name for spec in schema.stored_fields if spec.role is FieldRole.METRIC)
    found = tuple(named or (name for name in metrics if not config.column_index(schema, name).dictionary))
    if not found:
        raise InvalidConfigError(
            f"{where}: no metric is stored without dictionary; add columns to tableIndexConfig.noDictionaryColumns"
        )
    return found
