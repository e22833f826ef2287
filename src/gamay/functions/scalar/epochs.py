"""Times between units and formats: epoch counts, patterns, and the conversions of date-time columns."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gamay.base.errors import ErrorCode, InvalidConfigError, QueryError
from gamay.functions.expression import Call, Literal
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.convert import array_of, by_distinct, convert, to_vector
from gamay.functions.scalar.dates import (
    UNIT_MS,
    java_unit,
    months_of,
    rescale,
    truncate_local,
)
from gamay.functions.scalar.define import (
    by_value,
    check_count,
    const,
    each,
    fixed,
    result_vector,
    scalar,
    wrong,
)
from gamay.functions.scalar.zones import to_local, to_utc
from gamay.functions.vector import Operand, Scalar, take, union_nulls
from gamay.model.datetime_format import DateTimeFormat, DateTimeKind, Granularity, JodaPattern, joda_pattern, time_zone
from gamay.model.types import DataType

STRING, LONG, TIMESTAMP = DataType.STRING, DataType.LONG, DataType.TIMESTAMP
_UNITS = {"Seconds": 1000, "Minutes": 60_000, "Hours": 3_600_000, "Days": 86_400_000}


def _towards_zero(values: Any, size: Any) -> Any:
    return (values - np.fmod(values, size)) // size


def _checked(size: Any) -> Any:
    if np.any(size <= 0):
        raise QueryError(ErrorCode.QUERY_EXECUTION, "The size of a time bucket must be greater than 0")
    return size


def _register_unit(name: str, size: int) -> None:
    """`toEpochX(ms)`, `fromEpochX(v)`, and their Rounded and Bucket forms with a count of units."""
    pair = (each(LONG), each(LONG))
    scalar(f"toEpoch{name}", params=(each(LONG),), returns=LONG)(lambda ms: _towards_zero(ms, size))
    scalar(f"fromEpoch{name}", params=(each(LONG),), returns=LONG)(lambda v: v * size)
    scalar(f"toEpoch{name}Rounded", params=pair, returns=LONG)(
        lambda ms, n: _towards_zero(_towards_zero(ms, size), _checked(n)) * n
    )
    scalar(f"toEpoch{name}Bucket", params=pair, returns=LONG)(
        lambda ms, n: _towards_zero(_towards_zero(ms, size), _checked(n))
    )
    scalar(f"fromEpoch{name}Bucket", params=pair, returns=LONG)(lambda v, n: v * n * size)


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
    """Make a ValueError of a function one of the query, with the name of the SQL function."""

    def run(value: Any) -> Any:
        try:
            return function(value)
        except ValueError as error:
            raise QueryError(ErrorCode.QUERY_EXECUTION, f"Function '{name}': {error}") from None

    return run


_PRINTED_UNITS = (("S", 1), ("s", 1000), ("m", 60_000), ("HkKha", 3_600_000))


def _printed_unit(pattern: JodaPattern) -> int:
    """Return the milliseconds of local time within which a pattern prints the same; 1 when it prints the offset."""
    letters = {token.letter for token in pattern.tokens}
    if letters & set("zZ"):
        return 1
    return next((size for used, size in _PRINTED_UNITS if letters & set(used)), UNIT_MS["DAY"])


@scalar("toDateTime", params=(each(TIMESTAMP), const(STRING), const(STRING)), returns=STRING, optional=1)
def to_date_time(times: Any, pattern: str, zone: str = "UTC") -> Any:
    """Printed once for each distinct unit that the pattern shows."""
    compiled, info = _pattern(pattern), _zone(zone)
    millis = np.atleast_1d(times)
    units = np.floor_divide(to_local(millis, zone), _printed_unit(compiled))
    _, first, back = np.unique(units, return_index=True, return_inverse=True)
    texts = [_guarded("toDateTime", lambda ms: compiled.print(ms, info))(ms) for ms in millis[first].tolist()]
    return take(array_of(texts, STRING), back)


@by_value("fromDateTime", params=(STRING, STRING, STRING, LONG), returns=LONG, optional=2)
def from_date_time(text: str, pattern: str, zone: str = "UTC", default: int | None = None) -> int:
    """The default stands for text that does not fit the pattern, which is an error without one."""
    try:
        return _pattern(pattern).parse(text, _zone(zone))
    except ValueError:
        if default is None:
            raise
        return default


@by_value("toIso8601", params=(TIMESTAMP,), returns=STRING)
def to_iso8601(millis: int) -> str:
    return _pattern("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'").print(millis)


@by_value("fromIso8601", params=(STRING,), returns=LONG)
def from_iso8601(text: str) -> int:
    return DateTimeFormat.parse("SIMPLE_DATE_FORMAT").to_millis(text)


# -- timeConvert


@scalar("timeConvert", params=(each(LONG), fixed(STRING), fixed(STRING)), returns=LONG)
def time_convert(values: Any, in_unit: str, out_unit: str) -> Any:
    """Whole units since the epoch; the output also in WEEKS, MONTHS and YEARS."""
    source, target = java_unit("timeConvert", in_unit), out_unit.strip().upper()
    if target in ("MONTHS", "YEARS"):
        months = months_of(rescale(np.atleast_1d(values), source, 1_000_000))
        return months if target == "MONTHS" else np.floor_divide(months, 12)
    if target == "WEEKS":
        return rescale(values, source, 7 * 86_400_000_000_000)
    return rescale(values, source, java_unit("timeConvert", out_unit))


# -- dateTimeConvert


@lru_cache(maxsize=256)
def _format(text: str) -> DateTimeFormat:
    try:
        return DateTimeFormat.parse(text)
    except InvalidConfigError as error:
        raise QueryError(ErrorCode.QUERY_VALIDATION, f"Function 'dateTimeConvert': {error}") from None


@lru_cache(maxsize=256)
def _granularity(text: str) -> Granularity:
    try:
        return Granularity.parse(text)
    except InvalidConfigError as error:
        raise QueryError(ErrorCode.QUERY_VALIDATION, f"Function 'dateTimeConvert': {error}") from None


def _constant_text(call: Call, position: int) -> str:
    arg = call.args[position]
    if not isinstance(arg, Literal) or not isinstance(arg.value, str):
        raise wrong("dateTimeConvert", f"argument {position + 1} must be a constant text")
    return arg.value


def _convert_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    check_count("dateTimeConvert", len(types), 4, 5)
    if types[0][1]:
        raise wrong("dateTimeConvert", "argument 1 must be single-value")
    _format(_constant_text(call, 1))
    _granularity(_constant_text(call, 3))
    target = _format(_constant_text(call, 2))
    return (STRING if target.kind is DateTimeKind.SIMPLE_DATE_FORMAT else LONG), False


def _to_millis(operand: Operand, source: DateTimeFormat, num_rows: int) -> Any:
    if source.kind is DateTimeKind.EPOCH:
        values = to_vector(convert(operand, LONG), num_rows).values
        return rescale(values * source.size, source.unit.value, 1_000_000)
    if source.kind is DateTimeKind.TIMESTAMP:
        return to_vector(convert(operand, TIMESTAMP), num_rows).values
    texts = to_vector(convert(operand, STRING), num_rows).values
    return by_distinct(texts, _guarded("dateTimeConvert", source.to_millis), LONG)


_NEXT_LARGER = {"MILLISECOND": "SECOND", "SECOND": "MINUTE", "MINUTE": "HOUR", "HOUR": "DAY"}


def _bucketed(millis: Any, granularity: Granularity, zone: str | None) -> Any:
    """Round down to whole granularities from the epoch; with a zone to n units within the next larger unit of local time."""
    size_ms = max(granularity.size * granularity.unit.value // 1_000_000, 1)
    if zone is None:
        return _towards_zero(millis, size_ms) * size_ms
    unit = granularity.unit.name.removesuffix("S")
    local = to_local(millis, zone)
    if unit not in _NEXT_LARGER:
        whole = truncate_local(local, "DAY") if unit == "DAY" else local
        base = truncate_local(local, "MONTH") if unit == "DAY" else local
    else:
        whole, base = local, truncate_local(local, _NEXT_LARGER[unit])
    step = granularity.size * UNIT_MS.get(unit, 1)
    return to_utc(base + (whole - base) // step * step, zone)


def _date_time_convert(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    source, target = _format(_constant_text(call, 1)), _format(_constant_text(call, 2))
    granularity = _granularity(_constant_text(call, 3))
    zone = _constant_text(call, 4) if len(args) > 4 else None
    operand = args[0]
    constant = isinstance(operand, Scalar)
    if isinstance(operand, Scalar) and operand.value is None:
        return Scalar(None, _convert_type(call, [(arg.type, False) for arg in args])[0])
    rows = 1 if constant else num_rows
    millis = _to_millis(operand, source, rows)
    if target.kind is DateTimeKind.SIMPLE_DATE_FORMAT and zone is None:
        unit = granularity.unit.name.removesuffix("S")
        name = str(getattr(target.time_zone, "key", "")) or "UTC"
        bucketed = to_utc(truncate_local(to_local(millis, name), unit if unit in UNIT_MS else "MILLISECOND"), name)
        values = by_distinct(bucketed, _guarded("dateTimeConvert", target.from_millis), STRING)
        result = result_vector(values, STRING, rows, union_nulls(args))
    elif target.kind is DateTimeKind.SIMPLE_DATE_FORMAT:
        values = by_distinct(_bucketed(millis, granularity, zone), _guarded("dateTimeConvert", target.from_millis), STRING)
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
