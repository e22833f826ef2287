"""Conversion of times between units and formats: epoch counts, patterns, and the formats of date-time columns."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gamay.base.errors import ErrorCode, InvalidConfigError, QueryError
from gamay.base.recently_used import remembered
from gamay.functions.arguments import check_count, wrong
from gamay.functions.convert import array_of, by_distinct, convert, to_vector
from gamay.functions.expression import Call, Literal
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar import whole
from gamay.functions.scalar.define import by_value, const, each, fixed, result_vector, scalar
from gamay.functions.scalar.time.dates import (
    UNIT_MS,
    java_unit,
    rescale,
    truncate_local,
    whole_months,
)
from gamay.functions.scalar.time.zones import to_local, to_utc
from gamay.functions.vector import Operand, Scalar, take, union_nulls
from gamay.model.schema.datetime_format import (
    ISO_PATTERN,
    DateTimeFormat,
    DateTimeKind,
    Granularity,
    JodaPattern,
    joda_pattern,
    time_zone,
)
from gamay.model.types import DataType
from gamay.model.zones import zone_id

STRING, LONG, TIMESTAMP = DataType.STRING, DataType.LONG, DataType.TIMESTAMP
_UNITS = {"Seconds": 1000, "Minutes": 60_000, "Hours": 3_600_000, "Days": 86_400_000}


def _checked(size: Any) -> Any:
    if np.any(size <= 0):
        raise QueryError(ErrorCode.QUERY_EXECUTION, "The size of a time bucket must be greater than 0")
    return size


def _register_unit(name: str, size: int) -> None:
    """Register `toEpochX(ms)`, `fromEpochX(v)`, and their Rounded and Bucket forms with a number of units."""
    count, counts = each(LONG), (each(LONG), each(LONG))
    scalar(f"toEpoch{name}", params=(each(TIMESTAMP),), returns=LONG)(lambda ms: whole.towards_zero(ms, size))
    scalar(f"fromEpoch{name}", params=(count,), returns=LONG)(lambda v: whole.scale(v, size))
    scalar(f"toEpoch{name}Rounded", params=(each(TIMESTAMP), count), returns=LONG)(
        lambda ms, n: whole.towards_zero(whole.towards_zero(ms, size), _checked(n)) * n
    )
    scalar(f"toEpoch{name}Bucket", params=(each(TIMESTAMP), count), returns=LONG)(
        lambda ms, n: whole.towards_zero(whole.towards_zero(ms, size), _checked(n))
    )
    scalar(f"fromEpoch{name}Bucket", params=counts, returns=LONG)(
        lambda v, n: whole.scale(whole.multiply(v, _checked(n)), size)
    )


for _unit_name, _size in _UNITS.items():
    _register_unit(_unit_name, _size)


@scalar("toTimestamp", params=(each(TIMESTAMP),), returns=TIMESTAMP)
def to_timestamp(times: Any) -> Any:
    return times


@scalar("fromTimestamp", params=(each(TIMESTAMP),), returns=LONG)
def from_timestamp(times: Any) -> Any:
    return times


# -- text and patterns


def _pattern(pattern: str) -> JodaPattern:
    try:
        return joda_pattern(pattern)
    except InvalidConfigError as error:
        raise QueryError(ErrorCode.QUERY_VALIDATION, str(error)) from None


def _zone(name: str) -> Any:
    try:
        return time_zone(name)
    except InvalidConfigError as error:
        raise QueryError(ErrorCode.QUERY_VALIDATION, str(error)) from None


def _guarded(name: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that reports a ValueError as a QueryError, with the name of the SQL function."""

    def run(value: Any) -> Any:
        try:
            return function(value)
        except ValueError as error:
            raise QueryError(ErrorCode.QUERY_EXECUTION, f"Function '{name}': {error}") from None

    return run


_PRINTED_UNITS = (("S", 1), ("s", 1000), ("m", 60_000), ("HkKha", 3_600_000))


def printed_unit(pattern: JodaPattern) -> int:
    """Return the milliseconds of local time within which a pattern's output is constant; 1 if it shows these."""
    letters = {token.letter for token in pattern.tokens}
    if letters & set("zZ"):
        return 1
    return next((size for used, size in _PRINTED_UNITS if letters & set(used)), UNIT_MS["DAY"])


