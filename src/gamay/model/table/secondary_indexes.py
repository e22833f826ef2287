"""The secondary indexes that a table config declares, in its older and its newer form.

A secondary index is derived from the columns of a segment and stored beside them (`gamay.segment.secondary`). Indexes
among a column's own buffers, such as the inverted and the range index and the bloom filter, are handled by
`column_index`.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gamay.base.errors import InvalidConfigError
from gamay.model.index.indexing import FieldConfig, H3Config, IndexingConfig
from gamay.model.index.json_index import JsonIndexConfig, json_index_config, of_properties, written
from gamay.model.index.kinds import COMPOUND_INVERTED, KINDS_OF_TABLES, SECONDARY_TYPES
from gamay.model.index.vector_index import VectorConfig
from gamay.model.parse import read_document
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.table.text_index import build_settings, text_indexes

SECONDARY_KINDS = tuple(SECONDARY_TYPES)
"""The kinds that are built, spelled as in `fieldConfigList.indexes`, EXPLAIN and the option `skipIndexes`."""

# kinds whose settings have a validated form, below
_OF_OWN_FORM = ("text", "json", "h3", "vector", *KINDS_OF_TABLES)
_WITHOUT_SETTINGS = ("fst", "ifst")
H3_PROPERTIES = ("resolutions", "latitudeColumn")


@dataclass(frozen=True)
class IndexDeclaration:
    """A secondary index that a table declares. settings: those of its kind that its files depend on, as JSON types."""

    kind: str
    columns: tuple[str, ...]
    settings: Mapping[str, Any]


def declared_indexes(config: TableConfig, schema: Schema) -> tuple[IndexDeclaration, ...]:
    """Return the secondary indexes of a table: in the order of the schema, then text and compound inverted indexes.

    Invalid ones in stored configs are skipped.
    """
    of_columns = (
        declaration
        for spec in schema.stored_fields
        for declaration in _of_column(config.indexing, config.field_config(spec.name), spec.name)
    )
    texts = (IndexDeclaration("text", tuple(columns), build_settings(columns)) for columns in text_indexes(config))
    compounds = (IndexDeclaration(COMPOUND_INVERTED, one.columns, {}) for one in config.indexing.compound_inverted_indexes)
    return (*of_columns, *texts, *compounds)


def _of_column(indexing: IndexingConfig, declared: FieldConfig | None, column: str) -> Iterator[IndexDeclaration]:
    for kind in SECONDARY_KINDS:
        if kind not in _OF_OWN_FORM and declared is not None and is_declared(declared, kind):
            yield IndexDeclaration(kind, (column,), _plain_settings(declared, kind))
    with suppress(InvalidConfigError):
        if (json_config := json_index(indexing, declared, column)) is not None:
            yield IndexDeclaration("json", (column,), written(json_config))
    with suppress(InvalidConfigError):
        if declared is not None and is_declared(declared, "h3"):
            h3 = h3_config(declared)
            columns = (column,) if h3.latitude_column is None else (column, h3.latitude_column)
            yield IndexDeclaration("h3", columns, {"resolutions": list(h3.resolutions)})
    with suppress(InvalidConfigError):
        if (vector := vector_config(declared)) is not None:
            yield IndexDeclaration("vector", (column,), vector.settings())


def _plain_settings(declared: FieldConfig, kind: str) -> Mapping[str, Any]:
    """Return the settings of a kind without its own form: as declared, for `build` to validate."""
    if kind in _WITHOUT_SETTINGS:
        return {}
    settings = declared.indexes.get(kind)
    return {} if settings is None else {name: value for name, value in settings.items() if name != "disabled"}


def is_declared(declared: FieldConfig, kind: str) -> bool:
    """Whether a column has an index, in the older or the newer form."""
    settings = declared.indexes.get(kind)
    if settings is None:
        return kind.upper() in declared.all_index_types
    return not (settings.get("disabled") if isinstance(settings, Mapping) else settings.disabled)


def h3_config(declared: FieldConfig) -> H3Config:
    """Return the settings of a column's H3 index, in either form; raises InvalidConfigError for invalid properties."""
    if declared.indexes.h3 is not None:
        return declared.indexes.h3
    given = {name: text for name, text in declared.properties.items() if name in H3_PROPERTIES}
    return read_document(H3Config, given, f"the H3 index of '{declared.name}'").value


def json_index(indexing: IndexingConfig, declared: FieldConfig | None, column: str) -> JsonIndexConfig | None:
    """Return the settings of a column's JSON index, wherever they are declared; None without the index.

    Raises InvalidConfigError for invalid `properties`.
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


def vector_config(declared: FieldConfig | None) -> VectorConfig | None:
    """Return the vector index of a column, in either form; None without one. Raises InvalidConfigError."""
    if declared is None or not is_declared(declared, "vector"):
        return None
    return declared.indexes.vector or VectorConfig.of_properties(declared.properties)
