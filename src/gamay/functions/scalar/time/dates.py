"""Functions of times: fields, truncation, calendar arithmetic. Times are epoch milliseconds, the zone is UTC by default.

A time that does not fit 64 bits becomes the nearest one that does, as with Java's TimeUnit: the smallest LONG, which
represents a missing value, is unchanged.
"""

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import ErrorCode, QueryError, nearest
from gamay.functions.arguments import check_count, wrong
from gamay.functions.expression import Call, Literal
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar, scalar_function
from gamay.functions.scalar import whole
from gamay.functions.scalar.define import const, each, fixed, scalar
from gamay.functions.scalar.time.zones import Millis, is_utc, offsets, to_local, to_utc
from gamay.functions.vector import Operand
from gamay.kernels.times import hours_of_day, minutes_of_hour, seconds_of_minute
from gamay.model.types import DataType

STRING, INT, LONG, TIMESTAMP = DataType.STRING, DataType.INT, DataType.LONG, DataType.TIMESTAMP

UNIT_MS = {
    "MILLISECOND": 1,
    "SECOND": 1000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 604_800_000,
}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_DAY_MS = UNIT_MS["DAY"]
_THURSDAY_TO_MONDAY_MS = 3 * _DAY_MS  # 1970-01-01 was a Thursday: its week began three days before


# -- the calendar on arrays


def days_of(local: Millis) -> Millis:
    """Return days since 1970-01-01."""
    return np.floor_divide(local, _DAY_MS)


def months_of(local: Millis) -> Millis:
    """Return months since 1970-01."""
    return _by_day(local, _months_of_days)


def _by_day(local: Millis, compute: Callable[[Millis], Millis]) -> Millis:
    """Apply a function to the days of times, to each day once if there are more times than days."""
    days = days_of(local)
    if not days.size or (span := int(days.max()) - (first := int(days.min())) + 1) > days.size:
        return compute(days)
    return compute(np.arange(first, first + span))[days - first]


def _months_of_days(days: Millis) -> Millis:
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64)


def start_of_month(months: Millis) -> Millis:
    """Return the start, in milliseconds, of months counted since 1970-01."""
    return whole.scale(_first_day(months), _DAY_MS)


def _first_day(months: Millis) -> Millis:
    """Return the first day, counted since 1970-01-01, of months counted since 1970-01."""
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64)


def _iso_week(local: Millis) -> tuple[Millis, Millis]:
    """Return the ISO week and the year that it belongs to: those of the week's Thursday."""
    days = days_of(local)
    thursday = days - np.mod(days + 3, 7) + 3
    months = thursday.astype("M8[D]").astype("M8[M]").astype(np.int64)
    years = np.floor_divide(months, 12)
    new_year = _first_day(years * 12)
    return np.floor_divide(thursday - new_year, 7) + 1, years + 1970


def truncate_local(local: Millis, unit: str) -> Millis:
    """Return the starts of the units that contain local times."""
    if unit in _MONTHS:
        size = _MONTHS[unit]
        return _by_day(local, lambda days: start_of_month(np.floor_divide(_months_of_days(days), size) * size))
    size = UNIT_MS[unit]
    if unit == "WEEK":
        into_week = np.mod(np.mod(local, size) + _THURSDAY_TO_MONDAY_MS, size)
        return whole.no_later(local - into_week, local)
    return whole.no_later(np.floor_divide(local, size) * size, local)


def unit_named(function: str, name: str) -> str:
    """Return the canonical name of a time unit; raises QueryError."""
    unit = name.strip().upper()
    if unit not in UNIT_MS and unit not in _MONTHS:
        units = [u.lower() for u in (*UNIT_MS, *_MONTHS)]
        raise wrong(function, f"'{name}' is not a unit of time; use one of {', '.join(units)}.{nearest(name, units)}")
    return unit


# -- fields


def _day_of_month(local: Millis) -> Millis:
    return days_of(local) - _first_day(months_of(local)) + 1


def _day_of_year(local: Millis) -> Millis:
    return days_of(local) - _first_day(np.floor_divide(months_of(local), 12) * 12) + 1


def _written(write: Callable[[Any, Any], None], local: Millis) -> Any:
    """Return the output of a kernel for local times: int32."""
    out = np.empty(local.shape, np.int32)
    write(local.astype(np.int64, copy=False), out)
    return out


_FIELDS: dict[tuple[str, ...], Callable[[Millis], Millis]] = {
    ("year",): lambda t: np.floor_divide(months_of(t), 12) + 1970,
    ("quarter",): lambda t: np.mod(months_of(t), 12) // 3 + 1,
    ("month", "monthOfYear"): lambda t: np.mod(months_of(t), 12) + 1,
    ("week", "weekOfYear"): lambda t: _iso_week(t)[0],
    ("yearOfWeek", "yow"): lambda t: _iso_week(t)[1],
    ("dayOfYear", "doy"): _day_of_year,
    ("day", "dayOfMonth"): _day_of_month,
    ("dayOfWeek", "dow"): lambda t: np.mod(days_of(t) + 3, 7) + 1,
    ("hour",): lambda t: _written(hours_of_day, t),
    ("minute",): lambda t: _written(minutes_of_hour, t),
    ("second",): lambda t: _written(seconds_of_minute, t),
    ("millisecond",): lambda t: np.mod(t, 1000),
}
_EXTRACTED = {"DAY": "dayofmonth", "DOY": "dayofyear", "DOW": "dayofweek"}
_EXTRACTABLE = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "DOW", "HOUR", "MINUTE", "SECOND", "MILLISECOND")


