"""What lies where in a data folder."""

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
        """The server's unpacked copies; they can be made again from the deep store."""
        return self.root / "server"

    @property
    def consuming(self) -> Path:
        """The buffers of consuming segments and what is built of them; emptied at every start."""
        return self.root / "consuming"

    @property
    def realtime(self) -> Path:
        """What servers remember of the streams of a table: its dead letters, and how large its segments became."""
        return self.root / "realtime"

    @property
    def work(self) -> Path:
        """What is being uploaded or built; emptied at every start."""
        return self.root / "tmp"

    @property
    def spill(self) -> Path:
        """Groups of queries that do not fit their memory, in files without a name: it looks empty."""
        return self.root / "spill"

    @property
    def minion(self) -> Path:
        """What the minion works on; emptied at every start."""
        return self.root / "minion"
