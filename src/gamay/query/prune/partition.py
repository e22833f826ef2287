"""The partition of a literal, for pruning."""

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa

from gamay.base.errors import GamayError
from gamay.base.recently_used import remembered
from gamay.functions.expression import LiteralValue
from gamay.model.types import DataType
from gamay.segment.encode.partition import PartitionFunction, partition_function
from gamay.segment.encode.value_text import value_text
from gamay.segment.spi import PartitionScheme


@remembered()
def partition_of(scheme: PartitionScheme, value: LiteralValue, data_type: DataType) -> int | None:
    """Return the partition of a value of a column's type; None if unknown."""
    try:
        return _function(scheme).partition_of(_text(value, data_type))
    except (GamayError, ValueError):
        return None


def partitions_of(scheme: PartitionScheme, values: Sequence[LiteralValue], data_type: DataType) -> set[int | None]:
    """Return the partitions of several values, including None if one is unknown."""
    if len(values) == 1:
        return {partition_of(scheme, values[0], data_type)}
    texts = [_text(value, data_type) for value in values]
    try:
        return set(_function(scheme).partitions_of_texts(pa.array(texts, pa.string())).tolist())
    except (GamayError, ValueError):
        return {None}


def _text(value: LiteralValue, data_type: DataType) -> str:
    # no segment stores a negative zero, and as a key of the cache it equals zero
    return value_text(value + 0.0 if isinstance(value, float) else value, data_type)


@lru_cache(maxsize=256)
def _function(scheme: PartitionScheme) -> PartitionFunction:
    name, num_partitions, config = scheme
    return partition_function(name, num_partitions, dict(config))
