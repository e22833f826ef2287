"""Estimate of the memory for the primary keys of a table."""

from dataclasses import dataclass

from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.upsert.config.settings import DedupSettings, UpsertSettings

# The directory has 8 bytes per slot and is 0.78 to 0.875 full; the entry array has 1/32 spare capacity.
_SLOT_BYTES = 8 / 0.78
_SPARE = 33 / 32


@dataclass(frozen=True, slots=True)
class Estimate:
    """Memory in bytes: per index entry; for the stored bytes of a key that is not hashed; for all keys."""

    entry_bytes: float
    key_bytes: float
    total_bytes: int


def estimate(schema: Schema, table_config: TableConfig, num_keys: int, text_bytes: float) -> Estimate | None:
    """Return the maximum memory for `num_keys` keys while the index is not growing; None for a table without a key index.

    text_bytes: the average length of keys that are not hashed.
    """
    upsert, dedup = UpsertSettings.of(table_config, schema), DedupSettings.of(table_config, schema)
    if upsert is not None:
        encoder, num_comparisons = upsert.encoder, len(upsert.comparison.fields)
    elif dedup is not None:
        encoder, num_comparisons = dedup.encoder, 1
    else:
        return None
    entry = 4 * (encoder.words + 2 + 2 * num_comparisons) * _SPARE + _SLOT_BYTES
    key = (text_bytes + 1) * _SPARE if encoder.keeps_bytes else 0.0
    return Estimate(entry, key, round(num_keys * (entry + key)))
