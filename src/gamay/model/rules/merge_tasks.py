"""Rules for the tasks that merge segments."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gamay.base.errors import InvalidConfigError, nearest
from gamay.model.merge_task_settings import (
    MergeForm,
    MergeRollupSettings,
    RealtimeToOfflineSettings,
)
from gamay.model.rules.subject import TableRule, TableSubject
from gamay.model.schema.schema import Schema
from gamay.model.table.merging import MergeFunction, MergeType
from gamay.model.table.sections import TaskConfig
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType
from gamay.model.task_settings import MERGE_ROLLUP, REALTIME_TO_OFFLINE
from gamay.model.types import FieldRole


def _merge_rollup(subject: TableSubject) -> Iterator[str]:
    config = subject.config
    given = config.task.task_types.get(MERGE_ROLLUP) if config.task else None
    if given is None:
        return
    if config.replaces_all:
        yield f"{MERGE_ROLLUP} is for tables that segments are appended to, not for those that a push replaces (REFRESH)"
    if config.has_keys:
        yield f"{MERGE_ROLLUP} is not for tables with upsertConfig or dedupConfig; UpsertCompactMergeTask merges theirs"
    try:
        settings = MergeRollupSettings.of(given)
    except InvalidConfigError as error:
        yield str(error)
        return
    for level in settings.levels:
        yield from _form(subject, level.form, MERGE_ROLLUP, f"{level.name}.")


def _realtime_to_offline(subject: TableSubject) -> Iterator[str]:
    config = subject.config
    given = config.task.task_types.get(REALTIME_TO_OFFLINE) if config.task else None
    if given is None:
        return
    if config.table_type is not TableType.REALTIME:
        yield f"{REALTIME_TO_OFFLINE} is set in the REALTIME table of a name that has an OFFLINE table, too"
    if config.active_upsert is not None:
        yield f"{REALTIME_TO_OFFLINE} is not for tables with upsertConfig: moved rows could no longer be replaced"
    try:
        settings = RealtimeToOfflineSettings.of(given)
    except InvalidConfigError as error:
        yield str(error)
        return
    yield from _form(subject, settings.form, REALTIME_TO_OFFLINE, "")


def _form(subject: TableSubject, form: MergeForm, task_type: str, prefix: str) -> Iterator[str]:
    """Yield the problems of the form that rows are merged to."""
    schema, where = subject.schema, f"task.taskTypeConfigsMap.{task_type}"
    if subject.config.time_column is None:
        yield f"{task_type} needs segmentsConfig.timeColumnName: it works on time buckets"
    dimensions = [spec.name for spec in schema.stored_fields if spec.role is FieldRole.DIMENSION]
    for name in form.erased:
        if name not in dimensions:
            yield f"{where}.{prefix}eraseDimensionValues: '{name}' is not a dimension.{nearest(name, dimensions)}"
    yield from _metrics(schema, form, where)


def _metrics(schema: Schema, form: MergeForm, where: str) -> Iterator[str]:
    metrics = {spec.name: spec for spec in schema.stored_fields if spec.role is FieldRole.METRIC}
    for name in form.metrics:
        if name not in metrics:
            yield f"{where}.{name}.aggregationType: '{name}' is not a metric of the schema.{nearest(name, metrics)}"
    if form.merge_type is not MergeType.ROLLUP:
        return
    for name, spec in metrics.items():
        how = form.metrics.get(name)
        function = MergeFunction.SUM if how is None else how.function
        if not function.takes(spec.data_type):
            fitting = ", ".join(one.value for one in MergeFunction if one.takes(spec.data_type))
            yield (
                f"{where}.{name}.aggregationType is {function.value}, which does not suit {spec.data_type.value}: use "
                f"one of {fitting}"
            )


MERGE_TASK_RULES: tuple[TableRule, ...] = (_merge_rollup, _realtime_to_offline)


def check_merge_task(config: TableConfig, schema: Schema, task_type: str, given: Mapping[str, str]) -> None:
    """Raise InvalidConfigError if a table must not have a merge task with these settings, regardless of its config."""
    subject = TableSubject(replace(config, task=TaskConfig({task_type: given})), schema)
    for problem in (problem for rule in MERGE_TASK_RULES for problem in rule(subject)):
        raise InvalidConfigError(problem)
