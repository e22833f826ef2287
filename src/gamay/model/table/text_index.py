"""Text indexes as a table config declares them: of one column, older and newer form, and of several columns at once."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from gamay.base.errors import InvalidConfigError
from gamay.model.index.indexing import FieldConfig, MultiColumnTextConfig, TextConfig
from gamay.model.parse import keys_of, read_document
from gamay.model.table.table_config import TableConfig

TEXT_KEYS = frozenset(name for key in keys_of(TextConfig).values() for name in (key.name, *key.aliases))
"""How the settings of a text index are spelled, in all forms."""


def text_config(declared: FieldConfig | None) -> TextConfig | None:
    """Return the text index of a column alone; None without one. Raises InvalidConfigError for invalid properties."""
    if declared is None:
        return None
    if declared.indexes.text is not None:
        return None if declared.indexes.text.disabled else declared.indexes.text
    if "TEXT" not in declared.all_index_types:
        return None
    return of_properties(declared.properties, f"the properties of column '{declared.name}'")


def shared_text_config(shared: MultiColumnTextConfig, column: str) -> TextConfig:
    """Return the settings that an index of several columns has for one of them. Raises as `text_config`."""
    given = {**shared.properties, **shared.per_column_properties.get(column, {})}
    return of_properties(given, f"multiColumnTextIndexConfig of column '{column}'")


def of_properties(properties: Mapping[str, Any], what: str) -> TextConfig:
    """Read the settings of a text index among properties, where others may be."""
    return read_document(TextConfig, {name: properties[name] for name in properties if name in TEXT_KEYS}, what).value


def text_indexes(config: TableConfig) -> Iterator[Mapping[str, TextConfig]]:
    """Yield each text index of a table: its columns with the settings for each."""
    for declared in config.field_configs:
        with suppress(InvalidConfigError):  # stored without validation
            found = text_config(declared)
            if found is not None:
                yield {declared.name: found}
    shared = config.indexing.multi_column_text_index
    if shared is not None:
        with suppress(InvalidConfigError):
            yield {column: shared_text_config(shared, column) for column in shared.columns}


def build_settings(columns: Mapping[str, TextConfig]) -> Mapping[str, Any]:
    """Return the settings that the files of an index depend on; the others decide how queries are interpreted."""
    kept = [column for column, config in columns.items() if config.case_sensitive]
    return {"caseSensitive": kept} if kept else {}
