"""Which secondary indexes a table config declares, in its older and its newer form.

A secondary index is derived from the columns of a segment and lies beside them (`gamay.segment.secondary`). What is among a
column's own buffers, such as the inverted and the range index and the bloom filter, is folded by `column_index`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gamay.model.indexing import FieldConfig, IndexingConfig
from gamay.model.json_index import JsonIndexConfig, json_index_config, of_properties, written
from gamay.model.schema import Schema
from gamay.model.table_config import TableConfig

SECONDARY_KINDS = ("fst", "ifst", "json")
"""The kinds that are built, as `fieldConfigList.indexes` spells them; `gamay.segment.secondary.registry` has their types."""


@dataclass(frozen=True)
class IndexDeclaration:
    """A secondary index that a table wants. settings: those of its kind, as they are declared, of JSON types only."""

    kind: str
    columns: tuple[str, ...]
    settings: Mapping[str, Any]


def declared_indexes(config: TableConfig, schema: Schema) -> tuple[IndexDeclaration, ...]:
    """Return the secondary indexes of a table's columns, in the order of the schema, for the kinds that are built."""
    return tuple(
        IndexDeclaration(kind, (spec.name,), settings)
        for spec in schema.stored_fields
        for kind, settings in _of_column(config.indexing, config.field_config(spec.name), spec.name)
        if kind in SECONDARY_KINDS
    )


def _of_column(
    indexing: IndexingConfig, declared: FieldConfig | None, column: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for kind in SECONDARY_KINDS:
        settings = index_settings(declared, kind)
        if kind == "json":
            config = json_index(indexing, declared, column)
            settings = None if config is None else written(config)
        if settings is not None:
            yield kind, settings


def index_settings(declared: FieldConfig | None, kind: str) -> Mapping[str, Any] | None:
    """Return the settings of a column's index, from `indexes` or the older `properties`; None without the index."""
    if declared is None:
        return None
    settings = getattr(declared.indexes, kind)
    if isinstance(settings, JsonIndexConfig):
        settings = written(settings)
    if settings is not None:
        return None if settings.get("disabled") else settings
    return declared.properties if kind.upper() in declared.all_index_types else None


def json_index(indexing: IndexingConfig, declared: FieldConfig | None, column: str) -> JsonIndexConfig | None:
    """Return the settings of a column's JSON index, wherever they are declared; None without the index.

    Raises InvalidConfigError for `properties` that are no such settings.
    """
    own = None if declared is None else declared.indexes.json
    if own is None:
        if declared is not None and "JSON" in declared.all_index_types:
            own = json_index_config(of_properties(declared.properties))
        elif column in indexing.json_index_configs:
            own = indexing.json_index_configs[column]
        elif column in indexing.json_index_columns:
            own = JsonIndexConfig()
    return None if own is None or own.disabled else own
