"""Gamay: a realtime distributed OLAP datastore for user-facing analytics."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gamay.base.errors import ClosedError as ClosedError
    from gamay.base.errors import ConflictError as ConflictError
    from gamay.base.errors import CorruptSegmentError as CorruptSegmentError
    from gamay.base.errors import DiskFullError as DiskFullError
    from gamay.base.errors import ErrorCode as ErrorCode
    from gamay.base.errors import GamayError as GamayError
    from gamay.base.errors import InUseError as InUseError
    from gamay.base.errors import InvalidConfigError as InvalidConfigError
    from gamay.base.errors import NotFoundError as NotFoundError
    from gamay.base.errors import QueryError as QueryError
    from gamay.base.errors import RecordError as RecordError
    from gamay.embedded import Database as Database
    from gamay.embedded import Result as Result
    from gamay.embedded import connect as connect

__version__ = "0.1.0"
__all__ = [
    "ClosedError",
    "ConflictError",
    "CorruptSegmentError",
    "Database",
    "DiskFullError",
    "ErrorCode",
    "GamayError",
    "InUseError",
    "InvalidConfigError",
    "NotFoundError",
    "QueryError",
    "RecordError",
    "Result",
    "__version__",
    "connect",
]

_EMBEDDED = ("Database", "Result", "connect")


def __getattr__(name: str) -> Any:
    # Loaded on first use: `import gamay` alone must not pay for the engine.
    if name in _EMBEDDED:
        from gamay import embedded

        return getattr(embedded, name)
    if name in __all__:
        from gamay.base import errors

        return getattr(errors, name)
    raise AttributeError(f"module 'gamay' has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """Make `%sql` and `%%sql` known to a notebook; `%load_ext gamay` calls this."""
    import_module("gamay.notebook.magics").load(shell)  # by its name: what imports this package does not import that


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
