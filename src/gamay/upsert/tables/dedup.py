"""Tables with `dedupConfig`: the first row of each primary key is kept, later ones are dropped before they are indexed.

With metadataTTL, a key expires when its row is further below the greatest time than that; every lookup checks this.
"""

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.base.errors import ConflictError
from gamay.kernels.keys.table import ABSENT
from gamay.segment.spi import Segment
from gamay.upsert.config.parallel import Phase, must_wait
from gamay.upsert.config.settings import DedupSettings
from gamay.upsert.index.comparing import beyond, ordered
from gamay.upsert.index.key_index import BATCH_ROWS, KeyIndex, Keys, Put, Rules
from gamay.upsert.index.ordinals import Ordinals
from gamay.upsert.rows.ranking import partition_of
from gamay.upsert.spi import KeyedInstall, PreparedRows, SegmentSource

_NEVER = 3  # for `wins_tie`: an existing key is never replaced
_COUNTED = 0  # the greater time of a key is kept


@dataclass(slots=True)
class _Effect:
    keys: Keys
    put: Put


class PartitionDedup:
    """The primary keys of one partition. Thread-safe."""

    def __init__(self, settings: DedupSettings) -> None:
        self._settings = settings
        self._lock = threading.RLock()
        self._index = KeyIndex(settings.encoder.words)
        self._ordinals = Ordinals()
        self._ordinal_of: dict[str, int] = {}
        self._consuming: set[str] = set()
        self.num_dropped = self.num_expired = 0

    @property
    def num_keys(self) -> int:
        """The number of primary keys."""
        return len(self._index)

    @property
    def num_bytes(self) -> int:
        """Bytes of the index."""
        return self._index.num_bytes

    def unsealed(self, but: str) -> set[str]:
        """Return the segments, except `but`, that consume, or have consumed and are not yet replaced by sealed copies."""
        with self._lock:
            return self._consuming - {but}

    def add(self, segment: Segment) -> None:
        """Add the keys of a segment, replacing those of the segment of the same name."""
        with self._lock:
            self.remove(segment.name)
            ordinal = self._ordinal_of[segment.name] = self._ordinals.take()
            time, ttl = self._settings.time, self._settings.ttl
            if time is not None and segment.num_docs and self._index.watermark != ABSENT:
                latest = segment.column(time.fields[0].name).stats.maximum
                if latest is not None and beyond(ordered(np.array([latest])), self._index.watermark, ttl, time.is_float)[0]:
                    return
            for start in range(0, segment.num_docs, BATCH_ROWS):
                stop = min(start + BATCH_ROWS, segment.num_docs)
                keys = self._settings.encoder.of_segment(segment, start, stop)
                times = np.zeros((stop - start, 1), np.int64) if time is None else time.of_segment(segment, start, stop)
                self._put(keys, np.ascontiguousarray(times), ordinal, start, _COUNTED)

    def remove(self, name: str) -> None:
        """Remove the keys of a segment."""
        with self._lock:
            ordinal = self._ordinal_of.pop(name, None)
            self._consuming.discard(name)
            if ordinal is not None:
                self._index.remove_segment(ordinal)
                self._ordinals.give_back(ordinal)

    def remove_expired(self) -> None:
        """Remove the keys beyond metadataTTL."""
        time = self._settings.time
        if time is not None:
            with self._lock:
                removed = self._index.remove_expired(Rules(-1, ttl=self._settings.ttl, is_float=time.is_float))
                self.num_expired += len(removed)

    def consume(self, name: str) -> "ConsumingDedup":
        """Start a consuming segment, from its first row."""
        with self._lock:
            self.remove(name)
            self._consuming.add(name)
            self._ordinal_of[name] = self._ordinals.take()
            return ConsumingDedup(self, name, self._ordinal_of[name])

    def prepare(self, name: str, ordinal: int, batch: pa.RecordBatch, first_doc: int) -> PreparedRows:
        """Look up the keys of a batch; see `spi.ConsumingKeys.prepare`."""
        with self._lock:
            if self._ordinal_of.get(name) != ordinal:
                raise ConflictError(f"segment '{name}' is no longer consumed here")
            time = self._settings.time
            times = np.zeros((batch.num_rows, 1), np.int64) if time is None else time.of_batch(batch).values
            keys = self._settings.encoder.of_batch(batch)
            put = self._put(keys, times, ordinal, first_doc, _NEVER)
        kept = put.docs >= 0
        dropped = batch.num_rows - int(np.count_nonzero(kept))
        self.num_dropped += dropped
        rows = batch.filter(pa.array(kept)) if dropped else batch
        return PreparedRows(rows, first_doc, np.flatnonzero(kept), dropped, 0, {}, _Effect(keys, put))

    def undo(self, effect: _Effect) -> None:
        """Roll back a batch that could not be appended."""
        with self._lock:
            self._index.undo(effect.keys, effect.put)

    def _put(self, keys: Keys, times: Array, ordinal: int, first_doc: int, wins: int) -> Put:
        time, rows = self._settings.time, len(keys)
        rules = Rules(
            ordinal, first_doc, drop_late=True, check_expiry=time is not None and wins == _NEVER,
            is_float=time is not None and time.is_float, ttl=self._settings.ttl if time is not None else 0,
        )  # fmt: skip
        table = np.full(self._ordinals.count, wins, np.uint8)
        return self._index.put(
            keys, times, np.full(rows, -1, np.int8), np.zeros(rows, np.uint8), table, rules, undoable=wins == _NEVER
        )


