"""Extreme times: before 1970, at the limits of 64 bits, around changes of offset; against Python's calendar."""

import calendar
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.evaluate import evaluate, result_type
from gamay.functions.scalar.time.dates import duration_ms
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector
from gamay.model.types import DataType
from gamay.sql.parser import parse_expression

UNHURRIED = settings(deadline=None)  # machines are busy at times
INT, LONG, STRING = DataType.INT, DataType.LONG, DataType.STRING
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 86_400_000
LEAST, MOST = -(2**63), 2**63 - 1
MILLIS = st.integers(-62_135_510_400_000, 253_402_214_400_000)  # years 1 to 9999
ANY_MILLIS = st.one_of(st.integers(LEAST, MOST), st.sampled_from([LEAST, LEAST + 1, MOST, -1, 0]))
UNITS = ("millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year")


def run(text: str, **columns: Operand) -> Any:
    expression = parse_expression(text)
    operands = list(columns.values())
    rows = len(operands[0]) if operands and not isinstance(operands[0], Scalar) else 1
    result = evaluate(expression, columns.__getitem__, rows)

    def type_of(name: str) -> tuple[DataType, bool]:
        column = columns[name]
        return column.type, not isinstance(column, Scalar) and column.offsets is not None

    assert result_type(expression, type_of) == (result.type, not isinstance(result, Scalar) and result.offsets is not None)
    if isinstance(result, Scalar):
        return result.value
    vector = result.decode() if isinstance(result, EncodedVector) else result
    values = vector.values.tolist() if isinstance(vector.values, np.ndarray) else vector.values.to_pylist()
    if vector.offsets is not None:
        values = [values[a:b] for a, b in zip(vector.offsets[:-1], vector.offsets[1:], strict=True)]
    return [None if vector.nulls is not None and vector.nulls[k] else value for k, value in enumerate(values)]


def longs(*values: int) -> Vector:
    return Vector(LONG, np.array(values, np.int64))


def texts(*values: str) -> Vector:
    return Vector(STRING, pa.array(values))


def utc(millis: int) -> datetime:
    return EPOCH + timedelta(milliseconds=millis)