def _field(read: Callable[[Millis], Millis]) -> Callable[..., Any]:
    def compute(times: Any, zone: str = "UTC") -> Any:
        return read(to_local(np.atleast_1d(times), zone))

    return compute


for _names, _read in _FIELDS.items():
    scalar(*_names, params=(each(TIMESTAMP), const(STRING, is_utc)), returns=INT, optional=1)(_field(_read))


def _extract_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    check_count("extract", len(types), 2, 2)
    _extracted(call)
    return INT, False


def _extracted(call: Call) -> str:
    field = call.args[0].value if isinstance(call.args[0], Literal) else None
    if not isinstance(field, str) or field.upper() not in _EXTRACTABLE:
        raise wrong("extract", f"{field!r} is not a field; use one of {', '.join(_EXTRACTABLE)}")
    return _EXTRACTED.get(field.upper(), field.lower())


def _extract(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    name = _extracted(call)
    function = scalar_function(name)
    assert function is not None
    return function.compute(Call(name, call.args[1:]), args[1:], num_rows)


register_scalar(["extract"], ScalarFunction("extract", 2, 2, _extract_type, _extract))


# -- truncation and arithmetic

_WIDTHS = {"d": _DAY_MS, "h": UNIT_MS["HOUR"], "m": UNIT_MS["MINUTE"], "s": UNIT_MS["SECOND"]}
_UNIT_NANOS = {
    "NANOSECONDS": 1,
    "MICROSECONDS": 1000,
    "MILLISECONDS": 1_000_000,
    "SECONDS": 1_000_000_000,
    "MINUTES": 60_000_000_000,
    "HOURS": 3_600_000_000_000,
    "DAYS": 86_400_000_000_000,
}


def java_unit(function: str, name: str) -> int:
    """Return the nanoseconds of a unit such as `MILLISECONDS`; raises QueryError."""
    nanos = _UNIT_NANOS.get(name.strip().upper())
    if nanos is None:
        raise wrong(
            function, f"'{name}' is not a unit of time; use one of {', '.join(_UNIT_NANOS)}.{nearest(name, _UNIT_NANOS)}"
        )
    return nanos


def rescale(values: Any, source_nanos: int, target_nanos: int) -> Any:
    """Convert to another unit, truncated towards zero."""
    ratio = Fraction(source_nanos, target_nanos)
    scaled = whole.scale(values, ratio.numerator)
    return scaled if ratio.denominator == 1 else whole.towards_zero(scaled, ratio.denominator)


def whole_months(start: Any, end: Any) -> Any:
    """Return the number of whole months between two times, negative if `end` is earlier."""
    start, end = np.broadcast_arrays(np.atleast_1d(start), np.atleast_1d(end))
    first, last = np.minimum(start, end), np.maximum(start, end)
    months = months_of(last) - months_of(first)
    months = months - (_add_units("MONTH", months, first) > last)
    return np.where(end < start, -months, months)


def _java_unit_of(function: str) -> Callable[[str], int]:
    return lambda name: java_unit(function, name)


@scalar(
    "dateTrunc",
    params=(
        fixed(STRING, lambda name: unit_named("dateTrunc", name)),
        each(TIMESTAMP),
        fixed(STRING, _java_unit_of("dateTrunc")),
        fixed(STRING, is_utc),
        fixed(STRING, _java_unit_of("dateTrunc")),
    ),
    returns=LONG,
    optional=3,
)
def date_trunc(unit: str, values: Any, in_unit: str = "MILLISECONDS", zone: str = "UTC", out_unit: str = "") -> Any:
    """The start of the unit (weeks begin on Monday) that contains a time, in the zone; in `out_unit`, else `in_unit`."""
    source = java_unit("dateTrunc", in_unit)
    target = java_unit("dateTrunc", out_unit or in_unit)
    millis = rescale(np.atleast_1d(values), source, 1_000_000)
    kind = unit_named("dateTrunc", unit)
    local = to_local(millis, zone)
    if kind in ("MILLISECOND", "SECOND", "MINUTE", "HOUR"):
        # not through local time, in which two hours are the same when the offset changes
        start = whole.no_later(millis - np.mod(local, UNIT_MS[kind]), millis)
    else:
        start = truncate_local(local, kind)
        if not is_utc(zone):
            distinct, back = np.unique(start, return_inverse=True)  # few, and costly to convert
            start = to_utc(distinct, zone)[back]
    return rescale(start, 1_000_000, target)


_MOST_MONTHS = 12 * 600_000_000  # more than 64 bits of milliseconds hold


def _add_units(unit: str, count: Any, times: Any) -> Any:
    if unit in UNIT_MS:
        return whole.add(times, whole.scale(count, UNIT_MS[unit]))
    months = months_of(times)
    day = _day_of_month(times) - 1
    target = np.clip(months + np.clip(count, -_MOST_MONTHS, _MOST_MONTHS) * _MONTHS[unit], -_MOST_MONTHS, _MOST_MONTHS)
    first = _first_day(target)
    length = _first_day(target + 1) - first
    return whole.add(whole.scale(first + np.minimum(day, length - 1), _DAY_MS), np.mod(times, _DAY_MS))


@scalar(
    "timestampAdd",
    "dateAdd",
    params=(fixed(STRING, lambda name: unit_named("timestampAdd", name)), each(LONG), each(TIMESTAMP)),
    returns=LONG,
)
def timestamp_add(unit: str, count: Any, times: Any) -> Any:
    """Months and years keep the day if the month has it, else take the month's last day."""
    return _add_units(unit_named("timestampAdd", unit), np.atleast_1d(count), np.atleast_1d(times))


@scalar(
    "timestampDiff",
    "dateDiff",
    params=(fixed(STRING, lambda name: unit_named("timestampDiff", name)), each(TIMESTAMP), each(TIMESTAMP)),
    returns=LONG,
)
def timestamp_diff(unit: str, start: Any, end: Any) -> Any:
    """The whole units from `start` to `end`, negative if `end` is earlier."""
    kind = unit_named("timestampDiff", unit)
    if kind in UNIT_MS:
        return whole.towards_zero(whole.subtract(end, start), UNIT_MS[kind])
    return whole.towards_zero(whole_months(start, end), _MONTHS[kind])


def _width_ms(width: str) -> int:
    parts = re.findall(r"(\d{1,9})([dhms])", width, re.ASCII)
    size = sum(int(count) * _WIDTHS[unit] for count, unit in parts)
    if size and "".join(count + unit for count, unit in parts) == width:
        return size
    size = duration_ms(width) if _DURATION.fullmatch(width.strip()) else 0
    if size <= 0:
        raise wrong("dateBin", f"'{width}' is not a width such as 1d, 4h30m or PT15M")
    return size


@scalar("dateBin", params=(const(STRING, _width_ms), each(TIMESTAMP), each(TIMESTAMP)), returns=TIMESTAMP)
def date_bin(width: str, times: Any, origin: Any) -> Any:
    """The origin plus whole widths (`1d`, `4h30m`, `PT15M`), rounded towards the origin."""
    size = _width_ms(width)
    return origin + whole.towards_zero(whole.subtract(times, origin), size) * size


# -- now


@scalar("now", params=(), returns=LONG)
def now() -> int:
    return SYSTEM_CLOCK.now_ms()


_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?\d{1,18})D)?(?:T(?:([-+]?\d{1,18})H)?(?:([-+]?\d{1,18})M)?(?:([-+]?\d{1,18}(?:[.,]\d{0,9})?)S)?)?",
    re.IGNORECASE | re.ASCII,
)


