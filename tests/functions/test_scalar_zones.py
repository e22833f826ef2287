"""Offsets and local times of arrays against `zoneinfo`, value by value."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from gamay.base.errors import QueryError
from gamay.functions.scalar.time.zones import offsets, to_local, to_utc

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = [
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "Europe/London",
    "+05:30",
]


def zone_of(name: str) -> ZoneInfo | timezone:
    return timezone(timedelta(hours=5, minutes=30)) if name[0] == "+" else ZoneInfo(name)


@pytest.mark.parametrize("zone", ZONES)
def test_offsets(zone: str) -> None:
    rng = np.random.default_rng(3)
    near_changes = 1_383_458_400_000 + rng.integers(-(10**10), 10**10, 500)
    millis = np.concatenate([rng.integers(-5 * 10**12, 6 * 10**12, 500), near_changes, [0, -1, 4_102_444_800_000]])
    info = zone_of(zone)
    expected = [(EPOCH + timedelta(milliseconds=m)).astimezone(info).utcoffset() for m in millis.tolist()]
    assert offsets(millis, zone).tolist() == [round(o.total_seconds() * 1000) for o in expected if o is not None]


@pytest.mark.parametrize("zone", ZONES)
def test_local_times_go_back(zone: str) -> None:
    """All but the second of two equal local times are found again, and that one an hour (or so) early."""
    hours = np.arange(1_356_998_400_000, 1_388_534_400_000, 1_800_000)  # 2013, each half hour
    local = to_local(hours, zone)
    back = to_utc(local, zone)
    assert (to_local(back, zone) == local).all()
    values, counts = np.unique(local, return_counts=True)
    repeated = np.isin(local, values[counts > 1])
    assert (back[~repeated] == hours[~repeated]).all()


def test_a_skipped_local_time_moves_forward() -> None:
    # 2013-03-10 02:30 does not exist in New York: 03:30 daylight time is meant
    local = np.array([1_362_882_600_000])
    assert to_local(to_utc(local, "America/New_York"), "America/New_York").tolist() == [1_362_886_200_000]


def test_a_repeated_local_time_is_the_earlier() -> None:
    # 2013-11-03 01:30 in New York: 05:30 UTC before the change, 06:30 after it
    local = np.array([1_383_442_200_000])
    assert to_utc(local, "America/New_York").tolist() == [1_383_456_600_000]


def test_an_unknown_zone() -> None:
    with pytest.raises(QueryError, match="time zone"):
        offsets(np.array([0]), "America/New_Yrok")
