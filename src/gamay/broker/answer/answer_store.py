"""Answers that clients page through with cursors: the rows of each lie in a file until the answer expires.

A file has the rows as JSON, in blocks of `_BLOCK_ROWS`; memory holds the offsets of the blocks and the response without its
rows. A client that knows the request id may read the pages in any order, repeatedly.
"""

import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from gamay.base.clock import Clock
from gamay.base.errors import ErrorCode, GamayError, NotFoundError, QueryError
from gamay.cluster.access.principals import Principal
from gamay.model.cluster_settings import CURSOR_EXPIRATION, CURSOR_PAGE_ROWS
from gamay.model.units import parse_period
from gamay.query.answer.response import BrokerResponse, ResultTable, data_schema, row_blocks, to_json

_BLOCK_ROWS = 1000


class OffsetError(GamayError):
    """A page that begins beyond the last row."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """owner: name of the principal who asked. document: the response without rows.

    starts: offset of each block in the file, then the end of the last one.
    """

    owner: str
    document: Mapping[str, Any]
    schema: Mapping[str, Any]
    path: Path
    starts: tuple[int, ...]

    @property
    def num_rows(self) -> int:
        return int(self.document["numRowsResultSet"])

    @property
    def expires_ms(self) -> int:
        return int(self.document["expirationTimeMs"])

    def may_be_read_by(self, principal: Principal) -> bool:
        return principal.name == self.owner or principal.is_admin

    def rows(self, offset: int, stop: int) -> list[Any]:
        """Return a non-empty range of rows, from the blocks that hold them."""
        first, last = offset // _BLOCK_ROWS, (stop - 1) // _BLOCK_ROWS
        with self.path.open("rb") as file:
            file.seek(self.starts[first])
            text = file.read(self.starts[last + 1] - self.starts[first])
        rows: list[Any] = orjson.loads(b"[" + text.removesuffix(b",") + b"]")
        return rows[offset - first * _BLOCK_ROWS : stop - first * _BLOCK_ROWS]


class AnswerStore:
    """The answers that a broker keeps; thread-safe. They are lost when the process ends.

    address: returns the host and port under which clients reach the broker.
    """

    def __init__(self, clock: Clock, address: Callable[[], tuple[str, int]]) -> None:
        self._clock = clock
        self._address = address
        self._answers: dict[str, _Answer] = {}
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self.apply({})

    def apply(self, settings: Mapping[str, str]) -> None:
        """Apply the cluster's settings to pages and answers created from now on."""
        self._page_rows = CURSOR_PAGE_ROWS.whole(settings)
        self._kept_ms = parse_period(CURSOR_EXPIRATION.text(settings))

    def keep(self, response: BrokerResponse, table: ResultTable, num_rows: int, owner: Principal) -> bytes:
        """Keep an answer with the rows `table`, and return its first page.

        num_rows: rows of the first page; 0 for the default of the settings. owner: only this principal and administrators
        may read the answer. Raises QueryError 200 when the rows cannot be written.
        """
        begun_s, now_ms = self._clock.monotonic_s(), self._clock.now_ms()
        self._drop_expired()
        path = self._new_folder() / response.request_id
        starts = [0]
        try:
            with path.open("wb") as file:
                for block in row_blocks(table, _BLOCK_ROWS):
                    starts.append(starts[-1] + file.write(block) + file.write(b","))
        except BaseException as error:
            path.unlink(missing_ok=True)
            if isinstance(error, OSError):
                message = f"The rows cannot be stored for a cursor: {error.strerror}; repeat the query without getCursor"
                raise QueryError(ErrorCode.QUERY_EXECUTION, message) from error
            raise
        host, port = self._address()
        document = to_json(response) | {
            "offset": 0,
            "numRows": 0,
            "cursorResultWriteTimeMs": self._ms_since(begun_s),
            "cursorFetchTimeMs": 0,
            "submissionTimeMs": now_ms,
            "expirationTimeMs": now_ms + self._kept_ms,
            "brokerHost": host,
            "brokerPort": port,
            "bytesWritten": starts[-1],
        }
        del document["resultTable"]
        answer = _Answer(owner.name, document, data_schema(table), path, tuple(starts))
        with self._lock:
            self._answers[response.request_id] = answer
        return self._page(answer, 0, num_rows)

    def page(self, request_id: str, offset: int, num_rows: int, principal: Principal) -> bytes:
        """Return a response with at most `num_rows` rows from `offset` on (0: the default of the settings).

        Raises NotFoundError, also for an answer that the principal may not read, and OffsetError.
        """
        answer = self._find(request_id, principal)
        try:
            return self._page(answer, offset, num_rows)
        except FileNotFoundError:  # a concurrent request deleted it
            raise _not_found(request_id) from None

    def described(self, request_id: str, principal: Principal) -> Mapping[str, Any]:
        """Return the response of an answer without its rows. Raises NotFoundError."""
        return self._find(request_id, principal).document

    def all_described(self, principal: Principal) -> list[Mapping[str, Any]]:
        """Return the responses, without rows, of all answers that the principal may read."""
        self._drop_expired()
        return [answer.document for answer in list(self._answers.values()) if answer.may_be_read_by(principal)]

    def delete(self, request_id: str, principal: Principal) -> None:
        """Delete an answer. Raises NotFoundError."""
        self._find(request_id, principal)
        self._drop(request_id)

    def delete_expired(self, before_ms: int, principal: Principal) -> int:
        """Delete the answers that expire by a time and that the principal may read; return their number."""
        expired = [request_id for request_id, answer in self._expired(before_ms) if answer.may_be_read_by(principal)]
        for request_id in expired:
            self._drop(request_id)
        return len(expired)

    def _page(self, answer: _Answer, offset: int, num_rows: int) -> bytes:
        begun_s = self._clock.monotonic_s()
        if offset and offset >= answer.num_rows:
            raise OffsetError(f"Offset {offset} should be lesser than totalRecords {answer.num_rows}")
        stop = min(offset + (num_rows or self._page_rows), answer.num_rows)
        rows = answer.rows(offset, stop) if stop > offset else []
        table = {"dataSchema": answer.schema, "rows": rows}
        page = {"offset": offset, "numRows": len(rows), "cursorFetchTimeMs": self._ms_since(begun_s)}
        return orjson.dumps({"resultTable": table, **answer.document, **page})

    def _find(self, request_id: str, principal: Principal) -> _Answer:
        self._drop_expired()
        answer = self._answers.get(request_id)
        if answer is None or not answer.may_be_read_by(principal):
            raise _not_found(request_id)
        return answer

    def _expired(self, before_ms: int) -> list[tuple[str, _Answer]]:
        return [(request_id, answer) for request_id, answer in list(self._answers.items()) if answer.expires_ms <= before_ms]

    def _drop_expired(self) -> None:
        for request_id, _ in self._expired(self._clock.now_ms()):
            self._drop(request_id)

    def _drop(self, request_id: str) -> None:
        with self._lock:
            answer = self._answers.pop(request_id, None)
        if answer is not None:
            answer.path.unlink(missing_ok=True)

    def _new_folder(self) -> Path:
        with self._lock:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="gamay-answers-"))
                weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            return self._folder

    def _ms_since(self, begun_s: float) -> int:
        return round((self._clock.monotonic_s() - begun_s) * 1000)


def _not_found(request_id: str) -> NotFoundError:
    return NotFoundError(f"Query results for {request_id} not found.")
