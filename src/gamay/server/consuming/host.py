"""The environment of a consumer on its server."""

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
    """Resources shared by the consumers of a server.

    folder: for buffers and builds, emptied at every start. kept: folder of persistent files: dead letters of tables, and the
    sizes of their last segments. deep_store: None if this server cannot access it.
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
    """The owner of a consumer; its methods are called on the consumer's thread."""

    def serve(self, table: str, segment: str, folder: Path) -> None:
        """Replace the consuming segment by that in `folder`, whose ownership is transferred."""
        ...

    def leave(self, table: str, segment: str) -> None:
        """Handle the end of a consumer: keep the served segment, or fetch the committed copy."""
        ...

    def begin_anew(self, table: str, segment: str) -> None:
        """Replace a consumer that has rows beyond its segment's end."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Environment of a consumer: its server, its owner, and the server's state of its table and partition."""

    server: Resources
    owner: Owner
    table: TableMemory
    partition: Partition
