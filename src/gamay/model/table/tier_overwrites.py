"""`tierOverwrites` of `tableIndexConfig` and of entries of `fieldConfigList`: how segments of a tier are stored instead."""

from collections.abc import Iterator, Mapping
from typing import Any

from gamay.base.errors import InvalidConfigError
from gamay.model.parse import Parsed
from gamay.model.table.table_config import TableConfig

CONSUMING = "consuming"
"""The tier of consuming segments; once completed, they have the table's own settings."""


def overwritten_tiers(config: TableConfig) -> list[str]:
    """Return the tiers that have overwrites, by name."""
    given = [config.indexing.tier_overwrites, *(declared.tier_overwrites for declared in config.field_configs)]
    return sorted({tier for overwrites in given for tier in overwrites or {}})


def unknown_tiers(config: TableConfig) -> list[str]:
    """Return those of them that the table does not have."""
    known = {CONSUMING, *(tier.name for tier in config.tiers)}
    return [tier for tier in overwritten_tiers(config) if tier not in known]


def overwritten(config: TableConfig, tier: str) -> TableConfig:
    """Return the config for segments of a tier: each listed key replaces the table's as a whole.

    Raises InvalidConfigError for overwrites that are not of the form of what they replace.
    """
    return config if tier not in overwritten_tiers(config) else _read(config, tier).value


def unknown_keys(config: TableConfig, tier: str) -> Iterator[str]:
    """Yield the pointers of keys that a tier overwrites and no config has. Raises as `overwritten`."""
    yield from _read(config, tier).unrecognized


def _read(config: TableConfig, tier: str) -> Parsed[TableConfig]:
    document = config.to_json()
    where = f"tableIndexConfig.tierOverwrites.{tier}"
    document["tableIndexConfig"] |= _object(config.indexing.tier_overwrites, tier, where)
    for declared, entry in zip(config.field_configs, document.get("fieldConfigList", ()), strict=True):
        entry |= _object(declared.tier_overwrites, tier, f"the tierOverwrites.{tier} of column '{declared.name}'")
    return TableConfig.from_json(document)


def _object(overwrites: Mapping[str, Any] | None, tier: str, where: str) -> Mapping[str, Any]:
    given = (overwrites or {}).get(tier, {})
    if not isinstance(given, Mapping):
        raise InvalidConfigError(f"{where} must be an object of the keys that are to be replaced")
    return given