@scalar("toDateTime", params=(each(TIMESTAMP), const(STRING, _pattern), const(STRING, _zone)), returns=STRING, optional=1)
def to_date_time(times: Any, pattern: str, zone: str = "UTC") -> Any:
    """The text of times in a pattern; formatted once for each distinct unit that the pattern shows."""
    compiled, info = _pattern(pattern), _zone(zone)
    millis = np.atleast_1d(times)
    size = printed_unit(compiled)
    # the local times of an hour that occurs twice are equal, their offsets are not
    units = millis if size == 1 else np.floor_divide(to_local(millis, zone), size)
    _, first, back = np.unique(units, return_index=True, return_inverse=True)
    return take(array_of([compiled.print_any(ms, info) for ms in millis[first].tolist()], STRING), back)


@scalar(
    "fromDateTime",
    params=(each(STRING), const(STRING, _pattern), const(STRING, _zone), const(LONG)),
    returns=LONG,
    optional=2,
)
def from_date_time(text: Any, pattern: str, zone: str = "UTC", default: int | None = None) -> Any:
    """The time that text in a pattern denotes; the default for invalid text, which is an error without one."""
    compiled, info = _pattern(pattern), _zone(zone)

    def read(value: str) -> int:
        try:
            return compiled.parse(value, info)
        except ValueError:
            if default is None:
                raise
            return default

    return by_distinct(text, _guarded("fromDateTime", read), LONG)


@scalar("toIso8601", params=(each(TIMESTAMP),), returns=STRING)
def to_iso8601(times: Any) -> Any:
    """The ISO-8601 text in UTC, with milliseconds if they are not 0: `2022-01-01T00:00:00Z`."""
    print_any = _pattern("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'").print_any
    return by_distinct(np.atleast_1d(times), lambda time: print_any(time).replace(".000Z", "Z"), STRING)


@by_value("fromIso8601", params=(STRING,), returns=LONG)
def from_iso8601(text: str) -> int:
    return DateTimeFormat.parse("SIMPLE_DATE_FORMAT").to_millis(text)


# -- timeConvert


def _check_target(name: str) -> None:
    if name.strip().upper() not in _LARGE_UNITS:
        java_unit("timeConvert", name)


_LARGE_UNITS = ("WEEKS", "MONTHS", "YEARS")


@scalar(
    "timeConvert",
    params=(each(LONG), fixed(STRING, lambda name: java_unit("timeConvert", name)), fixed(STRING, _check_target)),
    returns=LONG,
)
def time_convert(values: Any, in_unit: str, out_unit: str) -> Any:
    """The whole units since the epoch; the output may also be in WEEKS, MONTHS and YEARS."""
    source, target = java_unit("timeConvert", in_unit), out_unit.strip().upper()
    if target in ("MONTHS", "YEARS"):
        months = whole_months(0, rescale(np.atleast_1d(values), source, 1_000_000))
        return months if target == "MONTHS" else whole.towards_zero(months, 12)
    if target == "WEEKS":
        return rescale(values, source, 7 * 86_400_000_000_000)
    return rescale(values, source, java_unit("timeConvert", out_unit))


# -- dateTimeConvert


@remembered()
def parse_format(text: str) -> DateTimeFormat:
    """Return a format such as `1:DAYS:EPOCH`, from a cache; raises QueryError."""
    try:
        return DateTimeFormat.parse(text)
    except InvalidConfigError as error:
        raise QueryError(ErrorCode.QUERY_VALIDATION, str(error)) from None


@remembered()
def parse_granularity(text: str) -> Granularity:
    """Return a granularity such as `15:MINUTES`, from a cache; raises QueryError."""
    try:
        return Granularity.parse(text)
    except InvalidConfigError as error:
        raise QueryError(ErrorCode.QUERY_VALIDATION, str(error)) from None


def constant_text(call: Call, position: int) -> str:
    """Return the text of an argument that must be a constant; raises QueryError."""
    arg = call.args[position]
    if not isinstance(arg, Literal) or not isinstance(arg.value, str):
        raise wrong(call.name, f"argument {position + 1} must be a constant text")
    return arg.value