class ConsumingDedup:
    """The keys of a consuming segment; implements `spi.ConsumingKeys`. Made by `PartitionDedup.consume`."""

    def __init__(self, partition: PartitionDedup, name: str, ordinal: int) -> None:
        self._partition = partition
        self._name = name
        self._ordinal = ordinal
        self._num_docs = 0

    def prepare(self, batch: pa.RecordBatch) -> PreparedRows:
        """Look up the keys of a batch and drop the rows whose key exists."""
        return self._partition.prepare(self._name, self._ordinal, batch, self._num_docs)

    def counting(self) -> None:
        """Return None: all rows are valid."""

    def publish(self, rows: PreparedRows) -> None:
        """Count the appended rows; they were never invisible."""
        self._num_docs = rows.first_doc + rows.batch.num_rows

    def undo(self, rows: PreparedRows) -> None:
        """Roll back prepared rows that could not be appended."""
        self._partition.undo(rows.effect)


class TableDedup:
    """A table with `dedupConfig`; implements `spi.KeyedTable`. `metadataManagerClass` may name a subclass."""

    def __init__(self, settings: DedupSettings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._partitions: dict[int, PartitionDedup] = {}

    def partitions(self) -> dict[int, PartitionDedup]:
        """Return the partitions that have a segment here, by id."""
        return dict(self._partitions)

    def has_snapshot(self, source: SegmentSource) -> bool:
        """Return False: keys are always read from the segments."""
        return False

    def partition_id(self, segment: Segment) -> int:
        """Return the partition in a segment's name, 0 unless it is a consumed or uploaded segment."""
        return partition_of(segment.name) or 0

    def load(self, source: SegmentSource, install: KeyedInstall) -> None:
        """Add the keys of a segment, unless tiers are ignored and it is on one, and publish it to queries."""
        partition = self._partition(self.partition_id(source.segment))
        if source.tier and self.settings.ignores_tiers:
            partition.remove(source.segment.name)
        else:
            partition.add(source.segment)
        install(None)

    def expect(self, sources: Sequence[SegmentSource]) -> None:
        """Do nothing: keys cannot be preloaded."""

    def remove(self, name: str, install: Callable[[], None]) -> None:
        """Remove the keys of a segment; install: hides it from queries."""
        install()
        self._partition(partition_of(name) or 0).remove(name)

    def settle(self, partition_id: int) -> None:
        """Remove expired keys."""
        self._partition(partition_id).remove_expired()

    def must_wait(
        self, partition_id: int, name: str, phase_of: Callable[[str], Phase], absent: Collection[str] = ()
    ) -> bool:
        """Whether an earlier segment is absent, or not sealed yet, so that it may turn out to have fewer rows."""
        unsealed = self._partition(partition_id).unsealed(name)
        return not unsealed >= set(absent) or must_wait(self.settings.parallel_policy, map(phase_of, unsealed))

    def consume(
        self, partition_id: int, name: str, created_ms: int, read: Callable[[], Segment], install: KeyedInstall
    ) -> ConsumingDedup:
        """Start a consuming segment."""
        self.settle(partition_id)
        return self._partition(partition_id).consume(name)

    def _partition(self, partition_id: int) -> PartitionDedup:
        with self._lock:
            return self._partitions.setdefault(partition_id, PartitionDedup(self.settings))
