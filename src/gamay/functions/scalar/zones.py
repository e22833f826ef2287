"""Local time of a zone and back, for whole arrays of epoch milliseconds."""

from datetime import UTC, timedelta
from typing import Any, TypeAlias

import numpy as np

from gamay.base.errors import ErrorCode, InvalidConfigError, QueryError
from gamay.model.zones import EPOCH, time_zone

Millis: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

# Since 1972 zones change their offset at whole quarters of an hour only, so one look-up serves a quarter; before, offsets
# such as the mean solar time of a city changed at any second.
_QUARTER_MS = 15 * 60 * 1000
_REGULAR_FROM_MS = 63_072_000_000
_MIN_MS, _MAX_MS = -62_135_510_400_000, 253_402_214_400_000  # years 1 to 9999, less a day for the offset


def is_utc(zone: str) -> bool:
    """Whether local time is UTC; raises QueryError for a zone that does not exist."""
    return _zone(zone) is UTC


def _zone(zone: str) -> Any:
    try:
        return time_zone(zone)
    except InvalidConfigError as error:
        raise QueryError(ErrorCode.QUERY_VALIDATION, str(error)) from None


def offsets(millis: Millis, zone: str) -> Millis:
    """Return how many milliseconds local time is ahead of UTC at each point in time."""
    info = _zone(zone)
    if info is UTC:
        return np.zeros(len(millis), np.int64)
    points = np.where(millis >= _REGULAR_FROM_MS, millis // _QUARTER_MS * _QUARTER_MS, millis // 1000 * 1000)
    distinct, back = np.unique(points, return_inverse=True)
    found = np.empty(len(distinct), np.int64)
    for i, point in enumerate(np.clip(distinct, _MIN_MS, _MAX_MS).tolist()):
        offset = (EPOCH + timedelta(milliseconds=point)).astimezone(info).utcoffset()
        found[i] = 0 if offset is None else round(offset.total_seconds() * 1000)
    return found[back]


def to_local(millis: Millis, zone: str) -> Millis:
    """Return local time, counted as if it were UTC."""
    return millis if is_utc(zone) else millis + offsets(millis, zone)


def to_utc(local: Millis, zone: str) -> Millis:
    """Return the points in time of local times; one that occurs twice is the earlier, one that is skipped moves forward."""
    if is_utc(zone):
        return local
    day = 86_400_000
    before, after = offsets(local - day, zone), offsets(local + day, zone)
    # the offset before a change applies up to the change: in an overlap that gives the earlier, in a gap the later time
    early, late = local - before, local - after
    early_fits = offsets(early, zone) == before
    late_fits = offsets(late, zone) == after
    return np.where(early_fits | ~late_fits, early, late)
