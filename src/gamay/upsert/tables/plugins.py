"""Users' classes in `upsertConfig` and `dedupConfig`: loading and validation."""

from typing import TypeVar

from gamay.base.errors import InvalidConfigError
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.upsert.config.settings import DedupSettings, UpsertSettings
from gamay.upsert.rows.merging import Merger, load_class
from gamay.upsert.tables.dedup import TableDedup
from gamay.upsert.tables.table import TableUpsert

T = TypeVar("T")


def upsert_manager(path: str) -> type[TableUpsert]:
    """Return the class that `upsertConfig.metadataManagerClass` names, Gamay's own for "". Raises InvalidConfigError."""
    return _manager(path, TableUpsert, "upsert")


def dedup_manager(path: str) -> type[TableDedup]:
    """Return the class that `dedupConfig.metadataManagerClass` names, Gamay's own for "". Raises InvalidConfigError."""
    return _manager(path, TableDedup, "dedup")


def check_classes(config: TableConfig, schema: Schema) -> None:
    """Raise InvalidConfigError unless every class in the config of a table with primary keys can be loaded and is
    suitable."""
    upsert, dedup = UpsertSettings.of(config, schema), DedupSettings.of(config, schema)
    if upsert is not None:
        upsert_manager(upsert.manager)
    if upsert is not None and upsert.is_partial:
        Merger(schema, upsert.config, [spec.name for spec in upsert.comparison.fields], None).open()
    if dedup is not None:
        dedup_manager(dedup.manager)


def _manager(path: str, base: "type[T]", section: str) -> "type[T]":
    if not path:
        return base
    found = load_class(path, "metadataManagerClass", section)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise InvalidConfigError(
            f"{section}Config.metadataManagerClass is '{path}', which is no subclass of {base.__module__}.{base.__name__}"
        )
    return found
