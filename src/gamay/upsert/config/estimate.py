"""How much memory the primary keys of a table will take."""

from dataclasses import dataclass

from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.upsert.config.settings import DedupSettings, UpsertSettings

# The directory holds 8 bytes for each slot and is 0.78 to 0.875 full; entries have room for 1/32 more.
_SLOT_BYTES = 8 / 0.78
_SPARE = 33 / 32


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes: of a key and its place in the index; of the bytes of a key that is compared as such; of all keys together."""

    entry_bytes: float
    key_bytes: float
    total_bytes: int


def estimate(schema: Schema, table_config: TableConfig, num_keys: int, text_bytes: float) -> Estimate | None:
    """Return what `num_keys` keys take at most, when the index is not growing; None for a table that looks no keys up.

    text_bytes: the average length of a key's bytes, where it is not hashed.
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
