"""The address of a topic, as sent to executors."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.plugins import open_stream
from gamay.ingest.stream.spi import StreamConsumerFactory, StreamContext


@dataclass(frozen=True, slots=True)
class TopicAddress:
    """A topic, and how to access it; sent to executors.

    keys: an element of `streamConfigMaps`. folder: where the embedded log keeps its topics; None for other streams.
    """

    keys: Mapping[str, str]
    folder: str | None = None

    @property
    def config(self) -> StreamConfig:
        """Parse the keys. Raises InvalidConfigError."""
        return StreamConfig.parse(self.keys)

    def open(self) -> StreamConsumerFactory:
        """Return the plug-in. Raises InvalidConfigError."""
        context = StreamContext(None if self.folder is None else Path(self.folder), "gamay-spark")
        return open_stream(self.config, context)

    def partitions(self) -> tuple[int, ...]:
        """Return the ids of the partitions. Raises TransientStreamError, PermanentStreamError."""
        metadata = self.open().metadata()
        try:
            return metadata.partition_ids()
        finally:
            metadata.close()
