"""The time unit that a function depends on: `year(ts)` is constant within a year, `hour(ts)` within an hour.

Such a call may read times truncated to that unit, or to a unit that divides it. Units are those of UTC.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC

from gamay.base.errors import InvalidConfigError
from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.scalar.time.dates import UNIT_MS
from gamay.functions.scalar.time.epochs import parse_format, parse_granularity, printed_unit
from gamay.functions.scalar.time.zones import is_utc
from gamay.model.schema.datetime_format import DateTimeFormat, DateTimeKind, Granularity, joda_pattern
from gamay.model.types import DataType

_FIXED = ("DAY", "HOUR", "MINUTE", "SECOND")
_FINER = {
    "YEAR": ("YEAR", "QUARTER", "MONTH"),
    "QUARTER": ("QUARTER", "MONTH"),
    "MONTH": ("MONTH",),
    "WEEK": ("WEEK",),
}
_FIELDS = {
    "YEAR": ("year",),
    "QUARTER": ("quarter",),
    "MONTH": ("month", "monthofyear"),
    "WEEK": ("week", "weekofyear", "yearofweek", "yow"),
    "DAY": ("dayofyear", "doy", "day", "dayofmonth", "dayofweek", "dow"),
    "HOUR": ("hour",),
    "MINUTE": ("minute",),
    "SECOND": ("second",),
}
_UNIT_OF_FIELD = {name: unit for unit, names in _FIELDS.items() for name in names}
_EXTRACTED = {"doy": "DAY", "dow": "DAY"}
_MILLIS = ("", "MILLISECONDS")
_COUNTED = ("", "rounded", "bucket")
_UNIT_OF_COUNT = {f"toepoch{unit.lower()}s{form}": unit for unit in _FIXED for form in _COUNTED}


@dataclass(frozen=True, slots=True)
class UnitRead:
    """The dependence of a call on the times of the column that is its argument number `position`, up to `unit`.

    since_epoch: valid only if no time is before 1970, since the call truncates towards zero. is_start: the result is the
    start of the unit, in milliseconds.
    """

    position: int
    unit: str
    since_epoch: bool = False
    is_start: bool = False


def start_of_unit(unit: str, times: Expression) -> Expression:
    """Return the starts of the units that contain times, as a TIMESTAMP."""
    return Call("totimestamp", (Call("datetrunc", (Literal(unit, DataType.STRING), times)),))


def dividing(unit: str) -> tuple[str, ...]:
    """Return the units whose starts determine the `unit` of a time: the unit itself, then ever finer ones."""
    return (*_FINER[unit], *_FIXED) if unit in _FINER else _FIXED[_FIXED.index(unit) :] if unit in _FIXED else (unit,)


def unit_read(call: Call) -> UnitRead | None:
    """Return the time unit that a call of a column depends on; None if that is unknown.

    The call must be bound, so that its constants are valid.
    """
    read = _READS.get(call.name)
    if read is not None:
        return read(call)
    if not call.args or not isinstance(call.args[0], Column):
        return None
    if (unit := _UNIT_OF_FIELD.get(call.name)) is not None:
        return UnitRead(0, unit) if _zone_is_utc(call, 1) else None
    unit = _UNIT_OF_COUNT.get(call.name)
    return None if unit is None else UnitRead(0, unit, since_epoch=True)


def _date_trunc(call: Call) -> UnitRead | None:
    source, target = (_text(call, position, "").strip().upper() for position in (2, 4))
    if not isinstance(call.args[1], Column) or source not in _MILLIS or not _zone_is_utc(call, 3):
        return None
    return UnitRead(1, _text(call, 0, "").strip().upper(), is_start=target in _MILLIS)


def _extract(call: Call) -> UnitRead | None:
    field = _text(call, 0, "").lower()
    unit = _EXTRACTED.get(field) or _UNIT_OF_FIELD.get(field)
    return UnitRead(1, unit) if unit is not None and isinstance(call.args[1], Column) else None


def _time_convert(call: Call) -> UnitRead | None:
    source, target = (_text(call, position, "").strip().upper() for position in (1, 2))
    unit = "DAY" if target == "WEEKS" else target.removesuffix("S")  # weeks since the epoch begin on Thursdays
    if source != "MILLISECONDS" or unit not in (*_FIXED, "MONTH", "YEAR") or not isinstance(call.args[0], Column):
        return None
    return UnitRead(0, unit, since_epoch=True)


def _date_time_convert(call: Call) -> UnitRead | None:
    if not isinstance(call.args[0], Column):
        return None
    source, target = parse_format(_text(call, 1, "")), parse_format(_text(call, 2, ""))
    granularity = parse_granularity(_text(call, 3, ""))
    is_text = target.kind is DateTimeKind.SIMPLE_DATE_FORMAT
    if not _is_millis(source) or not _zone_is_utc(call, 4) or (is_text and target.time_zone is not UTC):
        return None
    if is_text or len(call.args) > 4:
        unit = granularity.unit.name.removesuffix("S")
        return UnitRead(0, unit) if unit in _FIXED else None
    divided = _largest_dividing(granularity)
    return None if divided is None else UnitRead(0, divided, since_epoch=True)


def _is_millis(fmt: DateTimeFormat) -> bool:
    is_count = fmt.kind is DateTimeKind.EPOCH and fmt.size * fmt.unit.value == 1_000_000
    return is_count or fmt.kind is DateTimeKind.TIMESTAMP


def _largest_dividing(granularity: Granularity) -> str | None:
    """Return the largest unit that divides a granularity."""
    nanos = granularity.size * granularity.unit.value
    return next((unit for unit in _FIXED if nanos % (UNIT_MS[unit] * 1_000_000) == 0), None)


def _to_date_time(call: Call) -> UnitRead | None:
    if not isinstance(call.args[0], Column) or not _zone_is_utc(call, 2):
        return None
    try:
        size = printed_unit(joda_pattern(_text(call, 1, "")))
    except InvalidConfigError:
        return None
    return next((UnitRead(0, unit) for unit in _FIXED if UNIT_MS[unit] == size), None)


_READS: dict[str, Callable[[Call], UnitRead | None]] = {
    "datetrunc": _date_trunc,
    "extract": _extract,
    "timeconvert": _time_convert,
    "datetimeconvert": _date_time_convert,
    "todatetime": _to_date_time,
}


def _text(call: Call, position: int, default: str) -> str:
    arg: Expression | None = call.args[position] if len(call.args) > position else None
    return arg.value if isinstance(arg, Literal) and isinstance(arg.value, str) else default


def _zone_is_utc(call: Call, position: int) -> bool:
    return len(call.args) <= position or is_utc(_text(call, position, ""))