def to_ms(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


# -- fields and truncation


@UNHURRIED
@given(MILLIS)
def test_fields_are_those_of_python(millis: int) -> None:
    moment = utc(millis)
    year, week, weekday = moment.isocalendar()
    expected = {
        "year": moment.year,
        "quarter": (moment.month + 2) // 3,
        "monthOfYear": moment.month,
        "weekOfYear": week,
        "yow": year,
        "doy": moment.timetuple().tm_yday,
        "day": moment.day,
        "dow": weekday,
        "hour": moment.hour,
        "minute": moment.minute,
        "second": moment.second,
        "millisecond": moment.microsecond // 1000,
    }
    column = longs(millis)
    assert {name: run(f"{name}(t)", t=column)[0] for name in expected} == expected


@UNHURRIED
@given(ANY_MILLIS, st.sampled_from(UNITS))
def test_starts_of_units_are_at_or_before(millis: int, unit: str) -> None:
    start = run(f"dateTrunc('{unit}', t)", t=longs(millis))[0]
    assert start == LEAST or 0 <= millis - start < 367 * DAY
    if start != LEAST:
        assert run(f"dateTrunc('{unit}', t)", t=longs(start)) == [start]


@UNHURRIED
@given(ANY_MILLIS)
def test_fields_beyond_pythons_years_repeat_every_400_years(millis: int) -> None:
    cycles = millis // (146_097 * DAY)
    near = longs(millis - cycles * 146_097 * DAY)
    for field in ("month", "week", "doy", "day", "dow", "hour"):
        assert run(f"{field}(t)", t=longs(millis)) == run(f"{field}(t)", t=near)
    assert run("year(t)", t=longs(millis))[0] == run("year(t)", t=near)[0] + 400 * cycles
    printed = run("toDateTime(t, 'yyyy-MM-dd HH:mm:ss.SSS EEE')", t=longs(millis))[0]
    year = run("year(t)", t=longs(millis))[0]
    shape = utc(near.values.tolist()[0])
    tail = f"-{shape:%m-%d %H:%M:%S}.{shape.microsecond // 1000:03d} {shape:%a}"
    assert printed == f"{'-' * (year < 0)}{abs(year):04d}{tail}"


def test_the_placeholder_of_a_missing_long_goes_through_everything() -> None:
    column = longs(LEAST)
    for call in (
        "dateTrunc('WEEK', t)",
        "dateTrunc('DAY', t, 'MILLISECONDS', 'America/New_York')",
        "fromEpochDays(t)",
        "fromEpochHoursBucket(t, 5)",
        "timestampAdd('DAY', -1, t)",
        "timestampAdd('YEAR', -1, t)",
        "timeConvert(t, 'DAYS', 'SECONDS')",
        "dateTimeConvert(t, '1:DAYS:EPOCH', '1:SECONDS:EPOCH', '1:DAYS')",
    ):
        assert run(call, t=column)[0] < -(10**15), call
    assert run("year(t)", t=column) == [-292275055]
    assert run("toDateTime(t, 'yyyy-MM-dd')", t=column) == ["-292275055-05-16"]
    assert run("toIso8601(t)", t=column) == ["-292275055-05-16T16:47:04.192Z"]


# -- calendar arithmetic


def months_later(moment: datetime, count: int) -> datetime:
    years, month = divmod(moment.month - 1 + count, 12)
    year = moment.year + years
    return moment.replace(year=year, month=month + 1, day=min(moment.day, calendar.monthrange(year, month + 1)[1]))


SOME_MILLIS = st.integers(-30_000_000_000_000, 30_000_000_000_000)  # years 1019 to 2920


@UNHURRIED
@given(SOME_MILLIS, st.integers(-5000, 5000))
def test_adding_units(millis: int, count: int) -> None:
    column = longs(millis)
    for unit, months in (("MONTH", 1), ("QUARTER", 3), ("YEAR", 12)):
        small = count % 200 - 100
        assert run(f"timestampAdd('{unit}', {small}, t)", t=column) == [to_ms(months_later(utc(millis), small * months))]
    for unit, size in (("WEEK", 7 * DAY), ("DAY", DAY), ("HOUR", 3_600_000), ("SECOND", 1000)):
        assert run(f"dateAdd('{unit}', {count}, t)", t=column) == [millis + count * size]


@UNHURRIED
@given(SOME_MILLIS, SOME_MILLIS)
def test_units_between_are_as_many_as_can_be_added(start: int, end: int) -> None:
    first, last = sorted((start, end))
    for unit, size in (("MONTH", 1), ("QUARTER", 3), ("YEAR", 12)):
        count = run(f"timestampDiff('{unit}', a, b)", a=longs(first), b=longs(last))[0]
        assert to_ms(months_later(utc(first), count * size)) <= last
        assert to_ms(months_later(utc(first), (count + 1) * size)) > last
        assert run(f"timestampDiff('{unit}', a, b)", a=longs(last), b=longs(first)) == [-count]
    days = run("dateDiff('DAY', a, b)", a=longs(start), b=longs(end))[0]
    assert days == abs(end - start) // DAY * (1 if end >= start else -1)


@UNHURRIED
@given(ANY_MILLIS, ANY_MILLIS)
def test_sums_and_differences_stop_at_the_limits(a: int, b: int) -> None:
    def fitting(value: int) -> int:
        return min(max(value, LEAST), MOST)

    assert run("timestampAdd('MILLISECOND', b, a)", a=longs(a), b=longs(b)) == [fitting(a + b)]
    assert run("timestampDiff('MILLISECOND', a, b)", a=longs(a), b=longs(b)) == [fitting(b - a)]
    assert run("fromEpochMinutes(a)", a=longs(a)) == [fitting(a * 60_000)]
    assert abs(run("timestampAdd('MONTH', b, a)", a=longs(a), b=longs(b))[0]) <= 2**63
    micros = abs(a) // 1000 * (1 if a >= 0 else -1)
    assert run("timeConvert(a, 'MICROSECONDS', 'MILLISECONDS')", a=longs(a)) == [micros]


@UNHURRIED
@given(st.integers(-(10**13), 10**13))
def test_periods_since_the_epoch_are_whole(millis: int) -> None:
    column = longs(millis)
    for unit, field in (("MONTHS", "MONTH"), ("YEARS", "YEAR"), ("WEEKS", "WEEK")):
        found = run(f"timeConvert(t, 'MILLISECONDS', '{unit}')", t=column)
        assert found == run(f"timestampDiff('{field}', 0, t)", t=column)


def test_buckets_go_towards_zero() -> None:
    column = longs(-1, -DAY, 7 * DAY - 1, 20 * DAY)
    assert run("toEpochDays(t)", t=column) == [0, -1, 6, 20]
    assert run("toEpochDaysRounded(t, 7)", t=column) == [0, 0, 0, 14]
    assert run("toEpochDaysBucket(t, 7)", t=column) == [0, 0, 0, 2]
    assert run("dateBin('1d', t, 86400000)", t=column) == [0, -DAY, 6 * DAY, 20 * DAY]


# -- zones


ZONES = ("America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "America/St_Johns")


@UNHURRIED
@given(st.integers(0, 4_000_000_000_000), st.sampled_from(ZONES), st.sampled_from(["day", "month", "year", "week"]))
def test_local_units(millis: int, zone: str, unit: str) -> None:
    local = utc(millis).astimezone(ZoneInfo(zone))
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    start = {
        "day": midnight,
        "week": midnight - timedelta(days=local.weekday()),
        "month": midnight.replace(day=1),
        "year": midnight.replace(month=1, day=1),
    }[unit]
    found = run(f"dateTrunc('{unit}', t, 'MILLISECONDS', '{zone}')", t=longs(millis))
    assert found == [to_ms(start)]
    assert run(f"hour(t, '{zone}')", t=longs(millis)) == [local.hour]
    offset = local.utcoffset()
    assert offset is not None
    hours, minutes = (
        run(f"timezoneHour('{zone}', t)", t=longs(millis))[0],
        run(f"timezoneMinute('{zone}', t)", t=longs(millis))[0],
    )
    assert hours * 60 + minutes == offset.total_seconds() / 60


def test_a_local_time_in_a_gap_moves_forward() -> None:
    call = "fromDateTime(s, 'yyyy-MM-dd HH:mm', 'Europe/Berlin')"
    found = run(call, s=texts("2024-03-31 02:30", "2024-03-31 03:30"))
    assert found[0] == found[1] == to_ms(datetime(2024, 3, 31, 1, 30, tzinfo=UTC))


def test_an_hour_that_occurs_twice_is_printed_with_both_offsets() -> None:
    twice = longs(1730611800000, 1730611800000 + 3_600_000)
    assert run("toDateTime(t, 'HH:mm Z', 'America/New_York')", t=twice) == ["01:30 -0400", "01:30 -0500"]
    assert run("toDateTime(t, 'HH:mm z', 'America/New_York')", t=twice) == ["01:30 EDT", "01:30 EST"]
    assert run("toDateTime(t, 'HH:mm', 'America/New_York')", t=twice) == ["01:30", "01:30"]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("granularity", ["1:MILLISECONDS", "20:SECONDS", "15:MINUTES", "1:HOURS", "1:MICROSECONDS"])
def test_buckets_of_local_time_hold_their_times(zone: str, granularity: str) -> None:
    """Also where an hour occurs twice: its second time is no time of the first."""
    size, unit = granularity.split(":")
    width = int(size) * {"MICROSECONDS": 1, "MILLISECONDS": 1, "SECONDS": 1000, "MINUTES": 60_000, "HOURS": 3_600_000}[unit]
    around = [1712415600000, 1729990800000, 1699164000000]  # when clocks went back in Lord Howe, Berlin and New York
    times = [time + 421_357 * step for time in around for step in range(-300, 300)]
    formats = f"'1:MILLISECONDS:EPOCH', '1:MILLISECONDS:EPOCH', '{granularity}', '{zone}'"
    found = run(f"dateTimeConvert(t, {formats})", t=longs(*times))
    for time, start in zip(times, found, strict=True):
        offset = utc(time).astimezone(ZoneInfo(zone)).utcoffset()
        assert offset is not None
        local = time + round(offset.total_seconds() * 1000)
        if utc(time - local % width).astimezone(ZoneInfo(zone)).utcoffset() == offset:
            assert start == time - local % width
        else:  # the bucket began before clocks were changed
            assert start <= time
            assert to_ms(utc(start).astimezone(ZoneInfo(zone)).replace(tzinfo=UTC)) == local - local % width


def test_patterns_with_an_offset_have_its_days() -> None:
    call = "dateTimeConvert(t, '1:MILLISECONDS:EPOCH', '1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd HH:mm tz(+05:30)', '{}')"
    assert run(call.format("1:DAYS"), t=longs(1714507200000)) == ["2024-05-01 00:00"]  # 2024-04-30 20:00 UTC
    assert run(call.format("1:HOURS"), t=longs(1714507200000)) == ["2024-05-01 01:00"]


def test_text_that_does_not_fit_a_pattern() -> None:
    column = texts("2024-02-30", "2024-02-29")
    call = "fromDateTime(s, 'yyyy-MM-dd', 'UTC', {})"
    assert run(call.format(7), s=column) == [7, to_ms(datetime(2024, 2, 29, tzinfo=UTC))]
    with pytest.raises(QueryError, match="fromDateTime"):
        run("fromDateTime(s, 'yyyy-MM-dd')", s=column)
    assert run("fromIso8601(s)", s=texts("2024-02-29T12:00:00+02:00")) == [to_ms(datetime(2024, 2, 29, 10, tzinfo=UTC))]


# -- durations


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P1D", DAY),
        ("PT1H30M", 5_400_000),
        ("-PT1.5S", -1500),
        ("P-1DT+2H", 7_200_000 - DAY),
        ("pt0.0009s", 0),
        ("PT-0.5S", -500),
    ],
)
def test_duration(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["P1M", "P1Y", "P", "PT", "P1DT", "1D", "PT1H1D", ""])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(QueryError, match="not a duration"):
        duration_ms(text)


