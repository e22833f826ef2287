"""Translates Gamay's errors into those of Flight: the status says what to do, the message is the one of HTTP."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyarrow import flight

from gamay.base.errors import ErrorCode, GamayError, NotFoundError, QueryError, error_code
from gamay.cluster.access.failed_logins import TooManyLoginsError
from gamay.cluster.access.principals import ForbiddenError, UnauthorizedError

_log = logging.getLogger(__name__)

_CANCELLED = frozenset({ErrorCode.QUERY_CANCELLATION})
_TIMED_OUT = frozenset({ErrorCode.QUERY_SCHEDULING_TIMEOUT, ErrorCode.EXECUTION_TIMEOUT, ErrorCode.BROKER_TIMEOUT})
_NOT_FOUND = frozenset({ErrorCode.TABLE_DOES_NOT_EXIST, ErrorCode.TABLE_IS_DISABLED})


class _Untraced(Exception):  # noqa: N818 - not raised itself
    """An error that Arrow sends to the client without a traceback.

    Arrow maps errors of the caller only from Python's own exceptions, and appends what `traceback` formats of them; where
    formatting fails, only the name of the class.
    """

    @property
    def __suppress_context__(self) -> bool:
        raise AttributeError("not to be formatted")

    @__suppress_context__.setter
    def __suppress_context__(self, value: bool) -> None:
        """Accept and ignore the assignment of `raise … from None`."""


class InvalidRequest(_Untraced, ValueError):  # noqa: N818 - clients see the name: Flight's status INVALID_ARGUMENT
    """A query or command that cannot be answered as it is."""


class NotFound(_Untraced, KeyError):  # noqa: N818 - as above: NOT_FOUND
    """Something that does not exist."""

    def __str__(self) -> str:
        return str(self.args[0])  # without the quotes of a KeyError


class Refused(_Untraced, Exception):  # noqa: N818 - as above, without a status more specific than UNKNOWN
    """Any other failure of GetSchema, where Arrow accepts no Flight error."""


class NotOffered(_Untraced, pa.ArrowNotImplementedError):  # type: ignore[misc]
    """A feature of Flight SQL that Gamay does not support: UNIMPLEMENTED."""


def flight_error(code: ErrorCode, message: str) -> Exception:
    """Return the Flight error for a failed query."""
    found: Exception = _kind_of(code)(message)
    return found


def _kind_of(code: ErrorCode) -> Any:
    if code is ErrorCode.ACCESS_DENIED:
        return flight.FlightUnauthorizedError
    if code in _CANCELLED:
        return flight.FlightCancelledError
    if code in _TIMED_OUT:
        return flight.FlightTimedOutError
    if code in _NOT_FOUND:
        return NotFound
    if code.http_status in (429, 503):
        return flight.FlightUnavailableError
    if code.http_status == 400:
        return InvalidRequest
    return flight.FlightInternalError


def first_failure(exceptions: list[tuple[int, str]]) -> Exception:
    """Return the Flight error for the exceptions of a response: the first, with the number of the others."""
    number, message = exceptions[0]
    more = f" ({len(exceptions) - 1} more errors)" if len(exceptions) > 1 else ""
    return flight_error(error_code(number), f"{message}{more}")


@contextmanager
def told() -> Iterator[None]:
    """Translate Gamay's errors raised in the body of `with` into Flight's; log other exceptions and report them as
    defects."""
    try:
        yield
    except (flight.FlightError, InvalidRequest, NotFound, NotOffered):
        raise
    except GamayError as error:
        raise _translated(error) from None
    except Exception as error:  # noqa: BLE001 - no defect may show a client its traceback
        _log.exception("a call of Flight SQL failed")
        raise flight.FlightInternalError(f"The call failed for a reason that is a defect of Gamay: {error!r}") from None


def _translated(error: GamayError) -> Exception:
    if isinstance(error, QueryError):
        return flight_error(error.code, error.client_message())
    kinds: tuple[tuple[type[GamayError], Any], ...] = (
        (UnauthorizedError, flight.FlightUnauthenticatedError),
        (ForbiddenError, flight.FlightUnauthorizedError),
        (TooManyLoginsError, flight.FlightUnavailableError),
        (NotFoundError, NotFound),
    )
    other = InvalidRequest if error.http_status == 400 else flight.FlightInternalError
    make = next((made for kind, made in kinds if isinstance(error, kind)), other)
    found: Exception = make(str(error))
    return found
