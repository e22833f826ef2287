"""Scalar functions by their definitions in the reference, one value at a time."""

import binascii
import json
import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Any
from urllib.parse import quote_plus
from zoneinfo import ZoneInfo

from tests.reference_evaluator.tree import EXACT

NAN, INFINITY = float("nan"), float("inf")
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
DAY_MS = 86_400_000
UNIT_MS = {"MILLISECONDS": 1, "SECONDS": 1000, "MINUTES": 60_000, "HOURS": 3_600_000, "DAYS": DAY_MS}

# -- numbers


def _guarded(function: Callable[..., float], *args: float) -> float:
    """Return the IEEE 754 result where Python raises."""
    try:
        return function(*args)
    except OverflowError:
        return INFINITY
    except ValueError:
        return NAN


def divide(a: float, b: float) -> float:
    if b != 0:
        return a / b
    if a == 0 or a != a:
        return NAN
    return math.copysign(INFINITY, a) * math.copysign(1.0, b)


def decimal_divide(a: Decimal, b: Decimal) -> Decimal:
    """The scale is the dividend's."""
    unit = Decimal((0, (1,), int(a.as_tuple().exponent)))
    return EXACT.divide(a, b).quantize(unit, rounding=ROUND_HALF_EVEN, context=EXACT)


def remainder(a: float, b: float) -> float:
    return _guarded(math.fmod, a, b)


ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": divide,
    "%": remainder,
}
DECIMAL_ARITHMETIC: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "+": EXACT.add,
    "-": EXACT.subtract,
    "*": EXACT.multiply,
    "/": decimal_divide,
}


def ceil(a: float) -> float:
    return float(math.ceil(a)) if math.isfinite(a) else a


def floor(a: float) -> float:
    return float(math.floor(a)) if math.isfinite(a) else a


def sqrt(a: float) -> float:
    return _guarded(math.sqrt, a)


def exp(a: float) -> float:
    return _guarded(math.exp, a)


def logarithm(a: float) -> float:
    return -INFINITY if a == 0 else _guarded(math.log, a)


def logarithm_10(a: float) -> float:
    return -INFINITY if a == 0 else _guarded(math.log10, a)


def sine(a: float) -> float:
    return _guarded(math.sin, a)


def degrees(a: float) -> float:
    return math.degrees(a)


def cube_root(a: float) -> float:
    return math.cbrt(a)


def sign(a: float) -> float:
    return a if a != a or a == 0 else math.copysign(1.0, a)


def square(a: float) -> float:
    return a * a


def round_decimal(a: float) -> float:
    return float(math.floor(a) + (a - math.floor(a) >= 0.5)) if math.isfinite(a) else a


def _to_scale(a: float, scale: int, rounding: str) -> float:
    if not math.isfinite(a):
        return a
    return float(Decimal(repr(a)).quantize(Decimal(1).scaleb(-scale), rounding=rounding, context=EXACT))


def round_to_scale(a: float, scale: int) -> float:
    return _to_scale(a, scale, ROUND_HALF_UP)


def truncate_to_scale(a: float, scale: int) -> float:
    return _to_scale(a, scale, ROUND_DOWN)


def saturate(a: float, low: int, high: int) -> int:
    if a != a:
        return 0
    if not math.isfinite(a):
        return high if a > 0 else low
    return max(low, min(high, math.trunc(a)))


def wrap_int(a: int) -> int:
    return (a + 2**31) % 2**32 - 2**31


def int_div_or_zero(a: float, b: float) -> int:
    return 0 if b == 0 else saturate(floor(a / b), LONG_MIN, LONG_MAX)


def positive_modulo(a: int, b: int) -> int:
    return a % abs(b)


def modulo_or_zero(a: int, b: int) -> int:
    return 0 if b == 0 else truncated_remainder(a, b)


def truncated_remainder(a: int, b: int) -> int:
    return a - b * truncated_quotient(a, b)


def truncated_quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def width_bucket(a: float, low: float, high: float, count: int) -> int:
    if a != a or a >= high:
        return count + 1
    if a < low:
        return 0
    return min(math.floor((a - low) / (high - low) * count) + 1, count)


def java_double(a: float) -> str:
    """Double.toString: shortest digits; an exponent below 1e-3 and from 1e7 on."""
    if a != a:
        return "NaN"
    if math.isinf(a):
        return "Infinity" if a > 0 else "-Infinity"
    sign_text = "-" if math.copysign(1.0, a) < 0 else ""
    _, digit_tuple, exponent = Decimal(repr(abs(a))).as_tuple()
    digits = "".join(map(str, digit_tuple)).rstrip("0") or "0"
    point = len(digit_tuple) + int(exponent)
    if a == 0 or 1e-3 <= abs(a) < 1e7:
        if a == 0:
            return sign_text + "0.0"
        if point <= 0:
            return f"{sign_text}0.{'0' * -point}{digits}"
        return f"{sign_text}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    return f"{sign_text}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


