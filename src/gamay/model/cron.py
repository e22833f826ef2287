"""Quartz's cron expressions: `seconds minutes hours day-of-month month day-of-week [year]`, in UTC.

Days of the week are 1 (SUN) to 7 (SAT). One of the two day fields must be `?`, which is no restriction. `L` is the last
day of the month, `L-3` three days before it, `15W` the weekday nearest to the 15th within the month, `LW` the last
weekday; as a day of the week, `6L` is the month's last Friday, `6#3` its third Friday.
"""

import calendar
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from gamay.base.errors import InvalidConfigError

_MONTHS = {
    "JAN": 1, "FEB": 2, "MAR": 3, "APR": 4, "MAY": 5, "JUN": 6,
    "JUL": 7, "AUG": 8, "SEP": 9, "OCT": 10, "NOV": 11, "DEC": 12,
}  # fmt: skip
_WEEKDAYS = {"SUN": 1, "MON": 2, "TUE": 3, "WED": 4, "THU": 5, "FRI": 6, "SAT": 7}
_YEAR_FIRST, _YEAR_LAST = 1970, 2199


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: Mapping[str, int]


_FIELDS = (
    _Field("seconds", 0, 59, {}),
    _Field("minutes", 0, 59, {}),
    _Field("hours", 0, 23, {}),
    _Field("day of month", 1, 31, {}),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 1, 7, _WEEKDAYS),
    _Field("year", _YEAR_FIRST, _YEAR_LAST, {}),
)
_PART = re.compile(r"(?P<range>\*|\?|(?P<low>\w+)(?:-(?P<high>\w+))?)(?:/(?P<step>\d+))?", re.ASCII)

_DaysOf = Callable[[int, int], frozenset[int]]
"""A function of (year, month) that returns the days of the month that a field allows."""


class CronSchedule:
    """The times that an expression matches."""

    def __init__(self, text: str) -> None:
        """Raises InvalidConfigError that names the invalid field."""
        self.text = text
        fields = text.upper().split()
        if len(fields) not in (6, 7):
            raise InvalidConfigError(
                f"'{text}' is not a schedule: it must have six or seven fields (seconds minutes hours day-of-month month "
                "day-of-week [year]), such as '0 0 * * * ?' for every hour"
            )
        self._seconds, self._minutes, self._hours = (
            sorted(_values(text, spec, part)) for spec, part in zip(_FIELDS[:3], fields[:3], strict=True)
        )
        self._months = _values(text, _FIELDS[4], fields[4])
        self._years = _values(text, _FIELDS[6], fields[6]) if len(fields) == 7 else None
        if (fields[3] == "?") == (fields[5] == "?"):
            raise InvalidConfigError(f"'{text}': exactly one of the two days (of month, of week) must be '?'")
        self._days = _days_of_month(text, fields[3]) if fields[5] == "?" else _days_of_week(text, fields[5])

    def next_after(self, after_ms: int) -> int | None:
        """Return the first match after a time, in milliseconds; None if there is none before 2200."""
        start = datetime.fromtimestamp(after_ms // 1000 + 1, UTC)
        first_s = start.hour * 3600 + start.minute * 60 + start.second
        day = start.date()
        for year, month in _months_from(day):
            if self._years is not None and year not in self._years:
                continue
            if month not in self._months:
                continue
            for number in sorted(self._days(year, month)):
                found = date(year, month, number)
                if found < day:
                    continue
                second = self._first_second(first_s if found == day else 0)
                if second is not None:
                    midnight = datetime(year, month, number, tzinfo=UTC)
                    return round(midnight.timestamp() + second) * 1000
        return None

    def _first_second(self, not_before: int) -> int | None:
        for hour in self._hours:
            if hour * 3600 + 3599 < not_before:
                continue
            for minute in self._minutes:
                if hour * 3600 + minute * 60 + 59 < not_before:
                    continue
                for second in self._seconds:
                    found = hour * 3600 + minute * 60 + second
                    if found >= not_before:
                        return found
        return None


def _months_from(day: date) -> Iterator[tuple[int, int]]:
    year, month = day.year, day.month
    while year <= _YEAR_LAST:
        yield year, month
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)


