"""What is wanted of rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gamay.model.table.merging import MergeType, MetricMerge


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of the work that can be done alone: rows that are alike are all in one of the `count` parts."""

    number: int = 0
    count: int = 1


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """What is made of rows.

    window: only rows whose time is in [first, second), in milliseconds; None for all. round_ms: times are rounded down to
    multiples of it; 0 leaves them. metrics: how they are aggregated, those that are not named by SUM. erased: dimensions
    that become null. rows_max: of an output segment. by_partition: rows of different partitions are not put in one segment.
    """

    merge_type: MergeType = MergeType.CONCAT
    window: tuple[int, int] | None = None
    round_ms: int = 0
    metrics: Mapping[str, MetricMerge] = field(default_factory=dict)
    erased: tuple[str, ...] = ()
    rows_max: int = 5_000_000
    by_partition: bool = True
    part: Slice = Slice()