# -- text


def utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def substr(text: str, begin: int, end: int) -> str:
    return text[begin:] if end == -1 else text[begin:end]


def left(text: str, count: int) -> str:
    return text[:count]


def right(text: str, count: int) -> str:
    return text[max(len(text) - count, 0) :]


def occurrence(text: str, find: str, nth: int) -> int:
    at = -1
    for _ in range(nth):
        at = text.find(find, at + 1)
        if at < 0:
            return -1
    return at


def pad_left(text: str, size: int, pad: str) -> str:
    missing = size - len(text)
    return (pad * missing)[:missing] + text if missing > 0 else text


def pad_right(text: str, size: int, pad: str) -> str:
    missing = size - len(text)
    return text + (pad * missing)[:missing] if missing > 0 else text


def split(text: str, delimiter: str) -> list[str]:
    return [piece for piece in text.split(delimiter) if piece]


def split_part(text: str, delimiter: str, position: int) -> str:
    """Repeated and leading delimiters are skipped; a trailing one leaves an empty piece."""
    pieces = split(text, delimiter)
    if text.endswith(delimiter):
        pieces.append("")
    return pieces[position] if -len(pieces) <= position < len(pieces) else "null"


def substring_index(text: str, delimiter: str, count: int) -> str:
    pieces = text.split(delimiter)
    if count == 0:
        return ""
    return delimiter.join(pieces[:count] if count > 0 else pieces[count:])


def translate(text: str, old: str, new: str) -> str:
    pairs = {char: new[i] if i < len(new) else "" for i, char in reversed(list(enumerate(old)))}
    return "".join(pairs.get(char, char) for char in text)


def levenshtein(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        previous, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (a != b))
    return row[-1]


def hamming(one: str, other: str) -> int:
    return sum(a != b for a, b in zip(one, other, strict=True)) if len(one) == len(other) else -1


def trimmed(text: str) -> str:
    return text.strip("".join(map(chr, range(33))))


def trimmed_left(text: str) -> str:
    return text.lstrip("".join(map(chr, range(33))))


def trimmed_right(text: str) -> str:
    return text.rstrip("".join(map(chr, range(33))))


def encode_url(text: str) -> str:
    """Form encoding: a blank is a plus; of other signs only these four stay."""
    return quote_plus(text, safe="*-._").replace("~", "%7E")


def like_pattern(pattern: str) -> "re.Pattern[str]":
    parts, i = [], 0
    while i < len(pattern):
        char = pattern[i]
        if char == "\\" and i + 1 < len(pattern) and pattern[i + 1] in "%_\\":
            i += 1
            parts.append(re.escape(pattern[i]))
        else:
            parts.append({"%": ".*", "_": "."}.get(char, re.escape(char)))
        i += 1
    return re.compile("".join(parts), re.IGNORECASE | re.DOTALL)


def regexp_extract(text: str, pattern: str, group: int, default: str) -> str:
    found = re.search(pattern, text)
    return default if found is None else found.group(group)


def crc32(text: str) -> int:
    return wrap_int(binascii.crc32(text.encode()))


# -- times


def at(ms: int, zone: str = "UTC") -> datetime:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    return moment if zone == "UTC" else moment.astimezone(ZoneInfo(zone))