def duration_ms(text: str) -> int:
    """Return the milliseconds of an ISO-8601 duration in days, hours, minutes and seconds, as java.time.Duration parses it.

    Raises QueryError for anything else: years and months have no fixed length.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()[1:]) or text.strip()[-1:] in "tT":
        raise QueryError(ErrorCode.QUERY_VALIDATION, f"'{text}' is not a duration; write for example P1D or PT1H30M")
    sign, days, hours, minutes, seconds = match.groups()
    total = int(days or 0) * _DAY_MS + int(hours or 0) * UNIT_MS["HOUR"] + int(minutes or 0) * UNIT_MS["MINUTE"]
    total += math.floor(Decimal((seconds or "0").replace(",", ".")) * 1000)
    return -total if sign == "-" else total


@scalar("ago", params=(const(STRING, duration_ms),), returns=LONG)
def ago(duration: str) -> int:
    """The current time minus an ISO-8601 duration: `ago('PT1H30M')`."""
    return min(max(SYSTEM_CLOCK.now_ms() - duration_ms(duration), whole.LEAST), whole.MOST)


@scalar("timezoneHour", params=(const(STRING, is_utc), each(TIMESTAMP)), returns=INT, optional=1)
def timezone_hour(zone: str, times: Any = 0) -> Any:
    return whole.towards_zero(offsets(np.atleast_1d(times), zone), UNIT_MS["HOUR"])


@scalar("timezoneMinute", params=(const(STRING, is_utc), each(TIMESTAMP)), returns=INT, optional=1)
def timezone_minute(zone: str, times: Any = 0) -> Any:
    return np.fmod(whole.towards_zero(offsets(np.atleast_1d(times), zone), UNIT_MS["MINUTE"]), 60)
