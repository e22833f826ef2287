"""Settings of text and vector index configs that affect the meaning of queries, with or without an index."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from gamay.base.errors import InvalidConfigError
from gamay.model.index.indexing import FieldConfig, TextConfig
from gamay.model.index.vector_index import DISTANCES
from gamay.model.table.secondary_indexes import vector_config
from gamay.model.table.table_config import TableConfig
from gamay.model.table.text_index import text_indexes


@dataclass(frozen=True)
class SearchSettings:
    """Settings by column, where they are not the defaults: text: as JSON; distance: one of DISTANCES."""

    text: Mapping[str, str] = field(default_factory=dict)
    distance: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.text or self.distance)

    @staticmethod
    def of(config: TableConfig) -> "SearchSettings":
        """Return the settings of a table."""
        text = {column: _text(found) for columns in text_indexes(config) for column, found in columns.items()}
        distance = {declared.name: _distance(declared) for declared in config.field_configs}
        return SearchSettings(
            {column: settings for column, settings in text.items() if settings},
            {column: name for column, name in distance.items() if name in DISTANCES[1:]},
        )


NO_SETTINGS = SearchSettings()


def _distance(declared: FieldConfig) -> str:
    with suppress(InvalidConfigError):  # stored without validation
        if (config := vector_config(declared)) is not None:
            return config.distance_name
    return ""


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