# -- hopping windows


@UNHURRIED
@given(SOME_MILLIS, st.integers(1, 50), st.integers(1, 200))
def test_windows_that_hold_a_time(millis: int, hop: int, width: int) -> None:
    call = f"dateTimeConvertWindowHop(t, '1:SECONDS:EPOCH', '1:SECONDS:EPOCH', '{hop}:SECONDS', '{width}:SECONDS')"
    second = millis // 1000
    starts = [s for s in range(second - width + 1, second + 1) if s % hop == 0]
    assert run(call, t=longs(second)) == [starts[::-1]]


def test_windows_as_text_and_of_constants() -> None:
    call = "dateTimeConvertWindowHop({}, '1:MILLISECONDS:EPOCH', 'SIMPLE_DATE_FORMAT|HH:mm', '1:HOURS', '2:HOURS')"
    assert run(call.format("t"), t=longs(5_400_000, 0)) == [["01:00", "00:00"], ["00:00", "23:00"]]
    assert run(call.format("5400000")) == [["01:00", "00:00"]]
    empty = evaluate(parse_expression(call.format("t")), lambda name: longs(), 0)
    assert isinstance(empty, Vector)
    assert len(empty) == 0


# -- lists of times


LISTS = Vector(LONG, np.array([0, DAY, -1, 31 * DAY], np.int64), np.array([0, 2, 2, 4], np.int32))
ENCODED = EncodedVector(
    np.array([1, 2, 0, 3], np.uint8),
    Vector(LONG, np.array([-1, 0, DAY, 31 * DAY], np.int64)),
    np.array([0, 2, 2, 4], np.int32),
)


