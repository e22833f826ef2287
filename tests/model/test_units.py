"""Periods, data sizes, time units and table names."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.base.errors import InvalidConfigError
from gamay.model.table.table_name import TableType, name_problems, raw_table_name, table_type_of, typed_table_name
from gamay.model.units import TimeUnit, format_data_size, format_period, parse_data_size, parse_period


@given(st.integers(-(10**12), 10**12))
def test_a_period_reads_back(seconds: int) -> None:
    assert parse_period(format_period(seconds * 1000)) == seconds * 1000


@pytest.mark.parametrize(
    ("text", "millis"),
    [("6h", 21_600_000), ("1d12h", 129_600_000), ("30m", 1_800_000), ("0d", 0), ("-1d", -86_400_000), ("1D", 86_400_000)],
)
def test_periods(text: str, millis: int) -> None:
    assert parse_period(text) == millis


@pytest.mark.parametrize("text", ["", "5", "h", "1w", "1h2d", "1.5h", "1h 2m", "5ms", "d5", "١d"])
def test_what_is_no_period_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidConfigError, match="is not a period"):
        parse_period(text)


def test_a_period_cannot_say_milliseconds() -> None:
    with pytest.raises(ValueError, match="whole number of seconds"):
        format_period(1500)


@given(st.integers(0, 10**6), st.sampled_from("KMGTP"), st.sampled_from(["", "B", "b"]), st.booleans())
def test_data_sizes_are_powers_of_1024(number: int, letter: str, tail: str, lower: bool) -> None:
    expected = number * 1024 ** ("KMGTP".index(letter) + 1)
    assert parse_data_size(f"{number}{letter.lower() if lower else letter}{tail}") == expected


@given(st.integers(0, 2**60))
def test_a_data_size_reads_back_to_two_decimals(size: int) -> None:
    again = parse_data_size(format_data_size(size))
    unit = max(1024**e for e in range(6) if size >= 1024**e or e == 0)
    assert abs(again - size) <= Fraction(unit, 200) + 1


@pytest.mark.parametrize("text", ["", "M", "-1M", "1.M", "1 MB", "1X", "1KiB", "1e3"])
def test_what_is_no_data_size_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidConfigError, match="is not a data size"):
        parse_data_size(text)


@given(st.sampled_from(TimeUnit), st.integers(-(10**9), 10**9))
def test_units_round_down(unit: TimeUnit, millis: int) -> None:
    count = unit.from_millis(millis)
    assert Fraction(count * unit.value, 10**6) <= millis < Fraction((count + 1) * unit.value, 10**6)


def test_an_unknown_unit_is_answered_with_the_nearest() -> None:
    with pytest.raises(InvalidConfigError, match="Did you mean 'SECONDS'"):
        TimeUnit.parse("SECOND")
    assert TimeUnit.parse("days") is TimeUnit.DAYS


@given(st.from_regex(r"[a-z]{1,5}(_[a-z]{1,5})?", fullmatch=True), st.sampled_from(TableType))
def test_a_typed_name_is_taken_apart_again(raw: str, table_type: TableType) -> None:
    typed = typed_table_name(raw, table_type)
    assert (raw_table_name(typed), table_type_of(typed)) == (raw, table_type)
    assert typed_table_name(typed, table_type) == typed
    assert table_type_of(raw) is None


def test_a_name_of_the_other_type_is_refused() -> None:
    with pytest.raises(InvalidConfigError, match="other type"):
        typed_table_name("trips_REALTIME", TableType.OFFLINE)


@pytest.mark.parametrize("name", ["", "a b", "a\tb", "a__b", "a.b.c", ".a", "a.", "a/b", "a\\b", "a\x00b", "../a"])
def test_bad_table_names(name: str) -> None:
    assert list(name_problems(name))


@pytest.mark.parametrize("name", ["a", "db.trips", "trips_2013", "flüge"])
def test_good_table_names(name: str) -> None:
    assert not list(name_problems(name))
