"""What `tableIndexConfig` and `fieldConfigList` may say without effect: sentences for whoever stores such a config."""

from collections.abc import Iterator
from contextlib import suppress

from gamay.base.errors import InvalidConfigError
from gamay.model.column_index import DICTIONARY_CODECS, asks_for_dictionary, declared_codec, forward_disabled, has_inverted
from gamay.model.indexing import FieldConfig
from gamay.model.table_config import TableConfig
from gamay.model.tier_overwrites import overwritten_tiers, unknown_keys, unknown_tiers


def unused_index_settings(config: TableConfig) -> Iterator[str]:
    """Yield a sentence for each setting of indexes and segments that has no effect, with the key that it stands under."""
    yield from _unused_overwrites(config)
    for declared in config.field_configs:
        yield from _unused_of_column(config, declared)
    for column, codec in config.indexing.no_dictionary_config.items():
        chosen = declared_codec(config.indexing, config.field_config(column), column)
        if codec and chosen != codec:
            yield f"tableIndexConfig.noDictionaryConfig: fieldConfigList has {chosen} for '{column}', not {codec}"


def _unused_overwrites(config: TableConfig) -> Iterator[str]:
    unknown = unknown_tiers(config)
    for tier in overwritten_tiers(config):
        if tier in unknown:
            yield f"tierOverwrites.{tier}: tierConfigs has no tier '{tier}'; the overwrites are kept"
        with suppress(InvalidConfigError):  # stored without validation
            for pointer in unknown_keys(config, tier):
                yield f"tierOverwrites.{tier}: {pointer} means nothing"


def _unused_of_column(config: TableConfig, declared: FieldConfig) -> Iterator[str]:
    where = f"fieldConfigList of column '{declared.name}'"
    if forward_disabled(declared) and not has_inverted(config.indexing, declared, declared.name):
        yield (
            f"{where}: forwardIndexDisabled needs an inverted index, which then holds the rows; without one the forward "
            "index is kept"
        )
    codec = declared_codec(config.indexing, declared, declared.name) or ""
    if codec.upper() in DICTIONARY_CODECS:
        yield f"{where}: ids of rows are stored as they are, so the compressionCodec {codec} changes nothing"
    elif codec and asks_for_dictionary(config.indexing, declared, declared.name):
        yield f"{where}: an index needs its dictionary, so rows are ids and the compressionCodec {codec} changes nothing"