@pytest.mark.parametrize("column", [LISTS, ENCODED], ids=["plain", "encoded"])
@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("monthMV(t)", [[1, 1], [], [12, 2]]),
        ("hourMV(t, 'Asia/Tokyo')", [[9, 9], [], [8, 9]]),
        ("dateTruncMV('MONTH', t)", [[0, 0], [], [-31 * DAY, 31 * DAY]]),
        ("toEpochDaysMV(t)", [[0, 1], [], [0, 31]]),
        ("toDateTimeMV(t, 'MM-dd')", [["01-01", "01-02"], [], ["12-31", "02-01"]]),
        ("fromDateTimeMV(toDateTimeMV(t, 'yyyy-MM-dd'), 'yyyy-MM-dd')", [[0, DAY], [], [-DAY, 31 * DAY]]),
        ("timestampDiffMV('DAY', n, t)", [[0, 1], [], [-2, 29]]),
        ("timestampDiffMV('DAY', t, n)", [[0, -1], [], [2, -29]]),
        ("dateAddMV('DAY', 1, t)", [[DAY, 2 * DAY], [], [DAY - 1, 32 * DAY]]),
        ("roundMV(t, 172800000)", [[0, 0], [], [0, 30 * DAY]]),
    ],
)
def test_each_value_of_a_list(column: Operand, call: str, expected: Any) -> None:
    assert run(call, n=longs(0, DAY, 2 * DAY), t=column) == expected


