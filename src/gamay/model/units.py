"""The small value grammars of configs: time units, periods such as `1d12h` and data sizes such as `200M`."""

import re
from decimal import Decimal
from enum import Enum
from fractions import Fraction

from gamay.base.errors import InvalidConfigError, nearest


class TimeUnit(Enum):
    """Units of epoch columns and retentions, under their wire names; the value is the unit's length in nanoseconds."""

    NANOSECONDS = 1
    MICROSECONDS = 1_000
    MILLISECONDS = 1_000_000
    SECONDS = 1_000_000_000
    MINUTES = 60_000_000_000
    HOURS = 3_600_000_000_000
    DAYS = 86_400_000_000_000

    @classmethod
    def parse(cls, text: str) -> "TimeUnit":
        """Return the unit of that name, in any case; raise InvalidConfigError with the accepted names."""
        try:
            return cls[text.strip().upper()]
        except KeyError:
            names = [unit.name for unit in cls]
            raise InvalidConfigError(
                f"'{text}' is not a time unit; use one of {', '.join(names)}.{nearest(text, names)}"
            ) from None

    def to_millis(self, count: int) -> int:
        """Return `count` of this unit in milliseconds, rounded down."""
        return count * self.value // 1_000_000

    def from_millis(self, millis: int) -> int:
        """Return how many whole units lie in `millis`, rounded down (so -1 ms is day -1)."""
        return millis * 1_000_000 // self.value


_PERIOD = re.compile(r"(?:(-?\d+)d)?(?:(-?\d+)h)?(?:(-?\d+)m)?(?:(-?\d+)s)?", re.ASCII | re.IGNORECASE)
_PERIOD_MILLIS = (86_400_000, 3_600_000, 60_000, 1_000)


def parse_period(text: str) -> int:
    """Return the milliseconds of a period such as `1d12h30m5s`; raise InvalidConfigError for anything else.

    >>> parse_period("1d12h")
    129600000
    """
    match = _PERIOD.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise InvalidConfigError(
            f"'{text}' is not a period; write days, hours, minutes, seconds in that order, such as '1d12h30m'"
        )
    return sum(int(count) * millis for count, millis in zip(match.groups(), _PERIOD_MILLIS, strict=True) if count)


def format_period(millis: int) -> str:
    """Return the shortest period text of whole seconds; raise ValueError when `millis` is not whole seconds.

    >>> format_period(129600000)
    '1d12h'
    """
    if millis % 1_000:
        raise ValueError(f"{millis} ms is not a whole number of seconds, which is the finest that a period can say")
    sign, rest = ("-", -millis) if millis < 0 else ("", millis)
    parts = []
    for unit_millis, letter in zip(_PERIOD_MILLIS, "dhms", strict=True):
        count, rest = divmod(rest, unit_millis)
        if count:
            parts.append(f"{sign}{count}{letter}")
    return "".join(parts) or "0s"


_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)B?", re.ASCII | re.IGNORECASE)
_SIZE_LETTERS = ("", "K", "M", "G", "T", "P")


def parse_data_size(text: str) -> int:
    """Return the bytes of a size such as `1.5GB` (powers of 1024, rounded down); raise InvalidConfigError otherwise.

    >>> parse_data_size("200M")
    209715200
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise InvalidConfigError(
            f"'{text}' is not a data size; write a number and one of B, K, M, G, T, P, such as '200M' or '1.5GB'"
        )
    return int(Fraction(match[1]) * 1024 ** _SIZE_LETTERS.index(match[2].upper()))


def format_data_size(size_bytes: int) -> str:
    """Return the size in its largest unit with at most two decimals: exact only where two decimals are enough.

    >>> format_data_size(1610612736)
    '1.5G'
    """
    exponent = max(e for e in range(len(_SIZE_LETTERS)) if size_bytes >= 1024**e or e == 0)
    number = Decimal(size_bytes) / 1024**exponent
    text = f"{number:.2f}".rstrip("0").rstrip(".")
    return f"{text}{_SIZE_LETTERS[exponent] or 'B'}"
