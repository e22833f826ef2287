"""What `tableIndexConfig` and `fieldConfigList` may say without effect: sentences for whoever stores such a config."""

from collections.abc import Iterator

from gamay.model.column_index import forward_disabled, has_inverted
from gamay.model.indexing import FieldConfig
from gamay.model.table_config import TableConfig


def unused_index_settings(config: TableConfig) -> Iterator[str]:
    """Yield a sentence for each setting of indexes and segments that has no effect, with the key that it stands under."""
    for declared in config.field_configs:
        yield from _unused_of_column(config, declared)


def _unused_of_column(config: TableConfig, declared: FieldConfig) -> Iterator[str]:
    where = f"fieldConfigList of column '{declared.name}'"
    if forward_disabled(declared) and not has_inverted(config.indexing, declared, declared.name):
        yield (
            f"{where}: forwardIndexDisabled needs an inverted index, which then holds the rows; without one the forward "
            "index is kept"
        )
