"""The time boundary between the OFFLINE and the REALTIME half of a hybrid table.

Each row is read once: from the OFFLINE half up to the boundary, from the REALTIME half after it. The boundary is one
push interval before the end of the newest offline segment, since the newest interval may still be incomplete. A task
that rounds times down could move a row across the boundary. So the boundary is the end of a rounding period of all
segments that reach it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import lcm

from gamay.model.schema.datetime_format import DateTimeKind
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.model.units import TimeUnit

IDEAL_STATE_KEY = "HYBRID_TABLE_TIME_BOUNDARY"
"""The field of an OFFLINE table's ideal state that fixes the boundary, in milliseconds."""

ROUNDED_KEY = "roundedToMs"
"""The key of a segment's custom map for the period to whose multiples its times were rounded down."""

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS


@dataclass(frozen=True, slots=True)
class TimeBoundary:
    """A time boundary.

    column: the time column; value: the last time read from the OFFLINE half, in the column's form (int or text).
    difference_ms: from there to the last time of the OFFLINE segments, None if no segment has a time.
    """

    column: str
    millis: int
    value: int | str
    data_type: DataType
    difference_ms: int | None = None


def fixed_boundary_ms(simple_fields: Mapping[str, str]) -> int:
    """Return the fixed boundary in an ideal state, 0 for none."""
    text = simple_fields.get(IDEAL_STATE_KEY, "").strip()
    return int(text) if text.isdigit() else 0


def rounded_ms(custom: Mapping[str, str]) -> int:
    """Return the period to which the times of a segment were rounded down, 0 for none."""
    text = custom.get(ROUNDED_KEY, "")
    return int(text) if text.isdigit() else 0


def boundary_of(
    schema: Schema,
    config: TableConfig,
    end_times_ms: Iterable[int],
    fixed_ms: int = 0,
    rounded: Iterable[tuple[int, int]] = (),
) -> TimeBoundary | None:
    """Return the boundary of a table; None if it has no time column, or the end of the OFFLINE half is unknown.

    config: of the OFFLINE table. end_times_ms: the last times of its segments that have rows and can be read; those below 0
    are unknown. fixed_ms: a manually fixed boundary, 0 for none. rounded: (last time, period) of segments with
    rounded times.
    """
    column = config.time_column
    if column is None or column not in schema.column_names:
        return None
    field = schema.field(column)
    if field.format is None:
        return None
    millis = fixed_ms
    last_ms = max((end for end in end_times_ms if end >= 0), default=-1)
    if millis <= 0:
        if last_ms < 0:
            return None
        in_days = field.format.kind is DateTimeKind.EPOCH and field.format.unit is TimeUnit.DAYS
        millis = _aligned(last_ms - (_HOUR_MS if _is_hourly(config) and not in_days else _DAY_MS), list(rounded))
    value = field.format.from_millis(millis)
    if isinstance(value, str) and not field.data_type.is_text:
        value = int(value)
    difference_ms = last_ms - field.format.to_millis(value) if last_ms >= 0 else None
    return TimeBoundary(column, millis, str(value) if field.data_type.is_text else value, field.data_type, difference_ms)


def _aligned(millis: int, rounded: list[tuple[int, int]]) -> int:
    """Return the last moment up to `millis` that ends a period of every segment that reaches it."""
    while True:
        step = lcm(*(period for end_ms, period in rounded if period > 0 and end_ms + period > millis))
        lower = (millis + 1) // step * step - 1
        if lower == millis:
            return millis
        millis = lower


def _is_hourly(config: TableConfig) -> bool:
    batch = config.ingestion.batch
    frequency = None if batch is None else batch.segment_ingestion_frequency
    return (frequency or config.segments.segment_push_frequency or "").upper() == "HOURLY"
