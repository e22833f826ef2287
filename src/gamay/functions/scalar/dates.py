"""Functions of points in time: fields, truncation, calendar arithmetic. Times are epoch milliseconds, the zone is UTC."""

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import ErrorCode, QueryError, nearest
from gamay.functions.expression import Call, Literal
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar, scalar_function
from gamay.functions.scalar.define import check_count, const, each, fixed, scalar, wrong
from gamay.functions.scalar.zones import Millis, is_utc, offsets, to_local, to_utc
from gamay.functions.vector import Operand
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
    return days_of(local).astype("M8[D]").astype("M8[M]").astype(np.int64)


def start_of_month(months: Millis) -> Millis:
    """Return the milliseconds at which months since 1970-01 begin."""
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64) * _DAY_MS


def _iso_week(local: Millis) -> tuple[Millis, Millis]:
    """Return the ISO week and the year that it belongs to: those of the week's Thursday."""
    days = days_of(local)
    thursday = days - np.mod(days + 3, 7) + 3
    months = thursday.astype("M8[D]").astype("M8[M]").astype(np.int64)
    years = np.floor_divide(months, 12)
    new_year = np.floor_divide(start_of_month(years * 12), _DAY_MS)
    return np.floor_divide(thursday - new_year, 7) + 1, years + 1970


def truncate_local(local: Millis, unit: str) -> Millis:
    """Return the starts of the units that local times lie in."""
    if unit in _MONTHS:
        size = _MONTHS[unit]
        return start_of_month(np.floor_divide(months_of(local), size) * size)
    if unit == "WEEK":
        return np.floor_divide(local + _THURSDAY_TO_MONDAY_MS, UNIT_MS["WEEK"]) * UNIT_MS["WEEK"] - _THURSDAY_TO_MONDAY_MS
    size = UNIT_MS[unit]
    return np.floor_divide(local, size) * size


def unit_named(function: str, name: str) -> str:
    """Return the unit of time of that name, in any case; raises QueryError."""
    unit = name.strip().upper()
    if unit not in UNIT_MS and unit not in _MONTHS:
        units = [u.lower() for u in (*UNIT_MS, *_MONTHS)]
        raise wrong(function, f"'{name}' is no unit of time; use one of {', '.join(units)}.{nearest(name, units)}")
    return unit


# -- fields


def _day_of_month(local: Millis) -> Millis:
    return days_of(local) - np.floor_divide(start_of_month(months_of(local)), _DAY_MS) + 1


def _day_of_year(local: Millis) -> Millis:
    first = start_of_month(np.floor_divide(months_of(local), 12) * 12)
    return days_of(local) - np.floor_divide(first, _DAY_MS) + 1


_FIELDS: dict[tuple[str, ...], Callable[[Millis], Millis]] = {
    ("year",): lambda t: np.floor_divide(months_of(t), 12) + 1970,
    ("quarter",): lambda t: np.mod(months_of(t), 12) // 3 + 1,
    ("month", "monthOfYear"): lambda t: np.mod(months_of(t), 12) + 1,
    ("week", "weekOfYear"): lambda t: _iso_week(t)[0],
    ("yearOfWeek", "yow"): lambda t: _iso_week(t)[1],
    ("dayOfYear", "doy"): _day_of_year,
    ("day", "dayOfMonth"): _day_of_month,
    ("dayOfWeek", "dow"): lambda t: np.mod(days_of(t) + 3, 7) + 1,
    ("hour",): lambda t: np.mod(t, _DAY_MS) // UNIT_MS["HOUR"],
    ("minute",): lambda t: np.mod(t, UNIT_MS["HOUR"]) // UNIT_MS["MINUTE"],
    ("second",): lambda t: np.mod(t, UNIT_MS["MINUTE"]) // 1000,
    ("millisecond",): lambda t: np.mod(t, 1000),
}
_EXTRACTED = {"DAY": "dayofmonth", "DOY": "dayofyear", "DOW": "dayofweek"}
_EXTRACTABLE = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "DOW", "HOUR", "MINUTE", "SECOND")


def _field(read: Callable[[Millis], Millis]) -> Callable[..., Any]:
    def compute(times: Any, zone: str = "UTC") -> Any:
        return read(to_local(np.atleast_1d(times), zone))

    return compute


for _names, _read in _FIELDS.items():
    scalar(*_names, params=(each(TIMESTAMP), const(STRING)), returns=INT, optional=1)(_field(_read))


def _extract_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    check_count("extract", len(types), 2, 2)
    _extracted(call)
    return INT, False


def _extracted(call: Call) -> str:
    field = call.args[0].value if isinstance(call.args[0], Literal) else None
    if not isinstance(field, str) or field.upper() not in _EXTRACTABLE:
        raise wrong("extract", f"{field!r} is no field; use one of {', '.join(_EXTRACTABLE)}")
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
            function, f"'{name}' is no unit of time; use one of {', '.join(_UNIT_NANOS)}.{nearest(name, _UNIT_NANOS)}"
        )
    return nanos


def rescale(values: Any, source_nanos: int, target_nanos: int) -> Any:
    """Count in another unit, whole ones towards zero."""
    ratio = Fraction(source_nanos, target_nanos)
    scaled = values * ratio.numerator
    return scaled if ratio.denominator == 1 else _towards_zero(scaled, ratio.denominator)


