"""What surrounds a consumer on its server."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gamay.base.clock import Clock
from gamay.base.ids import Ids
from gamay.ingest.stream.spi import StreamContext
from gamay.server.consuming.builds import BuildPermits
from gamay.server.consuming.completion_client import CompletionClient
from gamay.server.consuming.partition import Partition
from gamay.server.consuming.table_memory import TableMemory
from gamay.storage.deep_store import DeepStore


@dataclass(frozen=True, slots=True)
class Resources:
    """What the consumers of a server share.

    folder: for buffers and builds, emptied at every start. kept: what outlives a restart: a table's dead letters, and the
    sizes of its last segments. deep_store: None where this server does not reach it.
    """

    server: str
    folder: Path
    kept: Path
    streams: StreamContext
    completion: CompletionClient
    permits: BuildPermits
    clock: Clock
    ids: Ids
    deep_store: DeepStore | None = None


class Owner(Protocol):
    """Who started a consumer; its methods are called on the consumer's thread."""

    def serve(self, table: str, segment: str, folder: Path) -> None:
        """Let queries see the segment in `folder`, which is given away, instead of the consuming one."""
        ...

    def leave(self, table: str, segment: str) -> None:
        """The consumer's work is done: what is served now stays, or the committed copy is to be fetched."""
        ...

    def begin_anew(self, table: str, segment: str) -> None:
        """The consumer is of no use: look at it again, and let another one take its place."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Surroundings of a consumer: its server, who started it, and its table and partition as they are known here."""

    server: Resources
    owner: Owner
    table: TableMemory
    partition: Partition
