"""Columns whose rows are not stored in a segment, but computed or given by a schema."""

from collections.abc import Sequence

import numpy as np
from pyroaring import BitMap

from gamay.model.types import DataType
from gamay.segment.spi import (
    NULLS,
    ColumnStats,
    Dictionary,
    DocIds,
    Ids,
    IndexKey,
    SecondaryIndex,
    SortedValues,
    T,
)
from gamay.segment.zones import Zones


class ComputedColumn:
    """Base of such columns: without indexes, dictionary and nulls unless a subclass overrides these.

    A subclass implements `values` and `values_at`; with a dictionary also `ids` and `ids_at`, if multi-value `offsets`.
    """

    name: str
    data_type: DataType
    single_value: bool = True
    num_docs: int
    stats: ColumnStats
    dictionary: Dictionary | None = None
    sorted_values: SortedValues | None = None
    zones: Zones | None = None
    indexes: Sequence[SecondaryIndex] = ()
    null_docs: BitMap | None = None
    has_forward: bool = True

    def index(self, key: IndexKey[T]) -> T | None:
        return key.of(self.null_docs) if key is NULLS else None

    def ids(self, start: int, stop: int) -> Ids:
        raise KeyError(f"{self.name} has no dictionary")

    def ids_at(self, docs: DocIds) -> Ids:
        raise KeyError(f"{self.name} has no dictionary")

    def offsets(self, start: int, stop: int) -> Ids:
        raise KeyError(f"{self.name} is single-value")


class RepeatedColumn(ComputedColumn):
    """Base of columns with one dictionary entry, which is the value of every row; multi-value rows have a list of it."""

    def ids(self, start: int, stop: int) -> Ids:
        return np.zeros(max(0, stop - start), np.uint8)

    def ids_at(self, docs: DocIds) -> Ids:
        return np.zeros(len(docs), np.uint8)

    def offsets(self, start: int, stop: int) -> Ids:
        if self.single_value:
            return super().offsets(start, stop)
        return np.arange(max(0, stop - start) + 1, dtype=np.int32)


def unknown_stats(num_values: int, *, max_values_per_row: int = 1, num_nulls: int = 0) -> ColumnStats:
    """Return the statistics of values of which only the number is known."""
    return ColumnStats(
        cardinality=None,
        minimum=None,
        maximum=None,
        total=None,
        is_sorted=False,
        num_values=num_values,
        max_values_per_row=max_values_per_row,
        num_nulls=num_nulls,
        partition=None,
    )
