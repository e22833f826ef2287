"""Time zones by their names, and the text form of timestamps."""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from gamay.base.errors import InvalidConfigError, nearest
from gamay.base.recently_used import remembered

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)?", re.ASCII)


def parse_offset(text: str) -> tzinfo:
    """Return the zone of `Z`, `+0530`, `+05:30` or `+05`; raises ValueError for anything else."""
    if text in ("Z", "z"):
        return UTC
    match = _OFFSET.fullmatch(text)
    minutes = int(match[2]) * 60 + int(match[3] or 0) if match else 24 * 60
    if match is None or minutes >= 24 * 60 or int(match[3] or 0) > 59:
        raise ValueError(f"'{text}' is not a zone offset such as +05:30")
    return timezone(timedelta(minutes=-minutes if match[1] == "-" else minutes))


@remembered()
def time_zone(text: str) -> tzinfo:
    """Return the zone of an IANA name (`America/Chicago`, `UTC`) or an offset (`+05:30`).

    Raises InvalidConfigError with the nearest name.
    """
    name = text.strip()
    if name.upper() in ("UTC", "GMT", "Z"):
        return UTC
    if name[:1] in ("+", "-"):
        try:
            return parse_offset(name)
        except ValueError as error:
            raise InvalidConfigError(str(error)) from None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        hint = nearest(name, available_timezones())
        raise InvalidConfigError(
            f"'{text}' is not a time zone; write a name such as 'America/Chicago' or an offset such as '+05:30'.{hint}"
        ) from None


def zone_id(zone: tzinfo) -> str:
    """Return the text that `time_zone` parses as that zone.

    >>> zone_id(time_zone("+05:30")), zone_id(time_zone("America/Chicago"))
    ('+05:30', 'America/Chicago')
    """
    text = str(zone)
    return text.removeprefix("UTC") or text  # Python writes fixed offsets as UTC+05:30


_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d?:\d\d(?::\d\d)?)(?:[.,](\d{1,9}))?)?\s*(Z|[+-]\d\d:?(?:\d\d)?)?", re.ASCII
)


def parse_timestamp(text: str) -> int:
    """Return epoch milliseconds of `yyyy-MM-dd[ HH:mm[:ss[.fraction]]][offset]` (UTC without one) or of a millis number.

    Raises ValueError.
    """
    stripped = text.strip()
    if re.fullmatch(r"[+-]?\d+", stripped, re.ASCII):
        millis = int(stripped)
        if not -(1 << 63) <= millis < 1 << 63:
            raise ValueError(f"'{text}' is no timestamp: as milliseconds since 1970 it does not fit 64 bits")
        return millis
    match = _TIMESTAMP.fullmatch(stripped)
    if match is None:
        raise ValueError(f"'{text}' is not a timestamp; write 'yyyy-MM-dd HH:mm:ss.SSS' or milliseconds since 1970")
    day, clock, fraction, offset = match.groups()
    try:
        parts = [int(part) for part in (clock or "0:0").split(":")]
        moment = datetime.fromisoformat(day).replace(tzinfo=parse_offset(offset or "Z"))
        moment = moment.replace(hour=parts[0], minute=parts[1], second=parts[2] if len(parts) > 2 else 0)
    except ValueError as error:
        raise ValueError(f"'{text}' is not a timestamp: {error}") from None
    return (moment - EPOCH) // timedelta(milliseconds=1) + int((fraction or "")[:3].ljust(3, "0"))


def format_timestamp(millis: int) -> str:
    """Return `yyyy-MM-dd HH:mm:ss.f` in UTC with one to three digits of fraction; raises ValueError outside years 1-9999.

    >>> format_timestamp(0)
    '1970-01-01 00:00:00.0'
    """
    try:
        moment = EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        raise ValueError(f"{millis} ms is outside the years 1 to 9999") from None
    fraction = f"{moment.microsecond // 1000:03d}".rstrip("0") or "0"
    return f"{moment.year:04d}-{moment:%m-%d %H:%M:%S}.{fraction}"
