"""What can go wrong between two processes, told apart by what the caller should do."""

from collections.abc import Sequence

from gamay.base.errors import GamayError


class RpcError(GamayError):
    """A call that brought no answer."""

    http_status = 503


class NotSentError(RpcError):
    """The call never left: no connection, or no room for it. Another server can be asked without asking twice."""


class BusyError(NotSentError):
    """The call never left, because so many others are under way."""


class ConnectionLostError(RpcError):
    """The connection broke while the call was under way."""


class CallTimeoutError(RpcError):
    """The time for the call is over."""


class ProtocolError(RpcError):
    """The other end sent what is no frame, or speaks no common version."""


class CallFailedError(RpcError):
    """The other end answered with an error. code: its number there. buffers: what it sent with it."""

    def __init__(self, code: int, message: str, buffers: "Sequence[memoryview]" = ()) -> None:
        super().__init__(message)
        self.code = code
        self.buffers = buffers
