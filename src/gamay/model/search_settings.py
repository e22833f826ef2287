"""What the text and vector index configs of a table's columns say about the meaning of queries.

No such index is built, but TEXT_MATCH and VECTOR_SIMILARITY, which scan, do what these settings say.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gamay.model.indexing import FieldConfig
from gamay.model.secondary_indexes import index_settings
from gamay.model.table_config import TableConfig

TEXT_SETTINGS = (
    "useANDForMultiTermQueries",
    "caseSensitive",
    "stopWordsInclude",
    "stopWordsExclude",
    "enablePrefixSuffixMatchingInPhraseQueries",
)
DISTANCES = ("COSINE", "INNER_PRODUCT", "EUCLIDEAN", "DOT_PRODUCT", "L2")
_OLDER = {
    "useANDForMultiTermTextIndexQueries": "useANDForMultiTermQueries",
    "stopWordInclude": "stopWordsInclude",
    "stopWordExclude": "stopWordsExclude",
}


@dataclass(frozen=True)
class SearchSettings:
    """By column, where something else than the usual is meant: text: settings as JSON; distance: one of DISTANCES."""

    text: Mapping[str, str] = field(default_factory=dict)
    distance: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.text or self.distance)

    @staticmethod
    def of(config: TableConfig) -> "SearchSettings":
        """Return the settings of a table."""
        text = {declared.name: _text(declared) for declared in config.field_configs}
        distance = {declared.name: vector_distance(declared) for declared in config.field_configs}
        return SearchSettings(
            {column: settings for column, settings in text.items() if settings},
            {column: name for column, name in distance.items() if name in DISTANCES[1:]},
        )


NO_SETTINGS = SearchSettings()


def vector_distance(declared: FieldConfig) -> str:
    """Return the distance that a vector index config names, in upper case; empty without such a config, or a name in it."""
    given = index_settings(declared, "vector") or {}
    return str(given.get("vectorDistanceFunction", "")).upper()


def _text(declared: FieldConfig) -> str:
    given = {_OLDER.get(name, name): value for name, value in (index_settings(declared, "text") or {}).items()}
    settings = {name: read for name in TEXT_SETTINGS if (read := _read(name, given.get(name)))}
    return json.dumps(settings, sort_keys=True) if settings else ""


def _read(name: str, value: Any) -> Any:
    """Return a setting as a flag or a list of words; older configs have texts of both."""
    if name.startswith("stopWords"):
        words = value.split(",") if isinstance(value, str) else value or ()
        return [word.strip() for word in words if word.strip()]
    return value is True or str(value).lower() == "true"
