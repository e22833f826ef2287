"""What a consumer needs of the server that it is on: what all consumers share, and who started it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gamay.base.clock import Clock
from gamay.base.ids import Ids
from gamay.ingest.stream.spi import StreamContext
from gamay.segment.mutable.buffers import SpareBuffers
from gamay.server.consuming.ahead import ReadAhead
from gamay.server.consuming.builds import BuildPermits
from gamay.server.consuming.completion_client import CompletionClient
from gamay.server.consuming.status import BuiltSegment, StreamError
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

    def await_successor(self, table: str, segment: str, timeout_s: float) -> None:
        """Wait until the next segment of the partition has begun to show rows, if one begins here in time."""
        ...

    def has_successor(self, table: str, segment: str) -> bool:
        """Return whether a later segment of the partition is consumed here."""
        ...

    def keep_ahead(self, table: str, ahead: ReadAhead, *, shows: bool) -> None:
        """Keep what is read behind the segment's end for its successor; it is given away. shows: let queries see it."""
        ...

    def drop_ahead(self, table: str, segment: str) -> None:
        """Throw away what was read behind a segment's end, if that is kept: it turned out not to be the end."""
        ...

    def take_spare(self, table: str, partition: int) -> SpareBuffers | None:
        """Return the buffers that were kept for the next segment of a partition; they are given away."""
        ...

    def keep_spare(self, table: str, partition: int, spare: SpareBuffers) -> None:
        """Keep buffers for the successor of the segment; they are given away."""
        ...

    def note_error(self, table: str, error: StreamError) -> None:
        """Remember an error."""
        ...

    def note_build(self, table: str, built: BuiltSegment) -> None:
        """Remember a build."""
        ...


class NoteError(Protocol):
    """Tells of an error; permanent: it is not tried again."""

    def __call__(self, reason: str, *, permanent: bool) -> None: ...
