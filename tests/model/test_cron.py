"""Quartz cron expressions against a scan of every second, and against known dates."""

import random
from datetime import UTC, datetime

import pytest

from gamay.base.errors import InvalidConfigError
from gamay.model.cron import CronSchedule


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


def following(schedule: str, start: str, count: int) -> list[str]:
    found, moment = [], at(start)
    for _ in range(count):
        moment = CronSchedule(schedule).next_after(moment) or 0
        found.append(datetime.fromtimestamp(moment / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S"))
    return found


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("0 15 10 L * ?", ["2026-11-30 10:15:00", "2026-12-31 10:15:00"]),
        ("0 0 1 L-2 * ?", ["2026-11-28 01:00:00", "2026-12-29 01:00:00"]),
        ("0 0 12 ? * 6#3", ["2026-12-18 12:00:00", "2027-01-15 12:00:00"]),
        ("0 0 12 ? * 6L", ["2026-11-27 12:00:00", "2026-12-25 12:00:00"]),
        ("0 0 0 LW 1 ?", ["2027-01-29 00:00:00", "2028-01-31 00:00:00"]),
        ("0 0 0 15W 11,5 ?", ["2027-05-14 00:00:00", "2027-11-15 00:00:00"]),
        ("0 0 0 1W 8 ?", ["2027-08-02 00:00:00", "2028-08-01 00:00:00"]),
        ("0 0 0 29 2 ?", ["2028-02-29 00:00:00", "2032-02-29 00:00:00"]),
        ("0 0 8 ? * FRI-MON", ["2026-11-22 08:00:00", "2026-11-23 08:00:00"]),
        ("0 0 0 1 JAN ? 2030-2031", ["2030-01-01 00:00:00", "2031-01-01 00:00:00"]),
    ],
)
def test_days_are_those_of_the_calendar(schedule: str, expected: list[str]) -> None:
    assert following(schedule, "2026-11-21 21:50:03", 2) == expected


def test_times_of_day_are_those_of_a_walk() -> None:
    rng = random.Random(5)
    for _ in range(60):
        fields = [
            rng.choice(["*", "7", "*/13", "5-40/7", "3,30,59"]),
            rng.choice(["*", "0", "*/9"]),
            rng.choice(["*", "3,23"]),
        ]
        schedule = CronSchedule(f"{' '.join(fields)} * * ?")
        start = at("2026-11-21 22:58:31") + rng.randrange(10_000) * 1000
        found = schedule.next_after(start)
        second = start // 1000 + 1
        while not _matches(fields, datetime.fromtimestamp(second, UTC)):
            second += 1
        assert found == second * 1000


def _matches(fields: list[str], moment: datetime) -> bool:
    def allows(field: str, value: int) -> bool:
        if field in ("*", str(value)):
            return True
        if "/" in field:
            span, step = field.split("/")
            low, high = (0, 59) if span == "*" else map(int, span.split("-"))
            return low <= value <= high and (value - low) % int(step) == 0
        return str(value) in field.split(",")

    values = (moment.second, moment.minute, moment.hour)
    return all(allows(field, value) for field, value in zip(fields, values, strict=True))


def test_a_schedule_may_end() -> None:
    assert CronSchedule("0 0 0 1 1 ? 2020").next_after(at("2026-01-01 00:00:00")) is None
    assert CronSchedule("0 0 0 31 2 ?").next_after(at("2026-01-01 00:00:00")) is None


@pytest.mark.parametrize(
    "schedule",
    ["", "* * * * *", "0 0 0 * * *", "0 0 0 ? * ?", "60 0 0 * * ?", "0 0 24 * * ?", "0 0 0 32 * ?", "0 0 0 ? * 8",
     "0 0 0 ? * FOO", "0 0/0 0 * * ?", "? 0 0 * * ?", "0 0 0 L-31 * ?", "0 0 0 ? * 6#6", "a b c d e f"],
)  # fmt: skip
def test_what_is_no_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(InvalidConfigError):
        CronSchedule(schedule)
