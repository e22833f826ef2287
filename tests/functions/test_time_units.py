"""The time unit that a function depends on: equal results for a time and for the start of its unit."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gamay.functions.evaluate import evaluate
from gamay.functions.expression import Call, Column
from gamay.functions.scalar.time.dates import truncate_local
from gamay.functions.scalar.time.time_units import dividing, unit_read
from gamay.functions.vector import Vector
from gamay.model.types import DataType
from gamay.query.answer.values import python_values
from gamay.sql.parser import parse_expression

_FORMATS = ("1:MILLISECONDS:EPOCH", "TIMESTAMP", "1:DAYS:EPOCH", "3:HOURS:EPOCH")
_TEXTS = ("1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd HH:mm:ss.SSS", "1:DAYS:SIMPLE_DATE_FORMAT:yyyy")
_SIZES = ("3:DAYS", "36:HOURS", "30:MINUTES", "86400:SECONDS", "3600000:MILLISECONDS")
LOOKING = {
    **{f"dateTrunc('{unit}', t)": unit for unit in ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")},
    "dateTrunc('day', t, 'MILLISECONDS', 'UTC', 'DAYS')": "DAY",
    "year(t)": "YEAR", "quarter(t)": "QUARTER", "month(t)": "MONTH", "week(t)": "WEEK", "yearOfWeek(t)": "WEEK",
    "dayOfYear(t)": "DAY", "day(t)": "DAY", "dow(t)": "DAY", "hour(t)": "HOUR", "minute(t, 'UTC')": "MINUTE",
    "second(t)": "SECOND", "extract(DOY FROM t)": "DAY", "extract(YEAR FROM t)": "YEAR",
    **{f"toEpoch{unit.title()}s(t)": unit for unit in ("SECOND", "MINUTE", "HOUR", "DAY")},
    "toEpochMinutesRounded(t, 10)": "MINUTE", "toEpochHoursBucket(t, 5)": "HOUR",
    **{f"timeConvert(t, 'MILLISECONDS', '{unit}S')": unit for unit in ("SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR")},
    "timeConvert(t, 'MILLISECONDS', 'WEEKS')": "DAY",
    **{f"dateTimeConvert(t, '{_FORMATS[number % 2]}', '{target}', '{size}'{zone})": None
       for number, target in enumerate((*_FORMATS, *_TEXTS)) for size in _SIZES for zone in ("", ", 'UTC'")},
    "toDateTime(t, 'yyyy-MM-dd')": "DAY", "toDateTime(t, 'yyyy HH', 'UTC')": "HOUR", "toDateTime(t, 'mm:ss')": "SECOND",
}  # fmt: skip
"""Calls, and the unit that each is to be known to look at; None: whichever, of those that are known."""
UNKNOWN = (
    "dateTrunc('DAY', t, 'SECONDS')", "dateTrunc('DAY', t, 'MILLISECONDS', 'America/New_York')", "hour(t, 'Asia/Kolkata')",
    "millisecond(t)", "toDateTime(t, 'SSS')", "toDateTime(t, 'yyyy-MM-dd', 'America/New_York')",
    "dateTimeConvert(t, '1:SECONDS:EPOCH', '1:DAYS:EPOCH', '1:DAYS')", "timeConvert(t, 'SECONDS', 'DAYS')",
    "dateTimeConvert(t, 'TIMESTAMP', '1:DAYS:SIMPLE_DATE_FORMAT:yyyy tz(Asia/Tokyo)', '1:DAYS')", "year(t + 1)",
)  # fmt: skip


def values(call: Call, times: np.ndarray) -> list[object]:
    found = evaluate(call, lambda _: Vector(DataType.TIMESTAMP, times), len(times))
    assert isinstance(found, Vector)
    return python_values(found)


_TIMES = st.lists(st.integers(-(2**55), 2**55), min_size=1, max_size=20)


@pytest.mark.parametrize("text", LOOKING)
def test_units_are_those_of_the_function(text: str) -> None:
    call = parse_expression(text)
    assert isinstance(call, Call)
    read = unit_read(call)
    if LOOKING[text] is not None:
        assert read is not None
        assert read.unit == LOOKING[text]
        assert read.is_start == (text.startswith("dateTrunc") and "DAYS" not in text)

    @settings(max_examples=15)
    @given(_TIMES)
    @example([-1, 0, 1, -86_400_001, 86_399_999])
    def check(times: list[int]) -> None:
        if read is None:
            return
        whole = np.array([abs(time) for time in times] if read.since_epoch else times, np.int64)
        # Python prints years of four digits
        limit = 250_000_000_000_000 if "toDateTime" in text or "SIMPLE" in text else 2**55
        whole = np.where(np.abs(whole) > limit, whole % limit, whole)
        for unit in dividing(read.unit):
            assert values(call, truncate_local(whole, unit)) == values(call, whole), unit

    check()


@pytest.mark.parametrize("text", UNKNOWN)
def test_other_functions_are_left_alone(text: str) -> None:
    call = parse_expression(text)
    assert isinstance(call, Call)
    assert unit_read(call) is None


def test_enough_conversions_are_known() -> None:
    calls = [call for text in LOOKING if isinstance(call := parse_expression(text), Call)]
    assert sum(unit_read(call) is not None for call in calls) > 0.9 * len(LOOKING)
    assert Column("t") in calls[0].args
