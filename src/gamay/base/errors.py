"""The errors a caller can act on, each with the code that clients of Pinot know.

A class exists only where a caller would act differently; the detail goes into the message, which says what is wrong,
where, and what would be right. Everything else is a defect of Gamay and surfaces as `ErrorCode.UNKNOWN`.
"""

import difflib
import itertools
from collections.abc import Iterable
from enum import Enum

_DETAIL_MAX = 2000
_CLOSE = 0.6  # the least similarity of two names for one to be suggested in place of the other
_NAME_MAX = 200  # a longer name is no misspelling, and comparing names takes time quadratic in their length


class ErrorCode(Enum):
    """Query error codes: (code, name in the message, HTTP status when a client asks for HTTP statuses)."""

    JSON_PARSING = (100, "JsonParsingError", 400)
    SQL_PARSING = (150, "SQLParsingError", 400)
    SQL_RUNTIME = (160, "SQLRuntimeError", 500)
    ACCESS_DENIED = (180, "AccessDenied", 403)
    TABLE_DOES_NOT_EXIST = (190, "TableDoesNotExistError", 404)
    TABLE_IS_DISABLED = (191, "TableIsDisabledError", 404)
    QUERY_EXECUTION = (200, "QueryExecutionError", 500)
    SERVER_SHUTTING_DOWN = (210, "ServerShuttingDown", 503)
    SERVER_OUT_OF_CAPACITY = (211, "ServerOutOfCapacity", 503)
    SERVER_TABLE_MISSING = (230, "ServerTableMissing", 404)
    SERVER_SEGMENT_MISSING = (235, "ServerSegmentMissing", 404)
    QUERY_SCHEDULING_TIMEOUT = (240, "QuerySchedulingTimeoutError", 408)
    SERVER_RESOURCE_LIMIT_EXCEEDED = (245, "ServerResourceLimitExceededError", 503)
    QUERY_SCAN_LIMIT_EXCEEDED = (246, "QueryScanLimitExceededError", 400)
    EXECUTION_TIMEOUT = (250, "ExecutionTimeoutError", 408)
    SEGMENTS_UNAVAILABLE = (305, "SegmentsUnavailable", 503)
    BROKER_TIMEOUT = (400, "BrokerTimeoutError", 408)
    BROKER_RESOURCE_MISSING = (410, "BrokerResourceMissingError", 503)
    BROKER_INSTANCE_MISSING = (420, "BrokerInstanceMissingError", 503)
    BROKER_REQUEST_SEND = (425, "BrokerRequestSend", 503)
    SERVER_NOT_RESPONDING = (427, "ServerNotResponding", 503)
    TOO_MANY_REQUESTS = (429, "TooManyRequests", 429)
    INTERNAL = (450, "InternalError", 500)
    MERGE_RESPONSE = (500, "MergeResponseError", 500)
    QUERY_CANCELLATION = (503, "QueryCancellationError", 503)
    QUERY_VALIDATION = (700, "QueryValidationError", 400)
    UNKNOWN_COLUMN = (710, "UnknownColumnError", 400)
    QUERY_PLANNING = (720, "QueryPlanningError", 400)
    UNKNOWN = (1000, "UnknownError", 500)

    def __init__(self, code: int, label: str, http_status: int) -> None:
        self.code = code
        self.label = label
        self.http_status = http_status


_BY_NUMBER = {code.code: code for code in ErrorCode}


def error_code(number: int) -> ErrorCode:
    """Return the code with a number, UNKNOWN if there is none."""
    return _BY_NUMBER.get(number, ErrorCode.UNKNOWN)


class GamayError(Exception):
    """An error that a user can cause or must know about; `str()` is fit to be shown to a client."""

    http_status = 500


class QueryError(GamayError):
    """A query that failed, with the code that its client expects."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.http_status = code.http_status

    def client_message(self) -> str:
        """Return the text of the `message` field of the response: `<name>: <detail>`, the detail cut when very long."""
        detail = str(self)
        shown = detail if len(detail) <= _DETAIL_MAX else f"{detail[:_DETAIL_MAX]}…"
        return f"{self.code.label}: {shown}"


class InvalidConfigError(GamayError):
    """A schema, table config, job spec or option that is invalid; the caller must change it."""

    http_status = 400


class NotFoundError(GamayError):
    """The named thing does not exist."""

    http_status = 404


class ConflictError(GamayError):
    """The thing exists already, is in use, or was changed by another writer since it was read."""

    http_status = 409


class CorruptSegmentError(GamayError):
    """A segment file that is truncated, damaged or foreign; it must be fetched again, never served."""

    http_status = 400


class RecordError(GamayError):
    """An input record that cannot be read or converted; names the file and the position."""

    http_status = 400


class InUseError(GamayError):
    """A data folder or port that another process holds. broker: the address of that process's broker, if it has one."""

    http_status = 409

    def __init__(self, message: str, broker: str | None = None) -> None:
        super().__init__(message)
        self.broker = broker


class ClosedError(GamayError):
    """The database was closed; open it again with `gamay.connect`."""


class DiskFullError(GamayError):
    """No space is left on the disk for a write; nothing was changed."""

    http_status = 507


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` for the known name closest to `name`, or an empty string when none is close.

    >>> nearest("sortedColum", ["sortedColumn", "loadMode"])
    " Did you mean 'sortedColumn'?"
    >>> nearest("zzz", ["sortedColumn"])
    ''
    >>> nearest("summ", ["sumMV", "sum"])
    " Did you mean 'sum'?"
    >>> nearest("server.instance.heap", ["server.instance.dataDir"])
    ''
    """
    if len(name) > _NAME_MAX:
        return ""
    by_folded, folded = {k.lower(): k for k in known}, name.lower()
    undoubled = _undoubled(folded)
    doubled = (k for k in by_folded if _undoubled(k) == undoubled)
    similar = difflib.get_close_matches(folded, by_folded, cutoff=_CLOSE)
    close = [*doubled, *(k for k in similar if _is_close_where_it_differs(folded, k))]
    return f" Did you mean '{by_folded[close[0]]}'?" if close else ""


def _is_close_where_it_differs(name: str, known: str) -> bool:
    """Return whether two names are similar apart from their common leading parts, which dots separate."""
    parts, known_parts = name.split("."), known.split(".")
    pairs = zip(parts, known_parts, strict=False)
    shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    rest, known_rest = ".".join(parts[shared:]), ".".join(known_parts[shared:])
    is_longer_only = not rest or not known_rest
    return not shared or is_longer_only or difflib.SequenceMatcher(None, known_rest, rest).ratio() >= _CLOSE


def _undoubled(name: str) -> str:
    return "".join(letter for letter, _ in itertools.groupby(name))


def counted(number: int, noun: str) -> str:
    """Return a number of things.

    >>> counted(1, "argument"), counted(2, "argument")
    ('1 argument', '2 arguments')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def forget_traceback(error: BaseException) -> None:
    """Drop the tracebacks of an error and its causes, which keep the local variables of the functions that it left.

    For errors that are kept as values: they would keep all of that alive, often until cycles are collected.
    """
    seen: BaseException | None = error
    while seen is not None:
        seen.__traceback__ = None
        seen = seen.__cause__ or seen.__context__
