"""Prepared statements: queries with typed parameters, each of which becomes exactly one literal."""

from collections.abc import Mapping
from concurrent.futures import Future
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self

from gamay.base.errors import ErrorCode
from gamay.client.errors import DataError, ProgrammingError
from gamay.client.literals import literal, placeholders
from gamay.client.results import ResultSetGroup

if TYPE_CHECKING:
    from gamay.client.connection import Connection

_INT = (-(2**31), 2**31 - 1)
_LONG = (-(2**63), 2**63 - 1)


class PreparedStatement:
    """A query whose `?` are numbered from 1, which can be executed repeatedly. Not thread-safe.

    Every setter returns the statement, and raises DataError for a value of another type than its name says.
    """

    def __init__(self, connection: "Connection", query: str, keywords: Mapping[str, Any]) -> None:
        """keywords: those of `Connection.execute`."""
        self._connection = connection
        self._keywords = dict(keywords)
        self._template = placeholders(query)
        if named := [mark for mark in self._template.marks if mark != "?"]:
            raise ProgrammingError(
                f"the parameters of a prepared statement are written ?, not {named[0]}", ErrorCode.QUERY_VALIDATION
            )
        self._literals: list[str | None] = [None] * len(self._template.keys)

    @property
    def parameter_count(self) -> int:
        return len(self._literals)

    def set(self, number: int, value: Any) -> Self:
        """Set a parameter to a value of any type that has a literal; see `gamay.client.literals.literal`."""
        if not 1 <= number <= len(self._literals):
            raise ProgrammingError(
                f"there is no parameter {number} among {len(self._literals)}, numbered from 1", ErrorCode.QUERY_VALIDATION
            )
        self._literals[number - 1] = literal(value)
        return self

    def set_all(self, *values: Any) -> Self:
        """Set all parameters, in order."""
        if len(values) != len(self._literals):
            raise ProgrammingError(
                f"the query has {len(self._literals)} placeholders, but {len(values)} parameters are given",
                ErrorCode.QUERY_VALIDATION,
            )
        self._literals = [literal(value) for value in values]
        return self

    def set_null(self, number: int) -> Self:
        return self.set(number, None)

    def set_string(self, number: int, value: str) -> Self:
        return self._set_checked(number, value, str, "text")

    def set_int(self, number: int, value: int) -> Self:
        """Set a whole number of 32 bits."""
        return self._set_whole(number, value, *_INT)

    def set_long(self, number: int, value: int) -> Self:
        """Set a whole number of 64 bits."""
        return self._set_whole(number, value, *_LONG)

    def set_float(self, number: int, value: float) -> Self:
        return self.set_double(number, value)

    def set_double(self, number: int, value: float) -> Self:
        self._check(number, value, int | float, "a number")
        return self.set(number, float(value))

    def set_big_decimal(self, number: int, value: Decimal | int) -> Self:
        return self._set_checked(number, value, Decimal | int, "a Decimal or a whole number")

    def set_boolean(self, number: int, value: bool) -> Self:
        if not isinstance(value, bool):
            raise _wrong(number, value, "True or False")
        return self.set(number, value)

    def set_bytes(self, number: int, value: bytes | bytearray | memoryview) -> Self:
        return self._set_checked(number, value, bytes | bytearray | memoryview, "bytes")

    def set_timestamp(self, number: int, value: datetime) -> Self:
        """Set a timestamp; without a time zone it is in UTC."""
        return self._set_checked(number, value, datetime, "a datetime")

    def set_date(self, number: int, value: date) -> Self:
        if isinstance(value, datetime):
            raise _wrong(number, value, "a date without a time")
        return self._set_checked(number, value, date, "a date")

    def execute(self) -> ResultSetGroup:
        """Return the answer. Raises what `Connection.execute` raises, and ProgrammingError if a parameter is not set."""
        return self._connection.execute(self.query(), **self._keywords)

    def execute_async(self) -> "Future[ResultSetGroup]":
        """Send the query with its current parameters and return immediately; see `Connection.execute_async`."""
        return self._connection.execute_async(self.query(), **self._keywords)

    def query(self) -> str:
        """Return the query with its values. Raises ProgrammingError if one is not set."""
        missing = [str(i + 1) for i, text in enumerate(self._literals) if text is None]
        if missing:
            raise ProgrammingError(f"no value is set for parameter {', '.join(missing)}", ErrorCode.QUERY_VALIDATION)
        return self._template.fill({i: text for i, text in enumerate(self._literals) if text is not None})

    def _set_whole(self, number: int, value: int, least: int, most: int) -> Self:
        self._check(number, value, int, "a whole number")
        if not least <= value <= most:
            raise _wrong(number, value, f"a number from {least} to {most}")
        return self.set(number, value)

    def _set_checked(self, number: int, value: Any, kind: Any, wanted: str) -> Self:
        self._check(number, value, kind, wanted)
        return self.set(number, value)

    def _check(self, number: int, value: Any, kind: Any, wanted: str) -> None:
        if not isinstance(value, kind) or isinstance(value, bool):
            raise _wrong(number, value, wanted)


def _wrong(number: int, value: Any, wanted: str) -> DataError:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:60]}…"
    return DataError(f"parameter {number} must be {wanted}, not {shown}", ErrorCode.QUERY_VALIDATION)
