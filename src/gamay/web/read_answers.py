"""Connections over HTTP whose clients read what they are sent: an answer that nobody reads is not kept for ever."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

STALLED_S = 60.0
"""How long a client may read nothing of an answer; the time of other web servers, nginx among them."""

_log = logging.getLogger(__name__)


class ReadAnswers(HttpToolsProtocol):
    """One connection, which is ended when its client reads nothing for `STALLED_S`.

    count_unsent: is told by how many bytes what waits to be sent has grown or shrunk.
    """

    def __init__(self, *args: Any, count_unsent: Callable[[int], None] = lambda _: None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._count_unsent = count_unsent
        self._unsent = 0
        self._look: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        """Note that the client is slower than what it is sent."""
        super().pause_writing()
        self._note(self.transport.get_write_buffer_size())
        self._watch(self._unsent)

    def resume_writing(self) -> None:
        """Note that the client has read nearly all."""
        self._all_read()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what was still to be sent."""
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
                _log.warning("%s read nothing of an answer for %.0f s: the connection is ended", self.client, STALLED_S)
                self.transport.abort()

        self._look = self.loop.call_later(STALLED_S, look)