def _convert_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    check_count("dateTimeConvert", len(types), 4, 5)
    if types[0][1] or types[0][0].is_binary:
        raise wrong("dateTimeConvert", "argument 1 must be a single time")
    parse_format(constant_text(call, 1))
    parse_granularity(constant_text(call, 3))
    target = parse_format(constant_text(call, 2))
    return (STRING if target.kind is DateTimeKind.SIMPLE_DATE_FORMAT else LONG), False


def to_millis(operand: Operand, source: DateTimeFormat, num_rows: int) -> Any:
    """Return the times that a column of a format denotes: int64 [num_rows]."""
    if source.kind is DateTimeKind.EPOCH:
        values = to_vector(convert(operand, LONG), num_rows).values
        return rescale(values, source.size * source.unit.value, 1_000_000)
    if source.kind is DateTimeKind.TIMESTAMP:
        return to_vector(convert(operand, TIMESTAMP), num_rows).values
    texts = to_vector(convert(operand, STRING), num_rows).values
    return by_distinct(texts, _guarded("dateTimeConvert", source.to_millis), LONG)


def printed(millis: Any, target: DateTimeFormat) -> Any:
    """Return times as text in the pattern of a format: Arrow strings."""
    pattern = target.pattern or joda_pattern(ISO_PATTERN)
    return by_distinct(millis, lambda ms: pattern.print_any(ms, target.time_zone), STRING)


_NEXT_LARGER = {"MILLISECOND": "SECOND", "SECOND": "MINUTE", "MINUTE": "HOUR", "HOUR": "DAY"}


def _bucketed(millis: Any, granularity: Granularity, zone: str | None) -> Any:
    """Round down to whole granularities from the epoch; with a zone, to n units within the next larger unit of local time.

    The second occurrence of an hour that occurs twice is kept as such, as in Joda.
    """
    size_ms = max(granularity.size * granularity.unit.value // 1_000_000, 1)
    if zone is None:
        return whole.towards_zero(millis, size_ms) * size_ms
    unit = granularity.unit.name.removesuffix("S")
    local = to_local(millis, zone)
    if unit == "DAY":
        month = truncate_local(local, "MONTH")
        step = granularity.size * UNIT_MS[unit]
        return to_utc(month + (truncate_local(local, "DAY") - month) // step * step, zone)
    if unit not in _NEXT_LARGER:
        return millis  # finer than a millisecond
    base, step = truncate_local(local, _NEXT_LARGER[unit]), granularity.size * UNIT_MS[unit]
    start = base + (local - base) // step * step
    same_offset = whole.subtract(millis, local - start)
    fits = to_local(same_offset, zone) == start
    return same_offset if fits.all() else np.where(fits, same_offset, to_utc(start, zone))


def _date_time_convert(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    source, target = parse_format(constant_text(call, 1)), parse_format(constant_text(call, 2))
    granularity = parse_granularity(constant_text(call, 3))
    zone = constant_text(call, 4) if len(args) > 4 else None
    operand = args[0]
    constant = isinstance(operand, Scalar)
    if isinstance(operand, Scalar) and operand.value is None:
        return Scalar(None, _convert_type(call, [(arg.type, False) for arg in args])[0])
    rows = 1 if constant else num_rows
    millis = to_millis(operand, source, rows)
    if target.kind is DateTimeKind.SIMPLE_DATE_FORMAT and zone is None:
        name = zone_id(target.time_zone)
        if granularity.unit.name == "DAYS":  # of any number
            bucketed = to_utc(truncate_local(to_local(millis, name), "DAY"), name)
        else:
            bucketed = _bucketed(millis, granularity, name)
        values = printed(bucketed, target)
        result = result_vector(values, STRING, rows, union_nulls(args))
    elif target.kind is DateTimeKind.SIMPLE_DATE_FORMAT:
        values = printed(_bucketed(millis, granularity, zone), target)
        result = result_vector(values, STRING, rows, union_nulls(args))
    else:
        bucketed = _bucketed(millis, granularity, zone)
        epoch = target.kind is DateTimeKind.EPOCH
        values = rescale(bucketed, 1_000_000, target.unit.value * target.size) if epoch else bucketed
        result = result_vector(values, LONG, rows, union_nulls(args))
    if not constant:
        return result
    return Scalar(result.values[0].as_py() if result.type is STRING else int(result.values[0]), result.type)


register_scalar(["dateTimeConvert"], ScalarFunction("dateTimeConvert", 4, 5, _convert_type, _date_time_convert))
