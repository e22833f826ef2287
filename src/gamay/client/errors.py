"""The exceptions of DB-API 2.0 (PEP 249), and the mapping of a query's error codes to them.

All are `GamayError`; subclasses of `DatabaseError` are also `QueryError`, with the same `code` as for in-process queries.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gamay.base.errors import ErrorCode, GamayError, QueryError

_CODES = {code.code: code for code in ErrorCode}


class Warning(Exception):  # noqa: N818 - the name that PEP 249 gives it
    """A note about an answer that is returned nevertheless; see `Cursor.messages`."""


class Error(GamayError):
    """Base class of the errors of this module."""


class InterfaceError(Error):
    """An incorrect use of the client or an unintelligible answer: a closed cursor, a wrong address."""


class DatabaseError(Error, QueryError):
    """A query that failed, or whose answer is incomplete.

    code: the kind of error; error_code: its number, as sent by the broker if it did; exceptions: all those of the
    answer, as `(number, message)`; response: the answer, or None.
    """

    def __init__(
        self,
        message: str,
        code: ErrorCode = ErrorCode.UNKNOWN,
        *,
        error_code: int | None = None,
        exceptions: Sequence[tuple[int, str]] = (),
        response: Mapping[str, Any] | None = None,
    ) -> None:
        QueryError.__init__(self, code, message)
        self.error_code = code.code if error_code is None else error_code
        self.exceptions = tuple(exceptions)
        self.response = response


class DataError(DatabaseError):
    """A value that does not have the requested type, or that a query cannot contain."""


class OperationalError(DatabaseError):
    """A failure not caused by the query: no broker answers, out of time or memory, access denied. A retry may succeed."""


class IntegrityError(DatabaseError):
    """Never raised, as queries change nothing; here because PEP 249 names it."""


class InternalError(DatabaseError):
    """A defect of the database."""


class ProgrammingError(DatabaseError):
    """An error in the query: its syntax, an unknown table or column, unsuitable parameters."""


class NotSupportedError(DatabaseError):
    """A feature that the database does not support."""


_PROGRAMMING = {
    ErrorCode.JSON_PARSING,
    ErrorCode.SQL_PARSING,
    ErrorCode.TABLE_DOES_NOT_EXIST,
    ErrorCode.QUERY_VALIDATION,
    ErrorCode.UNKNOWN_COLUMN,
}
_INTERNAL = {ErrorCode.INTERNAL, ErrorCode.MERGE_RESPONSE, ErrorCode.UNKNOWN}


def error_of(exceptions: Sequence[tuple[int, str]], response: Mapping[str, Any]) -> DatabaseError:
    """Return the error for an answer's exceptions, at least one; the first determines its type.

    Unknown numbers give `InternalError` with `ErrorCode.UNKNOWN`; `error_code` keeps the number.
    """
    number, message = exceptions[0]
    code = _CODES.get(number, ErrorCode.UNKNOWN)
    if code in _PROGRAMMING:
        kind: type[DatabaseError] = ProgrammingError
    elif code is ErrorCode.SQL_RUNTIME:
        kind = DataError
    else:
        kind = InternalError if code in _INTERNAL else OperationalError
    message = message.removeprefix(f"{code.label}: ") or f"the broker reports error {number} without saying more"
    if len(exceptions) > 1:
        message = f"{message} (and {len(exceptions) - 1} more)"
    return kind(message, code, error_code=number, exceptions=exceptions, response=response)
