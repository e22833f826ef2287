"""Upload of the states of a table's partitions to the deep store, and their use by servers without local snapshots."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

from gamay.base.errors import GamayError
from gamay.segment.read.visible import VisibleDocs
from gamay.upsert.config.settings import UpsertSettings
from gamay.upsert.partitions.partition import PartitionUpsert
from gamay.upsert.persist.host import Host
from gamay.upsert.persist.shared_snapshots import PartitionState
from gamay.upsert.persist.snapshots import SnapshotRows
from gamay.upsert.rows.ranking import sequence_of
from gamay.upsert.spi import SegmentSource

_log = logging.getLogger(__name__)

_Copies: TypeAlias = list[tuple[str, int, int]]


class SharedStates:
    """Exchange of the states of a table's partitions with the deep store.

    crcs: of the loaded copies, by segment name; maintained by `gamay.upsert.persist.stored`.
    """

    def __init__(self, settings: UpsertSettings, host: Host, crcs: Mapping[str, int]) -> None:
        self._settings = settings
        self._host = host
        self._crcs = crcs
        self._received: dict[tuple[str, int], SnapshotRows] = {}
        self._uploaded: dict[int, _Copies] = {}

    def received(self, name: str, crc: int) -> SnapshotRows | None:
        """Return the received valid docs of a segment that is not loaded yet; else None."""
        return self._received.get((name, crc))

    def forget(self, name: str, crc: int) -> None:
        """Discard the received state of a segment after loading it."""
        self._received.pop((name, crc), None)

    def receive(self, partition: PartitionUpsert, sources: Sequence[SegmentSource]) -> None:
        """Read the valid docs of segments that were never on this server from the deep store.

        Only a state at the first row of a segment that is not sealed yet, or earlier, is used, so that later rows still
        find the rows that they replace.
        """
        shared, settings = self._host.shared, self._settings
        state = None if shared is None or not settings.snapshot else shared.get(partition.partition)
        if state is None:
            return
        if state.sequence is not None:
            unsealed = [sequence_of(name) for name in partition.unsealed("")]
            unsealed.append(self._host.first_unsealed(partition.partition))
            if any(sequence is not None and sequence < state.sequence for sequence in unsealed):
                return
        has_deletes = settings.delete_column is not None
        for source in sources:
            rows = state.rows.get((source.segment.name, source.crc))
            if rows is None or (rows[0] and rows[0].max() >= source.segment.num_docs):
                continue
            valid, queryable = rows
            if not has_deletes or queryable is not None:
                self._received[source.segment.name, source.crc] = (valid, queryable if has_deletes else None)
                if state.watermark is not None and settings.forgets:
                    partition.raise_watermark(settings.comparison.as_ordered(state.watermark))

    def share(self, partition: PartitionUpsert, sequence: int | None) -> None:
        """Upload the state of a partition in the background, unless it is stored already.

        sequence: the number of the segment that starts, None for none.
        """
        number, settings = partition.partition, self._settings
        found = [
            (tracked.name, self._crcs[tracked.name], tracked.docs)
            for tracked in partition.segments().values()
            if tracked.name in self._crcs and not tracked.is_consuming
        ]
        copies = [(name, crc, docs.version) for name, crc, docs in found]
        if self._host.shared is None or not found or copies == self._uploaded.get(number):
            return
        has_deletes = settings.delete_column is not None
        rows = {
            (name, crc): (docs.snapshot(with_deleted=True), docs.snapshot() if has_deletes else None)
            for name, crc, docs in found
        }
        watermark = None if partition.watermark is None else settings.comparison.as_number(partition.watermark)
        self._uploaded[number] = copies
        self._host.later(partial(self._upload, number, copies, sequence, watermark, rows))

    def _upload(
        self, partition: int, copies: _Copies, sequence: int | None, watermark: float | None,
        rows: "Mapping[tuple[str, int], tuple[VisibleDocs, VisibleDocs | None]]",
    ) -> None:  # fmt: skip
        """Store a state in the deep store unless a later one is pending."""
        shared = self._host.shared
        if shared is None or self._uploaded.get(partition) is not copies:
            return
        bitmaps = {
            key: (valid.bitmap(), None if queryable is None else queryable.bitmap())
            for key, (valid, queryable) in rows.items()
        }
        try:
            shared.put(partition, PartitionState(sequence, watermark, bitmaps))
        except (GamayError, OSError) as error:
            _log.warning("partition %d: the snapshots are not in the deep store: %s", partition, error)
            self._uploaded.pop(partition, None)
