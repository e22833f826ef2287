"""Gamay: a realtime distributed OLAP datastore for user-facing analytics."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gamay.embedded import connect as connect

__version__ = "0.1.0"
__all__ = ["__version__", "connect"]


def __getattr__(name: str) -> Any:
    # Loaded on first use: `import gamay` alone must not pay for the engine.
    if name == "connect":
        from gamay.embedded import connect

        return connect
    raise AttributeError(f"module 'gamay' has no attribute {name!r}")
