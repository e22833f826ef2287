"""Serves an ASGI application on a thread of this process."""

import math
import socket
import ssl
import threading
from typing import Any

import uvicorn

from gamay.base.errors import InUseError, InvalidConfigError
from gamay.web.bounded_heads import BoundedHeads

STOP_S = 10.0
_CLOSING_S = 2.0  # after the requests in flight ended or were aborted
_LAST_PORT = 65_535


class HttpServer:
    """One listening port. port: 0 selects a free one, which the attribute holds."""

    def __init__(self, name: str, port: int, host: str, tls: ssl.SSLContext | None = None) -> None:
        """Reserve the port, on the interface with the address `host`; tls: None for no encryption.

        Raises InUseError if another process, or another part of this one, has the port, InvalidConfigError for an invalid
        port.
        """
        if not 0 <= port <= _LAST_PORT:
            raise InvalidConfigError(f"the {name} cannot listen on port {port}: a port is a number from 1 to {_LAST_PORT}")
        self._name = name
        self._tls = tls
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise InUseError(f"the {name} cannot listen on port {port}: {error.strerror}; choose another port") from error
        self.port: int = self._socket.getsockname()[1]
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(self, app: Any, protocol: Any = BoundedHeads) -> None:
        """Start serving, in place of the previous application, if any.

        protocol: factory of connection handlers.
        """
        if self._thread is not None:
            self.stop_answering(STOP_S)  # meanwhile clients wait
        config = uvicorn.Config(
            app,
            http=protocol,
            log_level="warning",
            access_log=False,
            lifespan="off",
            log_config=None,
            proxy_headers=False,
            server_header=False,
        )
        config.load()
        config.ssl = self._tls
        self._server = uvicorn.Server(config)
        # From here on, clients that connect before the thread serves are queued instead of refused.
        self._socket.listen(config.backlog)
        own = self._socket.dup()  # which the server closes when it ends
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [own]}, name=f"http-{self._name}", daemon=True
        )
        self._thread.start()

    def begin_stop(self, within_s: float = STOP_S) -> None:
        """Stop accepting requests; requests in flight are aborted after the timeout."""
        if self._server is not None:
            self._server.config.timeout_graceful_shutdown = math.ceil(within_s)  # an integer; the server reads it on exit
            self._server.should_exit = True

    def stop_answering(self, within_s: float) -> None:
        """Stop serving; wait for the requests in flight up to the timeout, then abort them."""
        self.begin_stop(within_s)
        if self._thread is not None:
            self._thread.join(within_s + _CLOSING_S)

    def stop(self, within_s: float = STOP_S) -> None:
        """Stop serving like `stop_answering`, then close the port."""
        self.stop_answering(within_s)
        self._socket.close()
