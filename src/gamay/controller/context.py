"""The state that the parts of the controller share."""

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
    """The controller's requests to servers; every method raises NotFoundError if the server does not answer."""

    def segment_sizes(self, instance: str, table: str) -> Mapping[str, int]:
        """Return the bytes on disk of each segment that the server has loaded."""
        ...

    def segment_details(self, instance: str, table: str, segment: str, columns: Sequence[str]) -> dict[str, Any]:
        """Return the server's metadata of a loaded segment; columns: names, or `*` for all."""
        ...

    def reload_progress(
        self, instance: str, table: str, segments: Sequence[str], since_ms: int
    ) -> tuple[int, Mapping[str, str]]:
        """Return how many of the segments were reloaded since `since_ms`, and segment -> reason for those that failed."""
        ...

    def stale_segments(self, instance: str, table: str) -> Sequence[str]:
        """Return the loaded segments that are not stored as the table config demands."""
        ...

    def segment_errors(self, instance: str, table: str) -> Mapping[str, str]:
        """Return segment -> reason for segments in the ERROR state."""
        ...

    def consuming_segments(self, instance: str, table: str) -> Sequence[Mapping[str, Any]]:
        """Return the consuming segments of the server, in the format of its `consumingSegmentsInfo`."""
        ...

    def consumption(self, instance: str, table: str) -> Mapping[str, Any]:
        """Return the server's `realtimeStatus`: its consumers, builds, errors and dead letters."""
        ...

    def dead_letters(self, instance: str, table: str, limit: int) -> Sequence[Mapping[str, Any]]:
        """Return the last messages that the server could not turn into rows."""
        ...

    def replayable(self, instance: str, table: str, limit: int) -> tuple[Sequence[Place], bool]:
        """Return the places of replayable messages that the server knows, the oldest first, and whether there are
        more."""
        ...

    def find_dead_letters(
        self, instance: str, table: str, places: Collection[Place]
    ) -> tuple[Sequence[Mapping[str, Any]], Mapping[Place, str]]:
        """Return the dead letters at the places (possibly only the first of them), and place -> new offset of those
        replayed."""
        ...

    def note_replayed(self, instance: str, table: str, replayed: Mapping[Place, str]) -> None:
        """Have the server record the new offsets of replayed messages."""
        ...

    def valid_doc_counts(self, instance: str, table: str, segments: Sequence[str], kind: str) -> Sequence[Mapping[str, Any]]:
        """Return the counts of valid rows of segments, in the format of a server's `validDocIdsMetadata`; kind: as
        there."""
        ...

    def upsert_keys(self, instance: str, table: str) -> Mapping[str, int]:
        """Return the number of primary keys that the server holds, by partition, of a table with upsertConfig."""
        ...

    def disk_usage(self, instance: str) -> tuple[int, int]:
        """Return the size in bytes of the disk with the server's segments, and the bytes in use."""
        ...

    def fetch_segment(self, instance: str, table: str, segment: str, target: Path) -> None:
        """Write the archive (.tar.gz) of a segment that the server has loaded to a file."""
        ...


class TableConfigs(Protocol):
    """A source of table configs."""

    def get(self, table: str) -> TableConfig:
        """Return the config of a typed table. Raises NotFoundError."""
        ...

    def names(self) -> list[str]:
        """Return the typed names of all tables, ascending."""
        ...


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """The controller's stores, peers and identity.

    work_dir: scratch space on the file system of the deep store, emptied when the controller starts.
    url: the URL of this controller for clients, without a trailing slash. streams: the context of stream plug-ins.
    fetchers: download files that pushes refer to by URI. tls: the context that verifies the certificates of other
    roles. counts: event counters for `/metrics`. auth_token: the `Authorization` header that servers and minions
    demand; empty for none.
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
