"""The gRPC port: binding, encryption, and limits on calls."""

import importlib.util
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gamay.base.clock import Clock
from gamay.base.errors import InUseError, InvalidConfigError
from gamay.base.tls import TlsSettings
from gamay.cluster.access.principals import AccessControl
from gamay.query.limits.queue import QueryQueue
from gamay.server.answering.executor import QueryExecutor
from gamay.server.answering.running import RunningQueries
from gamay.server.instance.instance import ServerInstance

# requests contain a query and names of segments
_REQUEST_BYTES_MAX = 64 << 20
# concurrent calls: most of the time they wait for their readers
_CALLS_MAX = 64
_WAITING_MAX = 1000
_KEEPALIVE_MS = 60_000
_OPTIONS = (
    ("grpc.so_reuseport", 0),  # else another process could have the port as well
    ("grpc.max_receive_message_length", _REQUEST_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),  # a reader that is gone frees its thread
)
_LAST_PORT = 65_535


class GrpcPort:
    """A port that is bound immediately, and answers from `start` on. port: 0 takes a free one; see the attribute."""

    def __init__(self, port: int, host: str, tls: TlsSettings | None = None, others: Collection[int] = ()) -> None:
        """tls: enables encryption. others: ports of this process that do not listen yet.

        Raises InUseError if another process uses the port, InvalidConfigError for an invalid port or certificate.
        """
        if not 0 <= port <= _LAST_PORT:
            raise InvalidConfigError(f"{port} is no port for gRPC: a port is a number from 1 to {_LAST_PORT}")
        if port in others and port:
            raise InvalidConfigError(
                f"the server cannot take queries by gRPC on port {port} beside HTTP; choose another port"
            )
        if importlib.util.find_spec("grpc") is None or importlib.util.find_spec("google") is None:
            raise InvalidConfigError("the gRPC port of a server needs grpcio and Protobuf: pip install 'gamay[grpc]'")
        import grpc  # imported here: the process may not need gRPC

        self._threads = ThreadPoolExecutor(_CALLS_MAX, thread_name_prefix="server-grpc")
        self._queue: QueryQueue | None = None
        self._server = grpc.server(self._threads, options=_OPTIONS, maximum_concurrent_rpcs=_CALLS_MAX + _WAITING_MAX)
        self.is_encrypted = tls is not None
        try:
            if tls is None:
                self.port: int = self._server.add_insecure_port(f"{host}:{port}")
            else:
                certificate, key, authorities = tls.pem_files("the gRPC port of a server")
                credentials = grpc.ssl_server_credentials(
                    [(key, certificate)], authorities, require_client_auth=authorities is not None
                )
                self.port = self._server.add_secure_port(f"{host}:{port}", credentials)
        except RuntimeError as error:
            raise InUseError(f"the server cannot take queries by gRPC on port {port}; choose another port") from error

    def start(
        self,
        instance: ServerInstance,
        executor: QueryExecutor,
        running: RunningQueries,
        access: AccessControl,
        clock: Clock,
        threads: int = 4,
    ) -> None:
        """Start answering.

        running: the registry of calls. access: who may query. threads: the number of threads that read segments.
        """
        import grpc

        from gamay.server.grpc.messages import METHOD, SERVICE, ServerRequest, ServerResponse
        from gamay.server.grpc.submit import Submissions

        self._queue = QueryQueue(threads, thread_name="server-scan")
        answerer = Submissions(instance, executor, self._queue, running, access, clock)
        handler = grpc.unary_stream_rpc_method_handler(
            answerer.submit,
            request_deserializer=ServerRequest.FromString,
            response_serializer=ServerResponse.SerializeToString,
        )
        handlers: Any = {METHOD: handler}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        self._server.start()

    def stop(self, within_s: float = 0) -> None:
        """Stop accepting calls, wait for running ones up to the timeout, then abort them, and close the port."""
        self._server.stop(within_s).wait()
        if self._queue is not None:
            self._queue.shutdown(wait=False)
        self._threads.shutdown(wait=False)
