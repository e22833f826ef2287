"""The kinds of secondary indexes, and the type of each."""

from collections.abc import Mapping
from importlib.metadata import entry_points

ENTRY_POINT_GROUP = "gamay.index_types"

COMPOUND_INVERTED = "compound_inverted"

_BUILT_IN: Mapping[str, str] = {
    COMPOUND_INVERTED: "gamay.segment.secondary.compound:COMPOUND",
    "fst": "gamay.segment.secondary.fst:FST",
    "ifst": "gamay.segment.secondary.fst:IFST",
    "text": "gamay.segment.secondary.text.index_type:TEXT",
    "json": "gamay.segment.secondary.json_index.index:JSON",
    "h3": "gamay.segment.secondary.h3.index:H3",
    "vector": "gamay.segment.secondary.vector.index_type:VECTOR",
}

KINDS_OF_TABLES = (COMPOUND_INVERTED,)
"""The kinds that only `tableIndexConfig` declares, as they do not belong to a single column."""

INSTALLED_TYPES: Mapping[str, str] = {
    entry.name.lower(): entry.value for entry in entry_points(group=ENTRY_POINT_GROUP) if entry.name.lower() not in _BUILT_IN
}
"""The kinds of other packages."""

SECONDARY_TYPES: Mapping[str, str] = {**_BUILT_IN, **INSTALLED_TYPES}
"""The module and name of the type (`gamay.segment.secondary.spi.IndexType`) of each kind, spelled as in
`fieldConfigList.indexes` except for `KINDS_OF_TABLES`. They are imported when a table first has such an index: some bring
large libraries."""
