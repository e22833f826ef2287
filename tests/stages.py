"""Traversal of the tree of `stageStats`."""

from collections.abc import Iterator
from typing import Any


def stages(stats: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield all nodes of the tree, each before those below it."""
    yield stats
    for below in stats.get("children", ()):
        yield from stages(below)


def leaves(stats: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the statistics of the tables."""
    return [node for node in stages(stats) if node["type"] == "LEAF"]