def _values(text: str, spec: _Field, field: str) -> frozenset[int]:
    """Return the values that a field allows."""
    found: set[int] = set()
    for part in field.split(","):
        match = _PART.fullmatch(part)
        if match is None or (match["range"] == "?" and spec.name not in ("day of month", "day of week")):
            raise _refusal(text, spec, part)
        low, high = spec.low, spec.high
        if match["low"] is not None:
            low = _number(text, spec, match["low"])
            high = _number(text, spec, match["high"]) if match["high"] else spec.high if match["step"] else low
        step = int(match["step"] or 1)
        if step < 1:
            raise _refusal(text, spec, part)
        if low <= high:
            found.update(range(low, high + 1, step))
        else:  # across the end, as in FRI-MON
            count = spec.high - spec.low + 1
            found.update(spec.low + (value - spec.low) % count for value in range(low, high + count + 1, step))
    return frozenset(found)


def _number(text: str, spec: _Field, part: str) -> int:
    value = spec.names.get(part)
    if value is None and part.isdecimal():
        value = int(part)
    if value is None or not spec.low <= value <= spec.high:
        raise _refusal(text, spec, part)
    return value


def _refusal(text: str, spec: _Field, part: str) -> InvalidConfigError:
    return InvalidConfigError(f"'{text}': '{part}' cannot be the {spec.name}, which goes from {spec.low} to {spec.high}")


def _length(year: int, month: int) -> int:
    return calendar.monthrange(year, month)[1]


def _union(parts: Sequence[_DaysOf]) -> _DaysOf:
    return lambda year, month: frozenset().union(*(part(year, month) for part in parts))


def _days_of_month(text: str, field: str) -> _DaysOf:
    spec = _FIELDS[3]

    def part_of(part: str) -> _DaysOf:
        if match := re.fullmatch(r"L(?:-(\d+))?(W)?", part):
            back, nearest = int(match[1] or 0), match[2] is not None
            if back > 30:
                raise _refusal(text, spec, part)
            return lambda year, month: _one(year, month, _length(year, month) - back, nearest=nearest)
        if match := re.fullmatch(r"(\d+)W", part):
            wanted = _number(text, spec, match[1])
            return lambda year, month: _one(year, month, wanted, nearest=True)
        allowed = _values(text, spec, part)
        return lambda year, month: frozenset(day for day in allowed if day <= _length(year, month))

    return _union([part_of(part) for part in field.split(",")])


def _one(year: int, month: int, day: int, *, nearest: bool) -> frozenset[int]:
    length = _length(year, month)
    if not 1 <= day <= length:
        return frozenset()
    if not nearest:
        return frozenset({day})
    weekday = date(year, month, day).weekday()  # Monday is 0
    if weekday == 5:
        return frozenset({day - 1 if day > 1 else day + 2})
    if weekday == 6:
        return frozenset({day + 1 if day < length else day - 2})
    return frozenset({day})


def _days_of_week(text: str, field: str) -> _DaysOf:
    spec = _FIELDS[5]

    def part_of(part: str) -> _DaysOf:
        if part == "L":
            part = "7"
        if match := re.fullmatch(r"(\w+)L", part):
            wanted = _number(text, spec, match[1])
            return lambda year, month: frozenset(_all(year, month, wanted)[-1:])
        if match := re.fullmatch(r"(\w+)#([1-5])", part):
            wanted, which = _number(text, spec, match[1]), int(match[2])
            return lambda year, month: frozenset(_all(year, month, wanted)[which - 1 : which])
        allowed = _values(text, spec, part)
        return lambda year, month: frozenset(day for one in allowed for day in _all(year, month, one))

    return _union([part_of(part) for part in field.split(",")])


def _all(year: int, month: int, weekday: int) -> list[int]:
    """Return the days of a month that fall on a weekday, 1 for Sunday."""
    first = date(year, month, 1)
    begin = first + timedelta((weekday + 5 - first.weekday()) % 7)  # Python's Monday is 0, Quartz's 2
    return list(range(begin.day, _length(year, month) + 1, 7))
