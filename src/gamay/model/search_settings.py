"""What the text and vector index configs of a table's columns say about the meaning of queries, with an index or without."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from gamay.model.indexing import FieldConfig, TextConfig
from gamay.model.secondary_indexes import index_settings
from gamay.model.table_config import TableConfig
from gamay.model.text_index import text_indexes

DISTANCES = ("COSINE", "INNER_PRODUCT", "EUCLIDEAN", "DOT_PRODUCT", "L2")


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
        text = {column: _text(found) for columns in text_indexes(config) for column, found in columns.items()}
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


def _text(config: TextConfig) -> str:
    settings = {
        "useANDForMultiTermQueries": config.use_and,
        "caseSensitive": config.case_sensitive,
        "stopWordsInclude": config.stop_words_include,
        "stopWordsExclude": config.stop_words_exclude,
        "enablePrefixSuffixMatchingInPhraseQueries": config.open_phrases,
    }
    given = {name: value for name, value in settings.items() if value}
    return json.dumps(given, sort_keys=True) if given else ""
