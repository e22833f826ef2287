"""The changes that the tuners in a table config propose."""

from collections.abc import Mapping
from typing import Any

from gamay.base.errors import InvalidConfigError, nearest
from gamay.model.schema.schema import Schema
from gamay.model.types import FieldRole

_AUTO_INDEX, _NOTHING = "realtimeAutoIndexTuner", "noopConfigTuner"
TUNERS = (_AUTO_INDEX, _NOTHING)


def tuned(config: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """Return a table config document as its `tunerConfigs` change it, each in turn.

    `realtimeAutoIndexTuner` gives every dimension an inverted index and stores every metric without a dictionary.
    Raises InvalidConfigError for a tuner that is not known.
    """
    result = dict(config)
    for tuner in config.get("tunerConfigs") or ():
        name = tuner["name"]
        if name not in TUNERS:
            raise InvalidConfigError(f"tunerConfigs: '{name}' is not one of {', '.join(TUNERS)}.{nearest(name, TUNERS)}")
        if name == _AUTO_INDEX:
            dimensions, metrics = (
                [field.name for field in schema.stored_fields if field.role is role]
                for role in (FieldRole.DIMENSION, FieldRole.METRIC)
            )
            indexing = {"invertedIndexColumns": dimensions, "noDictionaryColumns": metrics}
            result["tableIndexConfig"] = {**result.get("tableIndexConfig", {}), **indexing}
    return result
