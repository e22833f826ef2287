"""All roles in one process and one data folder."""

from typing import TYPE_CHECKING, Any

from gamay.base.collector import paused

if TYPE_CHECKING:
    from gamay.embedded.cluster import EmbeddedCluster as EmbeddedCluster
    from gamay.embedded.database import Database as Database
    from gamay.embedded.database import connect as connect
    from gamay.embedded.result import Result as Result

__all__ = ["Database", "EmbeddedCluster", "Result", "connect"]


def __getattr__(name: str) -> Any:
    # `connect` must not import modules that only the HTTP interfaces need.
    if name in ("connect", "Database", "Result"):
        with paused():  # modules are a million objects that stay alive
            from gamay.embedded import database

        return getattr(database, name)
    if name == "EmbeddedCluster":
        from gamay.embedded.cluster import EmbeddedCluster

        return EmbeddedCluster
    raise AttributeError(f"module 'gamay.embedded' has no attribute {name!r}")
