"""A server's defaults for tables with primary keys whose configs leave the choice to the server."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ServerDefaults:
    """The settings of a server. Snapshots cost little and save a restart's time, so they are on.

    snapshot, preload: for configs that say DEFAULT. preload_threads: how many partitions are loaded side by side; 0: one by
    one, and segments with a snapshot not before the others. manager, dedup_manager: the class that keeps the keys of a table
    that names none, as `module.Class`; empty: Gamay's own. allow_during_commit, allow_dedup_during_commit: no partition of a
    PARTIAL or dedup table waits for a commit. dedup_ignores_tiers: for configs whose ignoreNonDefaultTiers says DEFAULT.
    """

    snapshot: bool = True
    preload: bool = True
    preload_threads: int = 2
    manager: str = ""
    dedup_manager: str = ""
    allow_during_commit: bool = False
    allow_dedup_during_commit: bool = False
    dedup_ignores_tiers: bool = False


DEFAULTS = ServerDefaults()


def _flag(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError
    return text.strip().lower() == "true"


def _count(text: str) -> int:
    if int(text) < 0:
        raise ValueError
    return int(text)


_UPSERT, _DEDUP = "pinot.server.instance.upsert.default", "pinot.server.instance.dedup.default"
DEFAULT_KEYS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "pinot.server.instance.max.segment.preload.threads": ("preload_threads", _count),
    f"{_UPSERT}.enable.snapshot": ("snapshot", _flag),
    f"{_UPSERT}.enable.preload": ("preload", _flag),
    f"{_UPSERT}.metadata.manager.class": ("manager", str),
    f"{_UPSERT}.allow.partial.upsert.consumption.during.commit": ("allow_during_commit", _flag),
    f"{_DEDUP}.metadata.manager.class": ("dedup_manager", str),
    f"{_DEDUP}.ignore.non.default.tiers": ("dedup_ignores_tiers", _flag),
    f"{_DEDUP}.allow.dedup.consumption.during.commit": ("allow_dedup_during_commit", _flag),
}
"""The keys of a server's properties file: field and reader, which raises ValueError."""
