"""Stream-level consumption: a consumer-group member reads all partitions of a topic as one.

To its callers this is a stream with a single partition, whose offsets combine the offsets of all partitions
(`0:120;1:87`). The order of messages is not reproducible by another consumer, so two replicas have the same rows only at
the start of a segment; but the end of a segment is exact, and its record stores it. The stream's own checkpoint is written
when a segment starts, that is, when the previous one is committed, and never determines where to read.
"""

import bisect
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import total_ordering
from typing import Any, ClassVar

from gamay.base.errors import InvalidConfigError
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.offsets import IntegerOffset, Offset, OffsetCriteria
from gamay.ingest.stream.spi import (
    MessageBatch,
    StreamConsumerFactory,
    StreamLevelConsumer,
    StreamMetadataProvider,
)

ONLY_PARTITION = 0


@total_ordering
@dataclass(frozen=True, slots=True, eq=True)
class TopicOffset:
    """A position in every partition of a topic: (partition, offset), ascending; unlisted partitions are at their start.

    Positions are ordered by the total of their offsets, so a consumer's later position is always the greater one.
    """

    places: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, places: Mapping[int, Offset]) -> "TopicOffset":
        """Return the position. Raises InvalidConfigError for a stream whose offsets are not integers."""
        found = {partition: offset.value for partition, offset in places.items() if isinstance(offset, IntegerOffset)}
        if len(found) < len(places):
            raise InvalidConfigError("stream-level consumption needs a stream whose offsets are numbers")
        return cls(tuple(sorted(found.items())))

    @classmethod
    def parse(cls, text: str) -> "TopicOffset":
        """Parse the text that `str()` returns. Raises InvalidConfigError."""
        try:
            parts = [part.split(":") for part in text.split(";") if part]
            return cls(tuple(sorted((int(partition), int(offset)) for partition, offset in parts)))
        except ValueError:
            raise InvalidConfigError(
                f"'{text}' is no place in a topic; it is written as partition:offset;partition:offset"
            ) from None

    def __str__(self) -> str:
        return ";".join(f"{partition}:{offset}" for partition, offset in self.places)

    def __lt__(self, other: Any) -> bool:
        if not isinstance(other, TopicOffset):
            return NotImplemented
        return (self.total, self.places) < (other.total, other.places)

    @property
    def total(self) -> int:
        """The sum of the offsets of all partitions."""
        return sum(offset for _, offset in self.places)

    def of_partitions(self) -> dict[int, Offset]:
        """Return the offset in each partition."""
        return {partition: IntegerOffset(offset) for partition, offset in self.places}

    def moved(self, partition: int, offset: int) -> "TopicOffset":
        """Return the position with the offset of one partition replaced."""
        found = list(self.places)
        at = bisect.bisect_left(found, (partition, -1))
        found[at : at + (at < len(found) and found[at][0] == partition)] = [(partition, offset)]
        return TopicOffset(tuple(found))


class TopicStream:
    """A topic whose partitions are read as one; a `StreamConsumerFactory` that wraps another.

    group: must be unique to this consumer, since another member would take some of its partitions.
    """

    properties: ClassVar[frozenset[str]] = frozenset()
    takes_client_properties: ClassVar[bool] = False

    @classmethod
    def addresses(cls, config: StreamConfig) -> Iterator[tuple[str, str]]:
        """Yield nothing: the wrapped stream reports its own addresses."""
        yield from ()

    def __init__(self, stream: StreamConsumerFactory, group: str) -> None:
        self._stream, self._group = stream, group

    def parse_offset(self, text: str) -> Offset:
        """Parse a position stored in a record."""
        return TopicOffset.parse(text)

    def partition_consumer(self, partition: int) -> "TopicReader":
        """Return a consumer of the topic."""
        return TopicReader(self._stream, self._group)

    def stream_consumer(self, group: str, begin: Mapping[int, Offset] | None = None) -> StreamLevelConsumer:
        """Return a member of another group."""
        return self._stream.stream_consumer(group, begin)

    def metadata(self) -> "TopicMetadata":
        """Return a metadata provider."""
        return TopicMetadata(self._stream.metadata())


class TopicReader:
    """A `PartitionConsumer` of all partitions. Each batch has messages of one partition; those of others are buffered."""

    def __init__(self, stream: StreamConsumerFactory, group: str) -> None:
        self._stream, self._group = stream, group
        self._member: StreamLevelConsumer | None = None
        self._at = TopicOffset(())
        self._ends: dict[int, Offset] = {}
        self._waiting: deque[tuple[int, MessageBatch]] = deque()
        self._begin = self._at
        self._is_saved = False

    def fetch(self, start: Offset, max_messages: int, max_bytes: int, timeout_ms: int) -> MessageBatch:
        """Return the next messages of one partition. Rejoins the group if `start` is not where the last batch ended."""
        assert isinstance(start, TopicOffset)
        if self._member is None or start != self._at:
            self.close()
            self._member = self._stream.stream_consumer(self._group, start.of_partitions())
            self._at = self._begin = start
            self._is_saved = False
        if not self._waiting:
            found = self._member.fetch(max_messages, timeout_ms)
            self._waiting.extend(sorted(found.items()))
            self._save()
        if not self._waiting:
            return MessageBatch.empty(start, end_offset=self._end(), parse_offset=TopicOffset.parse)
        partition, batch = self._waiting.popleft()
        taken = batch.head(max_messages)
        if len(taken) < len(batch):
            self._waiting.appendleft((partition, batch.part(len(taken), len(batch))))
        if batch.end_offset is not None:
            self._ends[partition] = batch.end_offset
        here = self._at
        assert isinstance(taken.next_offset, IntegerOffset)
        self._at = here.moved(partition, taken.next_offset.value)
        return replace(
            taken, next_offset=self._at, end_offset=self._end(), is_end_of_partition=False,
            parse_offset=lambda text: here.moved(partition, int(text)),
        )  # fmt: skip

    def close(self) -> None:
        """Leave the group."""
        member, self._member = self._member, None
        self._waiting.clear()
        if member is not None:
            member.close()

    def _save(self) -> None:
        """Checkpoint the start of the segment, once partitions are assigned to this member."""
        assert self._member is not None
        if self._is_saved or not self._member.position():
            return
        mine = self._begin.of_partitions()
        self._member.commit({p: mine[p] for p in self._member.position() if p in mine})
        self._is_saved = True

    def _end(self) -> TopicOffset:
        ends = self._at.of_partitions() | self._ends
        return TopicOffset.of(ends)


class TopicMetadata:
    """A `StreamMetadataProvider` with one partition."""

    def __init__(self, metadata: StreamMetadataProvider) -> None:
        self._metadata = metadata

    def partition_ids(self) -> tuple[int, ...]:
        """Return the id of the single partition."""
        return (ONLY_PARTITION,)

    def offset(self, partition: int, criteria: OffsetCriteria) -> Offset:
        """Return the position that a criterion selects in each partition."""
        return TopicOffset.of({p: self._metadata.offset(p, criteria) for p in self._metadata.partition_ids()})

    def latest_offset(self, partition: int) -> Offset:
        """Return the position after the last message of each partition."""
        return TopicOffset.of({p: self._metadata.latest_offset(p) for p in self._metadata.partition_ids()})

    def close(self) -> None:
        """Close the provider."""
        self._metadata.close()
