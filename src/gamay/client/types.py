"""Type objects and constructors of DB-API 2.0 (PEP 249)."""

from datetime import UTC, date, datetime, time


class TypeGroup:
    """DB-API type object, equal to each of several wire types and their arrays: `cursor.description[0][1] == NUMBER`."""

    def __init__(self, name: str, *wire_types: str) -> None:
        self.name = name
        self._wire_types = frozenset(wire_types)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, str) and other.removesuffix("_ARRAY") in self._wire_types)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


STRING = TypeGroup("STRING", "STRING", "JSON", "UUID", "OBJECT", "MAP", "UNKNOWN")
BINARY = TypeGroup("BINARY", "BYTES")
NUMBER = TypeGroup("NUMBER", "INT", "LONG", "FLOAT", "DOUBLE", "BIG_DECIMAL", "BOOLEAN")
DATETIME = TypeGroup("DATETIME", "TIMESTAMP")
ROWID = TypeGroup("ROWID")

Date = date
Time = time
Timestamp = datetime
Binary = bytes


def DateFromTicks(ticks: float) -> date:
    """Return the UTC date of seconds since 1970."""
    return TimestampFromTicks(ticks).date()


def TimeFromTicks(ticks: float) -> time:
    """Return the UTC time of day of seconds since 1970."""
    return TimestampFromTicks(ticks).time()


def TimestampFromTicks(ticks: float) -> datetime:
    """Return the UTC timestamp of seconds since 1970."""
    return datetime.fromtimestamp(ticks, UTC)