def test_every_twin_has_the_arguments_of_its_function() -> None:
    for call in ("yearMV(n)", "yearMV(t, t)", "yearMV()", "dateTruncMV('EON', t)", "yearMV(t, 'Mars')"):
        with pytest.raises(QueryError) as caught:
            run(call, n=longs(0, 1, 2), t=LISTS)
        assert caught.value.code is ErrorCode.QUERY_VALIDATION


# -- wrong constants, reported before rows are read


@pytest.mark.parametrize(
    "call",
    [
        "dateTrunc('fortnight', t)",
        "dateTrunc('day', t, 'FORTNIGHTS')",
        "dateTrunc('day', t, 'DAYS', 'Mars/Olympus')",
        "timestampAdd('days', 1, t)",
        "dateBin('1x', t, 0)",
        "dateBin('0d', t, 0)",
        "timeConvert(t, 'DAYS', 'DECADES')",
        "toDateTime(t, 'QQ')",
        "toDateTime(t, 'yyyy', 'Mars')",
        "fromDateTime(s, 'yyyy', 'Mars')",
        "year(t, 'Mars')",
        "ago('P1M')",
        "timezoneHour('Mars')",
        "dateTimeConvert(t, 'EPOCH|AEONS', 'EPOCH', '1:DAYS')",
        "dateTimeConvertWindowHop(t, 'EPOCH', 'EPOCH', '1:NANOSECONDS', '1:DAYS')",
        "dateTimeConvertWindowHop(t, 'EPOCH', 'EPOCH', '1:MILLISECONDS', '1:DAYS')",
        "extract(EON FROM t)",
    ],
)
def test_wrong_constant(call: str) -> None:
    with pytest.raises(QueryError) as caught:
        result_type(parse_expression(call), lambda name: (STRING if name == "s" else LONG, False))
    assert caught.value.code in (ErrorCode.QUERY_VALIDATION, ErrorCode.SQL_PARSING)
