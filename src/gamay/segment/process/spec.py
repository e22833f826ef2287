"""Specification of the processing of rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gamay.model.table.merging import MergeType, MetricMerge


@dataclass(frozen=True, slots=True)
class Slice:
    """An independent part of the work: equal rows are all in the same one of the `count` parts."""

    number: int = 0
    count: int = 1


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """How to process rows.

    window: only rows whose time is in [first, second), in milliseconds; None for all. round_ms: times are rounded down to
    multiples of it; 0 keeps them. metrics: aggregation by metric, by default SUM. erased: dimensions
    set to null. rows_max: of an output segment. by_partition: do not put rows of different partitions into one segment.
    """

    merge_type: MergeType = MergeType.CONCAT
    window: tuple[int, int] | None = None
    round_ms: int = 0
    metrics: Mapping[str, MetricMerge] = field(default_factory=dict)
    erased: tuple[str, ...] = ()
    rows_max: int = 5_000_000
    by_partition: bool = True
    part: Slice = Slice()
