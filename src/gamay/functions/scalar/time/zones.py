"""Conversion to the local time of a zone and back, for whole arrays of epoch milliseconds."""

from datetime import UTC, timedelta, tzinfo
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from gamay.base.errors import ErrorCode, InvalidConfigError, QueryError
from gamay.functions.scalar import whole
from gamay.model.zones import EPOCH, time_zone

Millis: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_MIN_MS, _MAX_MS = -62_135_510_400_000, 253_402_214_400_000  # years 1 to 9999, less a day for the offset
_DAY_MS = 86_400_000
# the range in which changes of offset are tabulated, 1970 to 2100; other times are looked up one by one, by second
_TABLE_FROM_MS, _TABLE_TO_MS = 0, 4_102_444_800_000
_STEP_MS = 2 * _DAY_MS


def is_utc(zone: str) -> bool:
    """Whether local time is UTC; raises QueryError for an unknown zone."""
    return _zone(zone) is UTC


def _zone(zone: str) -> tzinfo:
    try:
        return time_zone(zone)
    except InvalidConfigError as error:
        raise QueryError(ErrorCode.QUERY_VALIDATION, str(error)) from None


def _offset_at(info: tzinfo, point: int) -> int:
    offset = (EPOCH + timedelta(milliseconds=min(max(point, _MIN_MS), _MAX_MS))).astimezone(info).utcoffset()
    return 0 if offset is None else round(offset.total_seconds() * 1000)


@lru_cache(maxsize=64)
def _changes(zone: str) -> tuple[Millis, Millis]:
    """Return the times from which offsets apply, ascending from the start of the table, and these offsets."""
    info = _zone(zone)
    starts, found = [_TABLE_FROM_MS], [_offset_at(info, _TABLE_FROM_MS)]
    for point in range(_TABLE_FROM_MS, _TABLE_TO_MS, _STEP_MS):
        low, high = point, point + _STEP_MS
        offset = _offset_at(info, high)
        if offset == found[-1]:
            continue
        while high - low > 1000:
            middle = (low + high) // 2000 * 1000
            low, high = (low, middle) if _offset_at(info, middle) != found[-1] else (middle, high)
        starts.append(high)
        found.append(offset)
    return np.array(starts, np.int64), np.array(found, np.int64)


def offsets(millis: Millis, zone: str) -> Millis:
    """Return by how many milliseconds local time is ahead of UTC at each time."""
    info = _zone(zone)
    if info is UTC:
        return np.zeros(len(millis), np.int64)
    starts, tabulated = _changes(zone)
    result = tabulated[np.maximum(np.searchsorted(starts, millis, side="right") - 1, 0)]
    outside = (millis < _TABLE_FROM_MS) | (millis >= _TABLE_TO_MS)
    if outside.any():
        seconds, back = np.unique(millis[outside] // 1000, return_inverse=True)
        result[outside] = np.array([_offset_at(info, s * 1000) for s in seconds.tolist()], np.int64)[back]
    return result


def to_local(millis: Millis, zone: str) -> Millis:
    """Return local time, counted as if it were UTC."""
    return millis if is_utc(zone) else whole.add(millis, offsets(millis, zone))


def to_utc(local: Millis, zone: str) -> Millis:
    """Return the times of local times; of one that occurs twice the earlier, one that is skipped is moved forward."""
    if is_utc(zone):
        return local
    before, after = offsets(whole.subtract(local, _DAY_MS), zone), offsets(whole.add(local, _DAY_MS), zone)
    # the offset before a change applies up to the change: that yields the earlier time in an overlap, the later in a gap
    early, late = whole.subtract(local, before), whole.subtract(local, after)
    early_fits = offsets(early, zone) == before
    late_fits = offsets(late, zone) == after
    return np.where(early_fits | ~late_fits, early, late)
