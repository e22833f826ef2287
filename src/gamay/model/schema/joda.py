"""Date-time patterns such as `yyyy-MM-dd'T'HH:mm:ss.SSSZ`, parsed and formatted as by Joda-Time, in English.

A run of one letter is a field, its length the minimum number of digits printed (three or more letters: a name).
Parsing takes as many digits as the field can have, or exactly the run's length before another number.

| letter | field                              | letter | field                                       |
| ------ | ---------------------------------- | ------ | ------------------------------------------- |
| G      | AD or BC                           | C      | century, 20 of 2024                         |
| y Y    | year, of the era; `yy` 1970 to 2069 | H k    | hour of day 0-23, 1-24                      |
| x      | year of the ISO week               | K h    | hour of half day 0-11, 1-12                 |
| w e    | ISO week 1-53, its day 1-7 (Mon 1) | a      | AM or PM                                    |
| M      | month; `MMM` Jan, `MMMM` January   | m s    | minute, second                              |
| d D    | day of month, day of year          | S      | fraction of a second, read and cut to ms    |
| E      | Mon; `EEEE` Monday                 | Z      | +0130; `ZZ` +01:30; `ZZZ` America/Chicago   |
| z      | zone abbreviation (`zzzz` likewise)| 'text' | the text itself; '' is one quote            |

Fields that the text lacks are those of the start of 1970 (of 2000 if it has a month or day but no year); a local time
that the zone skips moves forward by the gap, of one that occurs twice the earlier is used. Years are 1 to 9999.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo

from gamay.base.errors import InvalidConfigError
from gamay.base.recently_used import remembered
from gamay.model.zones import EPOCH, parse_offset, time_zone, zone_id

_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_FIRST_MS, _LAST_MS = -62_135_510_400_000, 253_402_214_400_000  # years 1 to 9999, less a day for the offset
_CYCLE_MS = 146_097 * 86_400_000  # 400 years
_PATTERN_MAX = 1_000
_YEAR_PIVOT = 1970  # `yy` is the year within 99 years from here; fixed, so that the meaning of a text never changes

# abbreviations of fixed offsets, as far as Joda knows them
_ABBREVIATIONS = {
    "UTC": 0, "GMT": 0, "Z": 0, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
}  # fmt: skip

# letter -> (field, most digits, lowest, highest value) of the fields that are plain numbers
_NUMBERS: Mapping[str, tuple[str, int, int, int]] = {
    "d": ("day", 2, 1, 31),
    "D": ("day_of_year", 3, 1, 366),
    "w": ("week", 2, 1, 53),
    "e": ("day_of_week", 1, 1, 7),
    "H": ("hour", 2, 0, 23),
    "k": ("clock_hour", 2, 1, 24),
    "K": ("half_hour", 2, 0, 11),
    "h": ("half_clock_hour", 2, 1, 12),
    "m": ("minute", 2, 0, 59),
    "s": ("second", 2, 0, 59),
    "C": ("century", 2, 0, 99),
}
_LETTERS = frozenset(_NUMBERS) | frozenset("GyYxMESazZ")

_PRINT_NUMBER: Mapping[str, Callable[[datetime], int]] = {
    "d": lambda t: t.day,
    "D": lambda t: t.timetuple().tm_yday,
    "w": lambda t: t.isocalendar().week,
    "e": lambda t: t.isoweekday(),
    "H": lambda t: t.hour,
    "k": lambda t: t.hour or 24,
    "K": lambda t: t.hour % 12,
    "h": lambda t: t.hour % 12 or 12,
    "m": lambda t: t.minute,
    "s": lambda t: t.second,
    "y": lambda t: t.year,
    "Y": lambda t: t.year,
    "x": lambda t: t.isocalendar().year,
}


@dataclass(frozen=True)
class Token:
    """A run of one pattern letter, or literal text (letter is empty)."""

    letter: str
    length: int
    text: str
    position: int

    @property
    def is_number(self) -> bool:
        """Whether it prints digits, so that a number before it has a fixed length."""
        return self.letter in _NUMBERS or (self.letter in ("y", "Y", "x", "S")) or (self.letter == "M" and self.length < 3)


@dataclass(frozen=True)
class _Field:
    """A token prepared for parsing: the regular expression of its text, and the function of its value."""

    token: Token
    regex: str
    name: str  # empty for literals
    value: Callable[[str], object]


Fields = dict[str, object]


class JodaPattern:
    """A compiled pattern: `parse` and `print` between text and epoch milliseconds."""

    def __init__(self, pattern: str) -> None:
        """Compile; raises InvalidConfigError naming the pattern and the position of the error."""
        self.pattern = pattern
        if not pattern:
            raise InvalidConfigError("the date pattern is empty; write for example yyyy-MM-dd")
        if len(pattern) > _PATTERN_MAX:
            raise InvalidConfigError(f"the date pattern has {len(pattern)} characters, of at most {_PATTERN_MAX}")
        self.tokens = tuple(_tokens(pattern))
        following = (*self.tokens[1:], None)
        self._fields = tuple(_field(t, n is not None and n.is_number) for t, n in zip(self.tokens, following, strict=True))
        self._regex = re.compile("".join(f"({f.regex})" for f in self._fields), re.ASCII | re.IGNORECASE)

    def __repr__(self) -> str:
        return f"JodaPattern({self.pattern!r})"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return joda_pattern, (self.pattern,)  # the compiled parts are not pickled

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JodaPattern) and other.pattern == self.pattern

    def __hash__(self) -> int:
        return hash(self.pattern)

    def parse(self, text: str, zone: tzinfo = UTC) -> int:
        """Return the epoch milliseconds of a text; `zone` applies unless the text names its own.

        Raises ValueError naming the text, the pattern and the position.
        """
        match = self._regex.fullmatch(text)
        if match is None:
            raise ValueError(self._mismatch(text))
        fields: Fields = {}
        for part, group in zip(self._fields, match.groups(), strict=True):
            if part.name:
                try:
                    value = part.value(group)
                except (ValueError, InvalidConfigError) as error:
                    raise ValueError(f"'{text}' does not match the pattern '{self.pattern}': {error}") from None
                if fields.setdefault(part.name, value) != value:
                    raise ValueError(f"'{text}' gives two values for the {part.name.replace('_', ' ')} of '{self.pattern}'")
        try:
            return _to_millis(fields, zone)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"'{text}' by the pattern '{self.pattern}' is no point in time: {error}") from None

    def print(self, millis: int, zone: tzinfo = UTC) -> str:
        """Return the text of a time in `zone`; raises ValueError outside the years 1 to 9999."""
        try:
            local = (EPOCH + timedelta(milliseconds=millis)).astimezone(zone)
        except OverflowError:
            raise ValueError(f"{millis} ms is outside the years 1 to 9999, which '{self.pattern}' can print") from None
        return "".join(_print(token, local, 0) for token in self.tokens)

    def print_any(self, millis: int, zone: tzinfo = UTC) -> str:
        """Return the text of any 64-bit time, although `parse` does not accept all of these texts."""
        if _FIRST_MS <= millis <= _LAST_MS:
            return self.print(millis, zone)
        # the calendar repeats every 400 years, weekdays included; the offset is that of the last known year
        known = EPOCH + timedelta(milliseconds=min(max(millis, _FIRST_MS), _LAST_MS))
        offset = known.astimezone(zone).utcoffset() or timedelta(0)
        cycles, within = divmod(millis + offset // timedelta(milliseconds=1), _CYCLE_MS)
        local = (EPOCH + timedelta(milliseconds=within)).replace(tzinfo=timezone(offset) if offset else zone)
        return "".join(_print(token, local, 400 * cycles) for token in self.tokens)

    def _mismatch(self, text: str) -> str:
        position = 0
        for part in self._fields:
            match = re.compile(part.regex, re.ASCII | re.IGNORECASE).match(text, position)
            if match is None:
                wanted = f"'{part.token.text}'"
                return (
                    f"'{text}' does not match the pattern '{self.pattern}': position {position} does not fit {wanted} "
                    f"(position {part.token.position} of the pattern)"
                )
            position = match.end()
        return f"'{text}' does not match the pattern '{self.pattern}': the text goes on after position {position}"


@remembered()
def joda_pattern(pattern: str) -> JodaPattern:
    """Return the compiled pattern, from a cache."""
    return JodaPattern(pattern)


# --- the pattern ------------------------------------------------------------------------------------------------------


def _tokens(pattern: str) -> Iterator[Token]:
    position = 0
    while position < len(pattern):
        start, char = position, pattern[position]
        if char == "'":
            literal, position = _quoted(pattern, position)
            yield Token("", 0, literal, start)
        elif char.isascii() and char.isalpha():
            if char not in _LETTERS:
                raise InvalidConfigError(
                    f"the date pattern '{pattern}' has the letter '{char}' at position {start}, which means nothing; "
                    f"the letters are {' '.join(sorted(_LETTERS, key=str.lower))}, and text is written in single quotes"
                )
            while position < len(pattern) and pattern[position] == char:
                position += 1
            yield Token(char, position - start, pattern[start:position], start)
        else:
            position += 1
            yield Token("", 0, char, start)


def _quoted(pattern: str, start: int) -> tuple[str, int]:
    """Return the text of the quote that begins at `start`, and the position after it."""
    if pattern.startswith("''", start):
        return "'", start + 2
    position, literal = start + 1, ""
    while True:
        end = pattern.find("'", position)
        if end < 0:
            raise InvalidConfigError(f"the date pattern '{pattern}' has a quote at position {start} that is never closed")
        literal += pattern[position:end]
        if not pattern.startswith("''", end):
            return literal, end + 1
        literal, position = literal + "'", end + 2


# --- reading ----------------------------------------------------------------------------------------------------------


def _field(token: Token, before_number: bool) -> _Field:
    """Return the parsing side of a token. Digits and names are matched possessively: parsing does not backtrack."""
    letter, length = token.letter, token.length
    if not letter:
        return _Field(token, re.escape(token.text), "", str)
    if letter in _NUMBERS:
        name, digits_max, lowest, highest = _NUMBERS[letter]
        return _Field(token, rf"\d{{1,{digits_max}}}+", name, _number(name, lowest, highest))
    if letter == "M" and length < 3:
        return _Field(token, r"\d{1,2}+", "month", _number("month", 1, 12))
    if letter == "M":
        return _Field(token, _any_name(_MONTHS), "month", _index_of(_MONTHS))
    if letter == "E":
        return _Field(token, _any_name(_DAYS), "day_of_week", _index_of(_DAYS))
    if letter in ("y", "Y", "x"):
        name = "weekyear" if letter == "x" else "year"
        if length == 2:
            return _Field(token, r"\d{2}+" if before_number else r"\d{1,9}+", name, _short_year)
        return _Field(token, rf"\d{{1,{length if before_number else 9}}}+", name, int)
    if letter == "S":
        return _Field(token, rf"\d{{1,{length}}}+", "milli", lambda digits: int(digits[:3].ljust(3, "0")))
    if letter == "a":
        return _Field(token, "AM|PM", "half", str.upper)
    if letter == "G":
        return _Field(token, "AD|BC", "era", str.upper)
    if letter == "Z" and length < 3:
        return _Field(token, r"Z|[+-]\d\d(?::?\d\d)?+", "zone", parse_offset)
    return _Field(token, r"[+-]\d\d:?\d\d|[A-Z](?:[A-Z0-9_/]|[+-](?=[A-Z0-9]))*+", "zone", _zone)


def _number(name: str, lowest: int, highest: int) -> Callable[[str], int]:
    def read(digits: str) -> int:
        value = int(digits)
        if not lowest <= value <= highest:
            raise ValueError(f"{name.replace('_', ' ')} {value} is not in {lowest} to {highest}")
        return value

    return read


def _any_name(names: tuple[str, ...]) -> str:
    """Return the regular expression of every full name or its first three letters, longest first."""
    return f"(?>{'|'.join([*names, *(name[:3] for name in names)])})"


def _index_of(names: tuple[str, ...]) -> Callable[[str], int]:
    by_prefix = {name[:3].lower(): i for i, name in enumerate(names, 1)}
    return lambda text: by_prefix[text[:3].lower()]


def _short_year(digits: str) -> int:
    year = int(digits)
    if len(digits) != 2:
        return year  # a year written out is taken as it stands
    return _YEAR_PIVOT + (year - _YEAR_PIVOT) % 100


def _zone(text: str) -> tzinfo:
    hours = _ABBREVIATIONS.get(text.upper())
    return time_zone(text) if hours is None else timezone(timedelta(hours=hours))


def _to_millis(fields: Fields, zone: tzinfo) -> int:
    def get(name: str, default: int) -> int:
        value = fields.get(name, default)
        assert isinstance(value, int)
        return value

    if "century" in fields:
        fields = {**fields, "year": 100 * get("century", 0) + get("year", 0) % 100}
    if fields.get("era") == "BC":
        fields = {**fields, "year": 1 - get("year", 1970)}
    day = _day(fields, get)
    moment = datetime(
        day.year, day.month, day.day, _hour(fields, get), get("minute", 0), get("second", 0), get("milli", 0) * 1000
    )
    own_zone = fields.get("zone")
    aware = moment.replace(tzinfo=own_zone if isinstance(own_zone, tzinfo) else zone)
    offset = aware.utcoffset() or timedelta(0)
    return (moment - offset - EPOCH.replace(tzinfo=None)) // timedelta(milliseconds=1)


def _day(fields: Fields, get: Callable[[str, int], int]) -> date:
    if "week" in fields or "weekyear" in fields:
        day = date.fromisocalendar(get("weekyear", get("year", 1970)), get("week", 1), get("day_of_week", 1))
    elif "day_of_year" in fields:
        year = get("year", 1970)
        day = date(year, 1, 1) + timedelta(days=get("day_of_year", 1) - 1)
        if day.year != year:
            raise ValueError(f"{year} has no day {get('day_of_year', 1)}")
    elif "year" in fields or "month" in fields or "day" in fields:
        day = date(get("year", 2000), get("month", 1), get("day", 1))
    else:
        day = date.fromisocalendar(1970, 1, get("day_of_week", 4))  # Thursday, 1 January 1970
    for name, actual in (
        ("year", day.year),
        ("month", day.month),
        ("day", day.day),
        ("day_of_week", day.isoweekday()),
    ):
        # a year beside week fields is commonly, and harmlessly, written as `yyyy` instead of `xxxx`
        if get(name, actual) != actual and not (name == "year" and "week" in fields):
            raise ValueError(f"{day} does not have the {name.replace('_', ' ')} {get(name, actual)}")
    return day


def _hour(fields: Fields, get: Callable[[str, int], int]) -> int:
    half = fields.get("half")
    if "hour" not in fields and "clock_hour" not in fields:
        return get("half_hour", get("half_clock_hour", 12) % 12) + (12 if half == "PM" else 0)
    hour = get("hour", get("clock_hour", 24) % 24)
    if half is not None and half != ("PM" if hour >= 12 else "AM"):
        raise ValueError(f"hour {hour} of the day is not {half}")
    return hour


# --- printing ---------------------------------------------------------------------------------------------------------


def _print(token: Token, local: datetime, more_years: int) -> str:
    """Format a field; `more_years` are added to the year of `local`."""
    letter, length = token.letter, token.length
    if not letter:
        return token.text
    if letter in ("G", "C"):
        year = local.year + more_years
        return ("AD" if year > 0 else "BC") if letter == "G" else f"{(year if year > 0 else 1 - year) // 100:0{length}d}"
    if letter in ("y", "Y", "x"):
        year = _PRINT_NUMBER[letter](local) + more_years
        if letter == "Y" and year <= 0:
            year = 1 - year  # of the era: 1 BC is year 0
        return f"{year % 100:02d}" if length == 2 else f"{'-' * (year < 0)}{abs(year):0{length}d}"
    if letter in _PRINT_NUMBER:
        return f"{_PRINT_NUMBER[letter](local):0{length}d}"
    if letter in ("M", "E"):
        return _print_name(token, local)
    if letter == "S":
        return f"{local.microsecond // 1000:03d}".ljust(length, "0")[:length]
    if letter == "a":
        return "AM" if local.hour < 12 else "PM"
    if letter == "Z" and length < 3:
        text = local.strftime("%z")[:5]
        return text if length == 1 else f"{text[:3]}:{text[3:]}"
    zone = zone_id(local.tzinfo or UTC)
    return zone if letter == "Z" else local.tzname() or zone


def _print_name(token: Token, local: datetime) -> str:
    if token.letter == "M" and token.length < 3:
        return f"{local.month:0{token.length}d}"
    name = _MONTHS[local.month - 1] if token.letter == "M" else _DAYS[local.weekday()]
    return name if token.length > 3 else name[:3]
