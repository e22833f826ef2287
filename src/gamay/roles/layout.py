"""The layout of a data folder."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths below one data folder, the same for `gamay.connect` and for an embedded cluster."""

    root: Path

    @property
    def metadata(self) -> Path:
        """The metadata store."""
        return self.root / "metadata.db"

    @property
    def deep_store(self) -> Path:
        """The durable copies of segments."""
        return self.root / "deepstore"

    @property
    def streams(self) -> Path:
        """The topics of the embedded stream."""
        return self.root / "streams"

    @property
    def server(self) -> Path:
        """The server's unpacked copies; they can be restored from the deep store."""
        return self.root / "server"

    @property
    def consuming(self) -> Path:
        """The buffers and builds of consuming segments; emptied at every start."""
        return self.root / "consuming"

    @property
    def realtime(self) -> Path:
        """The servers' data about a table's streams: dead letters, and sizes of committed segments."""
        return self.root / "realtime"

    @property
    def work(self) -> Path:
        """Uploads and builds in progress; emptied at every start."""
        return self.root / "tmp"

    @property
    def spill(self) -> Path:
        """Spilled groups of queries, in unlinked files, so that the folder looks empty."""
        return self.root / "spill"

    @property
    def minion(self) -> Path:
        """The minion's scratch space; emptied at every start."""
        return self.root / "minion"
