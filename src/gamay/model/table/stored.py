"""Configs and schemas in the metadata store: cached, as they are needed whenever a segment of the table changes."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig

_KEPT = 512


def stored_table_config(document: Mapping[str, Any]) -> TableConfig:
    """Return the config of a stored document, the same object for the same document.

    Raises InvalidConfigError as `TableConfig.from_json` does.
    """
    return _table_config(orjson.dumps(document))


def stored_schema(document: Mapping[str, Any]) -> Schema:
    """Return the schema of a stored document, the same object for the same document.

    Raises InvalidConfigError as `Schema.from_json` does.
    """
    return _schema(orjson.dumps(document))


@lru_cache(_KEPT)
def _table_config(text: bytes) -> TableConfig:
    return TableConfig.from_json(orjson.loads(text)).value


@lru_cache(_KEPT)
def _schema(text: bytes) -> Schema:
    return Schema.from_json(orjson.loads(text)).value