def to_ms(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def date_trunc(unit: str, ms: int, zone: str) -> int:
    if unit in ("second", "minute", "hour"):
        size = {"second": 1000, "minute": 60_000, "hour": 3_600_000}[unit]
        offset = at(ms, zone).utcoffset()
        shift = 0 if offset is None else offset // timedelta(milliseconds=1)
        return (ms + shift) // size * size - shift
    local = at(ms, zone).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    if unit == "week":
        local -= timedelta(days=local.weekday())
    elif unit != "day":
        month = {"month": local.month, "quarter": (local.month - 1) // 3 * 3 + 1, "year": 1}[unit]
        local = local.replace(day=1, month=month)
    return to_ms(local)


_FIELDS: dict[str, Callable[[datetime], int]] = {
    "year": lambda d: d.year,
    "quarter": lambda d: (d.month - 1) // 3 + 1,
    "month": lambda d: d.month,
    "week": lambda d: d.isocalendar().week,
    "yearOfWeek": lambda d: d.isocalendar().year,
    "dayOfYear": lambda d: d.timetuple().tm_yday,
    "day": lambda d: d.day,
    "dayOfWeek": lambda d: d.isoweekday(),
    "hour": lambda d: d.hour,
    "minute": lambda d: d.minute,
    "second": lambda d: d.second,
    "millisecond": lambda d: d.microsecond // 1000,
}
TIME_FIELDS = tuple(_FIELDS)


def time_field(name: str, ms: int, zone: str = "UTC") -> int:
    return _FIELDS[name](at(ms, zone))


def timestamp_add(unit: str, count: int, ms: int) -> int:
    fixed = {"second": 1000, "minute": 60_000, "hour": 3_600_000, "day": DAY_MS, "week": 7 * DAY_MS}
    if unit in fixed:
        return ms + count * fixed[unit]
    moment = at(ms)
    months = moment.year * 12 + moment.month - 1 + count * {"month": 1, "quarter": 3, "year": 12}[unit]
    year, month = divmod(months, 12)
    first_of_next = datetime(year + (month == 11), (month + 1) % 12 + 1, 1, tzinfo=UTC)
    last_day = (first_of_next - timedelta(days=1)).day
    return to_ms(moment.replace(year=year, month=month + 1, day=min(moment.day, last_day)))


def timestamp_diff(unit: str, start: int, end: int) -> int:
    months_each = {"month": 1, "quarter": 3, "year": 12}.get(unit)
    if months_each is not None:
        if end < start:
            return -timestamp_diff(unit, end, start)
        first, last = at(start), at(end)
        months = (last.year - first.year) * 12 + last.month - first.month
        return (months - (timestamp_add("month", months, start) > end)) // months_each
    size = {"second": 1000, "minute": 60_000, "hour": 3_600_000, "day": DAY_MS, "week": 7 * DAY_MS}[unit]
    return truncated_quotient(end - start, size)


def zone_bucket(count: int, unit: str, ms: int, zone: str) -> int:
    """`dateTimeConvert` with a zone: down to so many units within the next larger one of local time."""
    local = at(ms, zone)
    if unit == "DAYS":
        first = local.replace(day=(local.day - 1) // count * count + 1)
        return to_ms(first.replace(hour=0, minute=0, second=0, microsecond=0, fold=0))
    if unit == "HOURS":
        first = local.replace(hour=local.hour // count * count, minute=0, second=0, microsecond=0)
    else:
        first = local.replace(minute=local.minute // count * count, second=0, microsecond=0)
    start = ms - (local.replace(tzinfo=None) - first.replace(tzinfo=None)) // timedelta(milliseconds=1)
    return start if at(start, zone).utcoffset() == local.utcoffset() else to_ms(first.replace(fold=0))


_PATTERNS = {
    "yyyy-MM-dd HH:mm:ss": "%Y-%m-%d %H:%M:%S",
    "yyyyMMdd": "%Y%m%d",
    "dd/MM/yyyy HH": "%d/%m/%Y %H",
    "yyyy-MM": "%Y-%m",
    "EEE d": None,
}
TIME_PATTERNS = tuple(_PATTERNS)


def print_time(ms: int, pattern: str, zone: str = "UTC") -> str:
    moment = at(ms, zone)
    template = _PATTERNS[pattern]
    if template is None:
        return f"{('Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun')[moment.weekday()]} {moment.day}"
    return moment.strftime(template)


def timestamp_text(ms: int) -> str:
    moment = at(ms)
    fraction = f"{moment.microsecond // 1000:03d}".rstrip("0") or "0"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{fraction}"


def iso8601(ms: int) -> str:
    moment = at(ms)
    fraction = f".{moment.microsecond // 1000:03d}" if moment.microsecond else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


# -- JSON


def json_value(text: str, path: Sequence[str | int]) -> Any:
    """Return the value at a path, None where there is none or no document."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    for step in path:
        in_object = isinstance(step, str) and isinstance(value, dict) and step in value
        in_list = isinstance(step, int) and isinstance(value, list) and step < len(value)
        if not (in_object or in_list):
            return None
        value = value[step]
    return value


# -- lists


def first_seen(values: Sequence[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def without_first(values: Sequence[Any], unwanted: Any) -> list[Any]:
    at_place = index_of(values, unwanted)
    return [value for i, value in enumerate(values) if i != at_place]


def element_at(values: Sequence[Any], position: int, placeholder: Any) -> Any:
    return values[position - 1] if 1 <= position <= len(values) else placeholder


def index_of(values: Sequence[Any], wanted: Any) -> int:
    return list(values).index(wanted) if wanted in values else -1
