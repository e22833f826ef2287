"""HTTP connections with a timeout for clients that do not read their responses."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

STALLED_S = 60.0
"""How long a client may stop reading a response; as in other web servers, such as nginx."""

_log = logging.getLogger(__name__)


class ReadAnswers(HttpToolsProtocol):
    """One connection, which is aborted if its client reads nothing for `STALLED_S`.

    count_unsent: called with each change, in bytes, of the data waiting to be sent.
    """

    def __init__(self, *args: Any, count_unsent: Callable[[int], None] = lambda _: None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._count_unsent = count_unsent
        self._unsent = 0
        self._look: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        """Record that the client reads more slowly than data is sent."""
        super().pause_writing()
        self._note(self.transport.get_write_buffer_size())
        self._watch(self._unsent)

    def resume_writing(self) -> None:
        """Record that the client has caught up."""
        self._all_read()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Discard the data waiting to be sent."""
        self._all_read()
        super().connection_lost(exc)

    def _note(self, unsent: int) -> None:
        grown, self._unsent = unsent - self._unsent, unsent
        if grown:
            self._count_unsent(grown)

    def _all_read(self) -> None:
        self._note(0)
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _watch(self, before: int) -> None:
        def look() -> None:
            left = self.transport.get_write_buffer_size()
            if left < before:
                self._note(left)
                self._watch(left)
            else:
                _log.warning("%s read nothing of a response for %.0f s: closing the connection", self.client, STALLED_S)
                self.transport.abort()

        self._look = self.loop.call_later(STALLED_S, look)
