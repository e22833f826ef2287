"""The exceptions of DB-API 2.0 (PEP 249), and which of them a failed query raises.

All are `GamayError`; those below `DatabaseError` are `QueryError` too, and so have the `code` that queries in process have.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gamay.base.errors import ErrorCode, GamayError, QueryError

_CODES = {code.code: code for code in ErrorCode}


class Warning(Exception):  # noqa: N818 - the name that PEP 249 gives it
    """Something to know about an answer that is given nevertheless; found in `Cursor.messages`."""


class Error(GamayError):
    """Whatever goes wrong in this module."""


class InterfaceError(Error):
    """The client is used wrongly, or gets what it does not understand: a closed cursor, a wrong address."""


class DatabaseError(Error, QueryError):
    """A query that got no answer, or not a whole one.

    code: the kind of error; error_code: its number, as the broker sent it, where it did; exceptions: all that the answer
    held, as `(number, message)`; response: the answer, None where there was none.
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
    """A value that is not of the type that is asked for, or has no place in a query."""


class OperationalError(DatabaseError):
    """Not the query's fault: nobody answers, time or memory has run out, access is denied. Trying again later may help."""


class IntegrityError(DatabaseError):
    """Never raised, as queries change nothing; here because PEP 249 names it."""


class InternalError(DatabaseError):
    """A defect of the database."""


class ProgrammingError(DatabaseError):
    """The query's fault: its syntax, a table or column that does not exist, parameters that do not fit."""


class NotSupportedError(DatabaseError):
    """Something that the database does not do."""


_PROGRAMMING = {
    ErrorCode.JSON_PARSING,
    ErrorCode.SQL_PARSING,
    ErrorCode.TABLE_DOES_NOT_EXIST,
    ErrorCode.QUERY_VALIDATION,
    ErrorCode.UNKNOWN_COLUMN,
}
_INTERNAL = {ErrorCode.INTERNAL, ErrorCode.MERGE_RESPONSE, ErrorCode.UNKNOWN}


def error_of(exceptions: Sequence[tuple[int, str]], response: Mapping[str, Any]) -> DatabaseError:
    """Return the error for an answer with exceptions, of which there is at least one: the first decides what it is.

    Numbers that this release does not know are `InternalError` with `ErrorCode.UNKNOWN`; `error_code` has the number.
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