def _towards_zero(values: Any, size: Any) -> Any:
    return (values - np.fmod(values, size)) // size


@scalar(
    "dateTrunc",
    params=(fixed(STRING), each(LONG), fixed(STRING), fixed(STRING), fixed(STRING)),
    returns=LONG,
    optional=3,
)
def date_trunc(unit: str, values: Any, in_unit: str = "MILLISECONDS", zone: str = "UTC", out_unit: str = "") -> Any:
    """The start of the unit (weeks begin on Monday) that a time lies in, in the zone; in `out_unit`, else `in_unit`."""
    source = java_unit("dateTrunc", in_unit)
    target = java_unit("dateTrunc", out_unit or in_unit)
    millis = rescale(np.atleast_1d(values), source, 1_000_000)
    kind = unit_named("dateTrunc", unit)
    local = to_local(millis, zone)
    if kind in ("MILLISECOND", "SECOND", "MINUTE", "HOUR"):
        # not through local time, which says the same of two hours when the offset changes
        start = millis - np.mod(local, UNIT_MS[kind])
    else:
        start = truncate_local(local, kind)
        if not is_utc(zone):
            distinct, back = np.unique(start, return_inverse=True)  # few, and costly to convert
            start = to_utc(distinct, zone)[back]
    return rescale(start, 1_000_000, target)


def _add_units(unit: str, count: Any, times: Any) -> Any:
    if unit in UNIT_MS:
        return times + count * UNIT_MS[unit]
    months = months_of(times)
    day = _day_of_month(times) - 1
    target = months + count * _MONTHS[unit]
    length = np.floor_divide(start_of_month(target + 1) - start_of_month(target), _DAY_MS)
    return start_of_month(target) + np.minimum(day, length - 1) * _DAY_MS + np.mod(times, _DAY_MS)


@scalar("timestampAdd", "dateAdd", params=(fixed(STRING), each(LONG), each(LONG)), returns=LONG)
def timestamp_add(unit: str, count: Any, times: Any) -> Any:
    """Months and years keep the day where the month has it, else take its last."""
    return _add_units(unit_named("timestampAdd", unit), np.atleast_1d(count), np.atleast_1d(times))


@scalar("timestampDiff", "dateDiff", params=(fixed(STRING), each(LONG), each(LONG)), returns=LONG)
def timestamp_diff(unit: str, start: Any, end: Any) -> Any:
    """Whole units from `start` to `end`, negative when `end` is earlier."""
    kind = unit_named("timestampDiff", unit)
    start, end = np.broadcast_arrays(np.atleast_1d(start), np.atleast_1d(end))
    if kind in UNIT_MS:
        return _towards_zero(end - start, UNIT_MS[kind])
    months = months_of(end) - months_of(start)
    reached = _add_units("MONTH", months, start)
    months = months - ((end > start) & (reached > end)) + ((end < start) & (reached < end))
    return _towards_zero(months, _MONTHS[kind])


@scalar("dateBin", params=(const(STRING), each(LONG), each(LONG)), returns=LONG)
def date_bin(width: str, times: Any, origin: Any) -> Any:
    """The origin plus whole widths (`1d`, `4h30m`), towards the origin."""
    parts = re.findall(r"(\d+)([dhms])", width)
    size = sum(int(count) * _WIDTHS[unit] for count, unit in parts)
    if not size or "".join(count + unit for count, unit in parts) != width:
        raise wrong("dateBin", f"'{width}' is no width such as 1d or 4h30m")
    return origin + _towards_zero(times - origin, size) * size


# -- now


@scalar("now", params=(), returns=LONG)
def now() -> int:
    return SYSTEM_CLOCK.now_ms()


_DURATION = re.compile(r"(-?)P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)


def duration_ms(text: str) -> int:
    """Return the milliseconds of an ISO-8601 duration in days, hours, minutes and seconds; raises QueryError."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()[1:]):
        raise QueryError(ErrorCode.QUERY_VALIDATION, f"'{text}' is no duration; write for example P1D or PT1H30M")
    sign, days, hours, minutes, seconds = match.groups()
    total = int(days or 0) * _DAY_MS + int(hours or 0) * UNIT_MS["HOUR"] + int(minutes or 0) * UNIT_MS["MINUTE"]
    total += int(Fraction(seconds or 0) * 1000)
    return -total if sign else total


@scalar("ago", params=(const(STRING),), returns=LONG)
def ago(duration: str) -> int:
    return SYSTEM_CLOCK.now_ms() - duration_ms(duration)


@scalar("timezoneHour", params=(const(STRING), each(LONG)), returns=INT, optional=1)
def timezone_hour(zone: str, times: Any = 0) -> Any:
    return _towards_zero(offsets(np.atleast_1d(times), zone), UNIT_MS["HOUR"])


@scalar("timezoneMinute", params=(const(STRING), each(LONG)), returns=INT, optional=1)
def timezone_minute(zone: str, times: Any = 0) -> Any:
    return np.fmod(_towards_zero(offsets(np.atleast_1d(times), zone), UNIT_MS["MINUTE"]), 60)
