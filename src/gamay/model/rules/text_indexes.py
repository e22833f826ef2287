"""Rules for text indexes only: settings that must be valid, and indexes of several columns."""

from collections.abc import Iterator

from gamay.base.errors import nearest
from gamay.model.rules.subject import TableRule, TableSubject, complaint, duplicates, missing_column
from gamay.model.table.text_index import TEXT_KEYS, shared_text_config, text_config
from gamay.model.types import DataType

_WHERE = "tableIndexConfig.multiColumnTextIndexConfig"


def _properties(subject: TableSubject) -> Iterator[str]:
    for declared in subject.config.field_configs:
        yield from complaint(lambda declared=declared: text_config(declared), "fieldConfigList")  # type: ignore[misc]


def _of_several(subject: TableSubject) -> Iterator[str]:
    shared = subject.config.indexing.multi_column_text_index
    if shared is None:
        return
    if not shared.columns:
        yield f"{_WHERE} has no columns; name those whose texts are searched"
    for column in duplicates(shared.columns):
        yield f"{_WHERE} has the column '{column}' more than once"
    for column in dict.fromkeys(shared.columns):
        missing = missing_column(subject.schema, column, _WHERE)
        if missing is not None:
            yield missing
            continue
        data_type = subject.schema.field(column).data_type
        if data_type not in (DataType.STRING, DataType.JSON):
            yield f"{_WHERE} names '{column}' of type {data_type.value}; a text index needs STRING or JSON"
        declared = subject.config.field_config(column)
        if declared is not None and (declared.indexes.text is not None or "TEXT" in declared.all_index_types):
            yield f"the text index of '{column}' is declared twice: in fieldConfigList and in {_WHERE}; keep one"
        yield from complaint(lambda column=column: shared_text_config(shared, column), "tableIndexConfig")  # type: ignore[misc]
    for column in shared.per_column_properties.keys() - set(shared.columns):
        yield f"{_WHERE} has perColumnProperties of '{column}', which is not among its columns"
    for given in (shared.properties, *shared.per_column_properties.values()):
        for name in given.keys() - TEXT_KEYS:
            yield f"{_WHERE} has the property {name}, which is unknown to a text index.{nearest(name, sorted(TEXT_KEYS))}"


TEXT_INDEX_RULES: tuple[TableRule, ...] = (_properties, _of_several)
