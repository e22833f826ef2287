"""What the parts of the controller share."""

import ssl
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gamay.base.clock import Clock
from gamay.base.ids import Ids
from gamay.cluster.records.llc_name import Place
from gamay.cluster.records.registry import Registry
from gamay.controller.counts import ControllerCounts
from gamay.ingest.stream.spi import StreamContext
from gamay.model.table.table_config import TableConfig
from gamay.storage.deep_store import DeepStore
from gamay.storage.fetchers import Fetchers


class Servers(Protocol):
    """What the controller asks of servers; every method raises NotFoundError when the server does not answer."""

    def segment_sizes(self, instance: str, table: str) -> Mapping[str, int]:
        """Return the bytes on disk of each segment that the server has loaded."""
        ...

    def segment_details(self, instance: str, table: str, segment: str, columns: Sequence[str]) -> dict[str, Any]:
        """Return what the server knows of a loaded segment; columns: names, or `*` for all."""
        ...

    def reload_progress(
        self, instance: str, table: str, segments: Sequence[str], since_ms: int
    ) -> tuple[int, Mapping[str, str]]:
        """Return how many of the segments were loaded again since then, and the reasons of those that failed."""
        ...

    def stale_segments(self, instance: str, table: str) -> Sequence[str]:
        """Return the loaded segments that are not stored as the table config asks for."""
        ...

    def segment_errors(self, instance: str, table: str) -> Mapping[str, str]:
        """Return why segments are in the ERROR state."""
        ...

    def consuming_segments(self, instance: str, table: str) -> Sequence[Mapping[str, Any]]:
        """Return the consuming segments of the server, in the shape of its `consumingSegmentsInfo`."""
        ...

    def consumption(self, instance: str, table: str) -> Mapping[str, Any]:
        """Return the server's `realtimeStatus`: its consumers, builds, errors and dead letters."""
        ...

    def dead_letters(self, instance: str, table: str, limit: int) -> Sequence[Mapping[str, Any]]:
        """Return the last messages that the server could not take in."""
        ...

    def replayable(self, instance: str, table: str, limit: int) -> tuple[Sequence[Place], bool]:
        """Return the places of messages that can be written to the stream again, as far as the server knows, the oldest
        first, and whether there are more of them."""
        ...

    def find_dead_letters(
        self, instance: str, table: str, places: Collection[Place]
    ) -> tuple[Sequence[Mapping[str, Any]], Mapping[Place, str]]:
        """Return the dead letters at some places, or the first of them, and which of all were replayed, and where to."""
        ...

    def note_replayed(self, instance: str, table: str, replayed: Mapping[Place, str]) -> None:
        """Have the server remember where messages were written to the stream again."""
        ...

    def valid_doc_counts(self, instance: str, table: str, segments: Sequence[str], kind: str) -> Sequence[Mapping[str, Any]]:
        """Return how many rows of segments count, in the shape of a server's `validDocIdsMetadata`; kind: as there."""
        ...

    def upsert_keys(self, instance: str, table: str) -> Mapping[str, int]:
        """Return how many primary keys the server holds of each partition of a table with upsertConfig, by partition."""
        ...

    def disk_usage(self, instance: str) -> tuple[int, int]:
        """Return the bytes of the disk on which the server's segments are, and how many of them are in use."""
        ...

    def fetch_segment(self, instance: str, table: str, segment: str, target: Path) -> None:
        """Write the archive (.tar.gz) of a segment that the server has loaded to a file."""
        ...


class TableConfigs(Protocol):
    """Where the configs of tables come from."""

    def get(self, table: str) -> TableConfig:
        """Return the config of a typed table. Raises NotFoundError."""
        ...

    def names(self) -> list[str]:
        """Return the typed names of all tables, ascending."""
        ...


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """Where the controller keeps things and whom it asks.

    work_dir: scratch space on the file system of the deep store, emptied when the controller starts.
    url: where clients reach this controller, without a slash at the end. streams: what stream plug-ins need to know.
    fetchers: bring what pushers only name. tls: what the certificates of brokers are checked against. counts: what happened,
    for `/metrics`. auth_token: the `Authorization` header that servers and minions want to see; empty is none.
    """

    registry: Registry
    deep_store: DeepStore
    work_dir: Path
    clock: Clock
    ids: Ids
    servers: Servers
    instance_id: str
    url: str
    streams: StreamContext
    fetchers: Fetchers = field(default_factory=Fetchers)
    tls: ssl.SSLContext | None = None
    counts: ControllerCounts = field(default_factory=ControllerCounts)
    auth_token: str = field(default="", repr=False)
