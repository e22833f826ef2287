"""Date patterns against Python's strftime, against DuckDB's strptime, and by round trips."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.base.errors import InvalidConfigError
from gamay.model.schema.joda import JodaPattern, joda_pattern
from gamay.model.zones import EPOCH, format_timestamp, parse_offset, parse_timestamp, time_zone

MILLIS = st.integers(-62_135_596_800_000, 253_402_300_799_999)  # years 1 to 9999
SANE_MILLIS = st.integers(-2_000_000_000_000, 4_000_000_000_000)
ZONES = st.sampled_from(
    ["UTC", "America/Chicago", "Asia/Kolkata", "Europe/Dublin", "Australia/Lord_Howe", "+05:30", "-11:00"]
)

# pattern -> the same in strftime's language, where it has one
STRFTIME = {
    "yyyy-MM-dd": "%Y-%m-%d",
    "yyyyMMdd": "%Y%m%d",
    "yyyyMMddHHmmss": "%Y%m%d%H%M%S",
    "yyyy/MM/dd HH:mm:ss": "%Y/%m/%d %H:%M:%S",
    "yyyy-DDD": "%Y-%j",
    "dd MMM yyyy": "%d %b %Y",
    "EEEE, d MMMM yyyy": None,
    "EEE hh:mm:ss a dd.MM.yyyy": "%a %I:%M:%S %p %d.%m.%Y",
    "xxxx-'W'ww-e": "%G-W%V-%u",
    "yyyy-MM-dd'T'HH:mm:ss.SSSSSS": None,
    "yyyy-MM-dd'T'HH:mm:ssZ": "%Y-%m-%dT%H:%M:%S%z",
    "yyyy'''y'": "%Y'y",
}
# patterns whose text determines the time completely, to the given number of milliseconds
COMPLETE = {
    "yyyy-MM-dd'T'HH:mm:ss.SSSZZ": 1,
    "yyyy-MM-dd HH:mm:ss.SSSSSS ZZ": 1,
    "yyyyMMddHHmmssSSSZ": 1,
    "EEEE, MMMM d yyyy h:mm:ss.SSS a ZZ": 1,
    "xxxx-'W'ww-e kk:mm:ss ZZ": 1000,
    "yyyy-DDD KK:mm a Z": 60_000,
    "d/M/y H:m:s.SSS Z": 1,
}


@given(MILLIS.filter(lambda ms: ms > -30_000_000_000_000), ZONES, st.sampled_from([p for p, s in STRFTIME.items() if s]))
def test_printing_agrees_with_strftime(millis: int, zone: str, pattern: str) -> None:
    local = (EPOCH + timedelta(milliseconds=millis)).astimezone(time_zone(zone)) if millis < 253_400_000_000_000 else None
    if local is not None and (local.utcoffset() or timedelta(0)).seconds % 60 == 0:
        assert JodaPattern(pattern).print(millis, time_zone(zone)) == local.strftime(str(STRFTIME[pattern]))


@given(
    st.lists(SANE_MILLIS, min_size=1, max_size=30),
    st.sampled_from(["yyyy-MM-dd", "yyyyMMddHHmmss", "yyyy/MM/dd HH:mm:ss", "dd MMM yyyy"]),
)
def test_reading_agrees_with_duckdb(many: list[int], pattern: str) -> None:
    texts = [joda_pattern(pattern).print(millis) for millis in many]
    rows = duckdb.execute(
        "SELECT epoch_ms(strptime(t, $f)) FROM (SELECT unnest($t::VARCHAR[]) AS t)", {"t": texts, "f": STRFTIME[pattern]}
    ).fetchall()
    assert [joda_pattern(pattern).parse(text) for text in texts] == [row[0] for row in rows]


@given(SANE_MILLIS, ZONES, st.sampled_from(list(COMPLETE)))
def test_what_is_printed_with_its_offset_reads_back(millis: int, zone: str, pattern: str) -> None:
    unit = COMPLETE[pattern]
    compiled, tz = joda_pattern(pattern), time_zone(zone)
    offset = (EPOCH + timedelta(milliseconds=millis)).astimezone(tz).utcoffset() or timedelta(0)
    if offset % timedelta(minutes=1):
        return  # zones of the nineteenth century have seconds in their offsets, which patterns cannot say
    assert compiled.parse(compiled.print(millis, tz)) == millis // unit * unit


@given(SANE_MILLIS, st.sampled_from(["America/Chicago", "Europe/Dublin", "Asia/Kolkata", "+05:30", "-11:00", "UTC"]))
def test_zone_names_read_back(millis: int, zone: str) -> None:
    compiled = joda_pattern("yyyy-MM-dd HH:mm:ss.SSS ZZZ")
    text = compiled.print(millis, time_zone(zone))
    again = compiled.parse(text)
    assert text.endswith(zone)
    assert compiled.print(again, time_zone(zone)) == text  # the hour that occurs twice reads as the earlier one
    assert again in (millis, millis - 3_600_000)


@given(st.datetimes(datetime(1972, 1, 1), datetime(2037, 1, 1)), st.sampled_from(["America/New_York", "Europe/Berlin"]))
def test_local_times_agree_with_zoneinfo(moment: datetime, zone: str) -> None:
    moment = moment.replace(microsecond=0)
    expected = moment.replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000
    assert joda_pattern("yyyy-MM-dd HH:mm:ss").parse(f"{moment:%Y-%m-%d %H:%M:%S}", time_zone(zone)) == expected


def test_skipped_times_move_forward_and_repeated_ones_are_the_earlier() -> None:
    zone, pattern = time_zone("America/New_York"), joda_pattern("yyyy-MM-dd HH:mm")
    assert pattern.print(pattern.parse("2013-03-10 02:30", zone), zone) == "2013-03-10 03:30"
    assert pattern.parse("2013-11-03 01:30", zone) == datetime(2013, 11, 3, 5, 30, tzinfo=UTC).timestamp() * 1000


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("yyyy", "2013", "2013-01-01 00:00:00.0"),
        ("CCyy", "1913", "1913-01-01 00:00:00.0"),
        ("yyyy G", "2013 ad", "2013-01-01 00:00:00.0"),
        ("HH:mm", "13:05", "1970-01-01 13:05:00.0"),
        ("MM-dd", "02-29", "2000-02-29 00:00:00.0"),
        ("yyyy-MM", "2013-07", "2013-07-01 00:00:00.0"),
        ("xxxx-'W'ww", "2013-W05", "2013-01-28 00:00:00.0"),
        ("M/d/yy", "1/31/13", "2013-01-31 00:00:00.0"),
        ("M/d/yy", "1/31/70", "1970-01-31 00:00:00.0"),
        ("M/d/yy", "1/31/69", "2069-01-31 00:00:00.0"),
        ("M/d/yy", "1/31/2013", "2013-01-31 00:00:00.0"),
        ("yyMMdd", "130131", "2013-01-31 00:00:00.0"),
        ("h a", "12 am", "1970-01-01 00:00:00.0"),
        ("h a", "12 PM", "1970-01-01 12:00:00.0"),
        ("K:mm a", "0:30 pm", "1970-01-01 12:30:00.0"),
        ("kk", "24", "1970-01-01 00:00:00.0"),
        ("d MMM yyyy", "3 august 2013", "2013-08-03 00:00:00.0"),
        ("ss.S", "01.5", "1970-01-01 00:00:01.5"),
        ("ss.SSSSSS", "01.123456", "1970-01-01 00:00:01.123"),
        ("yyyy-MM-dd HH:mm z", "2013-07-01 08:00 EST", "2013-07-01 13:00:00.0"),
        ("yyyy-MM-dd HH:mm ZZZ", "2013-07-01 08:00 America/Argentina/Buenos_Aires", "2013-07-01 11:00:00.0"),
        ("yyyy-MM-dd'T'HH:mmZ", "2013-07-01T08:00Z", "2013-07-01 08:00:00.0"),
        ("yyyy-MM-dd'T'HH:mmZ", "2013-07-01T08:00+05:30", "2013-07-01 02:30:00.0"),
        ("yyyy 'o''clock'", "2013 o'clock", "2013-01-01 00:00:00.0"),
        ("''yy", "'13", "2013-01-01 00:00:00.0"),
        ("yyyy年MM月", "2013年07月", "2013-07-01 00:00:00.0"),
    ],
)
def test_reading(pattern: str, text: str, expected: str) -> None:
    assert format_timestamp(JodaPattern(pattern).parse(text)) == expected


@pytest.mark.parametrize(
    ("pattern", "text", "reason"),
    [
        ("yyyy-MM-dd", "2013/01/31", "position 4 does not fit '-'"),
        ("yyyy-MM-dd", "2013-13-01", "month 13 is not in 1 to 12"),
        ("yyyy-MM-dd", "2013-02-29", "no point in time"),
        ("yyyy-MM-dd", "2013-01-31x", "goes on after position 10"),
        ("yyyyMMdd", "201311", "position 6"),
        ("yyyy-MM-dd", "", "position 0"),
        ("EEE yyyy-MM-dd", "Mon 2013-01-01", "day of week"),
        ("yyyy yyyy", "2013 2014", "two values"),
        ("yyyy-DDD", "2013-366", "no day 366"),
        ("HH:mm", "25:00", "hour 25"),
        ("yyyy", "٢٠١٣", "position 0"),
        ("yyyy", "0", "no point in time"),
        ("yyyy-MM-dd ZZZ", "2013-01-01 Mars/Olympus", "not a time zone"),
        ("HH a", "13 AM", "hour 13 of the day is not AM"),
        ("HH Z", "10 +99:00", "not a zone offset"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(pattern: str, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=pattern.replace("'", ".")) as caught:
        JodaPattern(pattern).parse(text)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [("yyyy-MM-ddTHH", "'T' at position 10"), ("yyyy-QQ", "'Q' at position 5"), ("yyyy 'never", "position 5")],
)
def test_bad_patterns_are_refused_with_their_place(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        JodaPattern(pattern)
    assert reason in str(caught.value)
    assert pattern in str(caught.value)


def test_printing_outside_the_calendar_is_refused() -> None:
    with pytest.raises(ValueError, match="years 1 to 9999"):
        JodaPattern("yyyy").print(2**62)
    with pytest.raises(ValueError, match="years 1 to 9999"):
        JodaPattern("yyyy").print(253_402_300_799_999, time_zone("+05:00"))


@given(MILLIS)
def test_timestamps_read_back(millis: int) -> None:
    assert parse_timestamp(format_timestamp(millis)) == millis
    assert parse_timestamp(str(millis)) == millis


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2013-01-31", "2013-01-31 00:00:00.0"),
        ("2013-01-31 05:15", "2013-01-31 05:15:00.0"),
        ("2013-01-31T05:15:00.123456Z", "2013-01-31 05:15:00.123"),
        ("2013-01-31 05:15:00+01:00", "2013-01-31 04:15:00.0"),
    ],
)
def test_timestamps(text: str, expected: str) -> None:
    assert format_timestamp(parse_timestamp(text)) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "2013-13-01", "2013-01-31 25:00:00", "2013-1-1", "2013-01-31 05"])
def test_what_is_no_timestamp_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a timestamp"):
        parse_timestamp(text)


def test_zones() -> None:
    assert time_zone("utc") is UTC
    assert parse_offset("-0130").utcoffset(None) == timedelta(minutes=-90)
    with pytest.raises(InvalidConfigError, match="Did you mean 'America/Chicago'"):
        time_zone("America/Chicgo")
    for bad in ("+25:00", "+05:75", "../etc/passwd", ""):
        with pytest.raises(InvalidConfigError):
            time_zone(bad)


def test_reading_never_goes_back() -> None:
    pattern = JodaPattern("MMM-" * 60)  # May is its own abbreviation: 2 to the power of 60 ways to read it
    with pytest.raises(ValueError, match="goes on after position 240"):
        pattern.parse("May-" * 60 + "x")
    with pytest.raises(InvalidConfigError, match="has 1001 characters, of at most 1000"):
        JodaPattern("y" * 1001)
