"""The two syntaxes of date-time formats and granularities."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.base.errors import InvalidConfigError
from gamay.model.schema.datetime_format import DateTimeFormat, DateTimeKind, Granularity, sane_time
from gamay.model.units import TimeUnit

SANE_MILLIS = st.integers(31_536_000_000, 3_187_296_000_000)
PATTERNS = st.sampled_from(["yyyy-MM-dd", "yyyyMMdd", "yyyy-MM-dd HH:mm:ss.SSS", "yyyy-MM-dd'T'HH:mm", "yyyyMM"])
ZONES = st.sampled_from(["UTC", "America/Chicago", "Asia/Kolkata", "+05:30"])


@given(st.integers(1, 1000), st.sampled_from(TimeUnit))
def test_both_syntaxes_of_epoch_mean_the_same(size: int, unit: TimeUnit) -> None:
    assert DateTimeFormat.parse(f"{size}:{unit.name}:EPOCH") == DateTimeFormat.parse(f"EPOCH|{unit.name}|{size}")
    assert Granularity.parse(f"{size}:{unit.name}") == Granularity.parse(f"{unit.name}|{size}")


@given(PATTERNS, ZONES)
def test_both_syntaxes_of_patterns_mean_the_same(pattern: str, zone: str) -> None:
    colon = DateTimeFormat.parse(f"1:DAYS:SIMPLE_DATE_FORMAT:{pattern} tz({zone})")
    assert colon == DateTimeFormat.parse(f"SIMPLE_DATE_FORMAT|{pattern}|{zone}")
    assert colon.pattern is not None
    assert colon.pattern.pattern == pattern


@given(SANE_MILLIS, st.integers(1, 60), st.sampled_from(TimeUnit))
def test_epoch_values_are_the_start_of_their_bucket(millis: int, size: int, unit: TimeUnit) -> None:
    parsed = DateTimeFormat.parse(f"{size}:{unit.name}:EPOCH")
    value = parsed.from_millis(millis)
    assert 0 <= millis - parsed.to_millis(value) <= size * unit.value / 1_000_000 + 1
    assert parsed.to_millis(str(value)) == parsed.to_millis(value)


@given(SANE_MILLIS, PATTERNS)
def test_text_values_sort_like_time_and_read_back(millis: int, pattern: str) -> None:
    parsed = DateTimeFormat.parse(f"SIMPLE_DATE_FORMAT|{pattern}")
    value = parsed.from_millis(millis)
    start = parsed.to_millis(value)
    assert start <= millis
    assert parsed.from_millis(start) == value
    assert str(parsed.from_millis(millis - 40 * 86_400_000)) < str(value)


def test_numbers_are_read_by_patterns_too() -> None:
    assert DateTimeFormat.parse("1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd").to_millis(20130131) == 1_359_590_400_000


@pytest.mark.parametrize("text", ["TIMESTAMP", "1:MILLISECONDS:TIMESTAMP", "timestamp"])
def test_timestamps(text: str) -> None:
    parsed = DateTimeFormat.parse(text)
    assert parsed.kind is DateTimeKind.TIMESTAMP
    assert parsed.to_millis("1970-01-02 00:00:00") == 86_400_000
    assert parsed.to_millis(5) == parsed.from_millis(5) == 5


@pytest.mark.parametrize("text", ["SIMPLE_DATE_FORMAT", "1:DAYS:SIMPLE_DATE_FORMAT"])
def test_without_a_pattern_times_are_iso(text: str) -> None:
    parsed = DateTimeFormat.parse(text)
    assert parsed.to_millis("1970-01-02") == 86_400_000
    assert parsed.to_millis("1970-01-01T01:00:00+01:00") == 0
    assert parsed.from_millis(1) == "1970-01-01T00:00:00.001+00:00"
    with pytest.raises(ValueError, match="ISO 8601"):
        parsed.to_millis("x")


def test_defaults_of_the_pipe_syntax() -> None:
    assert DateTimeFormat.parse("EPOCH") == DateTimeFormat.parse("1:MILLISECONDS:EPOCH")
    assert DateTimeFormat.parse("EPOCH|DAYS") == DateTimeFormat.parse("1:DAYS:EPOCH")
    assert Granularity.parse("DAYS").millis == 86_400_000


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not a kind"),
        ("1:DAYS", "a size, a unit and a kind"),
        ("1:DAYS:EPOHC", "Did you mean 'EPOCH'"),
        ("0:DAYS:EPOCH", "positive whole number"),
        ("x:DAYS:EPOCH", "is not a kind"),
        ("1.5:DAYS:EPOCH", "positive whole number"),
        ("1:DAY:EPOCH", "Did you mean 'DAYS'"),
        ("1:DAYS:EPOCH:yyyy", "nothing may follow"),
        ("EPOCH|DAYS|1|2", "nothing may follow"),
        ("1:DAYS:SIMPLE_DATE_FORMAT:yyyy-QQ", "'Q' at position 5"),
        ("1:DAYS:SIMPLE_DATE_FORMAT:yyyy tz(Mars)", "is not a time zone"),
        ("SIMPLE_DATE_FORMAT|yyyy|UTC|more", "at most a pattern and a zone"),
    ],
)
def test_bad_formats(text: str, reason: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        DateTimeFormat.parse(text)
    assert reason in str(caught.value)


@pytest.mark.parametrize("text", ["", "0:DAYS", "x:DAYS", "DAYS|0", "1:FORTNIGHTS", "DAYS|1|2", "1"])
def test_bad_granularities(text: str) -> None:
    with pytest.raises(InvalidConfigError):
        Granularity.parse(text)


@pytest.mark.parametrize(
    ("pattern", "sorts"),
    [
        ("yyyy-MM-dd", True),
        ("yyyyMMddHHmmssSSS", True),
        ("HH:mm", True),
        ("dd-MM-yyyy", False),
        ("yyyy-dd-MM", False),
        ("mm:HH", False),
        ("yyyy 'Md' MM", True),
    ],
)
def test_which_patterns_sort_like_time(pattern: str, sorts: bool) -> None:
    assert DateTimeFormat.parse(f"SIMPLE_DATE_FORMAT|{pattern}").sorts_like_time is sorts


def test_columns_of_every_numeric_type_can_hold_times() -> None:
    day, number = DateTimeFormat.parse("SIMPLE_DATE_FORMAT|yyyyMMdd"), DateTimeFormat.parse("1:SECONDS:EPOCH")
    assert day.to_millis(20130131.0) == day.to_millis(20130131) == day.to_millis("20130131")
    for value in (1.5, "1.5", "1.5e0", 1, 1.0, "1.0"):
        assert number.to_millis(value) == 1000
    for value in (math.inf, math.nan, "nan", "1_0", ""):
        with pytest.raises(ValueError, match="is not a number of SECONDS"):
            number.to_millis(value)


def test_values_of_another_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="is not a number of DAYS"):
        DateTimeFormat.parse("1:DAYS:EPOCH").to_millis("2013-01-31")


def test_the_window_of_sane_times() -> None:
    assert [sane_time(ms) for ms in (31_535_999_999, 31_536_000_000, 3_187_296_000_000, 3_187_296_000_001)] == [
        False,
        True,
        True,
        False,
    ]
