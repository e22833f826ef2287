"""Errors of calls between processes, distinguished by what the caller should do."""

from collections.abc import Sequence

from gamay.base.errors import GamayError


class RpcError(GamayError):
    """A call that got no answer."""

    http_status = 503


class NotSentError(RpcError):
    """A call that was not sent: no connection, or no capacity. It can be sent to another server without being
    executed twice."""


class BusyError(NotSentError):
    """A call that was not sent, because too many others are in flight."""


class ConnectionLostError(RpcError):
    """A connection that broke while the call was in flight."""


class CallTimeoutError(RpcError):
    """A call that exceeded its time limit."""


class ProtocolError(RpcError):
    """A peer that sent an invalid frame, or has no common protocol version."""


class CallFailedError(RpcError):
    """An error answer of the peer. code: the peer's error code. buffers: sent with the error."""

    def __init__(self, code: int, message: str, buffers: "Sequence[memoryview]" = ()) -> None:
        super().__init__(message)
        self.code = code
        self.buffers = buffers
