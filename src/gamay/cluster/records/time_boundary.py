"""Where the OFFLINE half of a hybrid table ends and its REALTIME half begins.

Each row is read once: of the OFFLINE half those up to the boundary, of the REALTIME half those behind it. The boundary lies
one push interval before the end of the newest offline segment, for the newest interval may still be incomplete.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gamay.model.schema.datetime_format import DateTimeKind
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.model.units import TimeUnit

IDEAL_STATE_KEY = "HYBRID_TABLE_TIME_BOUNDARY"
"""The field of an OFFLINE table's ideal state that fixes the boundary, in milliseconds."""

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS


@dataclass(frozen=True, slots=True)
class TimeBoundary:
    """column: the time column; value: the last time of the OFFLINE half, as the column holds it (an int or text).

    difference_ms: from there to the last time in the OFFLINE half's segments, None when no segment has one.
    """

    column: str
    millis: int
    value: int | str
    data_type: DataType
    difference_ms: int | None = None


def fixed_boundary_ms(simple_fields: Mapping[str, str]) -> int:
    """Return the boundary that an ideal state fixes, 0 for none."""
    text = simple_fields.get(IDEAL_STATE_KEY, "").strip()
    return int(text) if text.isdigit() else 0


def boundary_of(schema: Schema, config: TableConfig, end_times_ms: Iterable[int], fixed_ms: int = 0) -> TimeBoundary | None:
    """Return the boundary of a table; None when it has no time column, or nothing says where the OFFLINE half ends.

    config: of the OFFLINE table. end_times_ms: the last times of its segments that have rows and can be read; those below 0
    are unknown. fixed_ms: a boundary that is fixed by hand, 0 for none.
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
        millis = last_ms - (_HOUR_MS if _is_hourly(config) and not in_days else _DAY_MS)
    value = field.format.from_millis(millis)
    if isinstance(value, str) and not field.data_type.is_text:
        value = int(value)
    difference_ms = last_ms - field.format.to_millis(value) if last_ms >= 0 else None
    return TimeBoundary(column, millis, str(value) if field.data_type.is_text else value, field.data_type, difference_ms)


def _is_hourly(config: TableConfig) -> bool:
    batch = config.ingestion.batch
    frequency = None if batch is None else batch.segment_ingestion_frequency
    return (frequency or config.segments.segment_push_frequency or "").upper() == "HOURLY"
