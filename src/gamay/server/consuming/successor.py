"""Preparation of the successor of a consuming segment: prefetching of its rows, its buffers, and priority for it."""

import logging
import threading

from gamay.base.errors import GamayError
from gamay.cluster.records.completion import StopReason
from gamay.ingest.stream.spi import PartitionConsumer
from gamay.segment.mutable.buffers import SpareBuffers
from gamay.segment.mutable.segment import MutableSegment
from gamay.server.consuming.context import SegmentContext
from gamay.server.consuming.prefetch import BegunSegment, Prefetch

_log = logging.getLogger(__name__)

_GIVE_WAY_S = 0.3
"""How long background work yields to the successor's first rows, which queries wait for."""
_SPARE_AT = 0.75
"""Fraction of the row limit at which buffers for the successor are created."""


class Successor:
    """Preparation of the successor of one segment, on that segment's consumer's thread. rows: of that segment."""

    def __init__(self, context: SegmentContext, rows: MutableSegment) -> None:
        self._context, self._rows = context, rows
        self._has_keys = context.task.open_keys is not None
        self._is_spare_made = False

    def prefetch(self, reader: PartitionConsumer | None) -> None:
        """Start prefetching from the segment's present, probably final end. reader: ownership is transferred.

        After a forced end, the table may be about to pause, so prefetched rows are not shown to queries.
        """
        context = self._context
        if reader is None:
            return
        if context.is_stream_level or context.partition.has_successor(context.segment):
            reader.close()
            return
        prefetch = Prefetch(
            context.segment, context.machine.offset, context.task.layout, context.task.stream, context.row_limit, reader,
            context.open_intake, self._begin(),
        )  # fmt: skip
        shows = context.machine.stop_reason is not StopReason.FORCE_COMMIT
        context.partition.keep_prefetch(prefetch, shows=shows)

    def _begin(self) -> BegunSegment | None:
        """Start the next segment; None if only the successor itself can index its rows.

        That is so for tables with primary keys, whose lookup cannot be undone, and if rows contain the creation time of
        their segment.
        """
        if self._has_keys or self._rows.holds_creation_time:
            return None
        context, now_ms = self._context, self._context.clock.now_ms()
        name = str(context.name.next(now_ms))  # the probable name
        try:
            begun = context.begin_rows(name, now_ms, context.partition.take_spare())
        except (GamayError, OSError) as error:
            _log.info("%s: the next segment takes its rows itself: %s", context.segment, error)
            return None
        self._is_spare_made = True
        return begun

    def drop_prefetch(self) -> None:
        """Discard prefetched rows, because the segment did not end at the expected offset."""
        self._context.partition.drop_prefetch(self._context.segment)

    def make_spare(self, num_rows: int | None = None) -> None:
        """Create buffers on a separate thread, as this may be slow on some file systems.

        num_rows: of the present segment; buffers are created once there are enough.
        """
        context = self._context
        if self._is_spare_made or (num_rows is not None and num_rows < context.row_limit * _SPARE_AT):
            return
        self._is_spare_made = True
        folder = context.new_folder("spare")

        def make() -> None:
            try:
                spare = SpareBuffers(folder, self._rows.shapes)
            except (GamayError, OSError) as error:
                _log.info("%s: the next segment makes its buffers itself: %s", context.segment, error)
            else:
                context.partition.keep_spare(spare)

        threading.Thread(target=make, name=f"spare-{context.segment}", daemon=True).start()

    def give_way(self) -> None:
        """Wait until the successor's first rows are visible, before background work uses the processor."""
        if not self._has_keys:  # with primary keys, the successor may itself wait for this segment
            self._context.partition.await_successor(self._context.segment, _GIVE_WAY_S)
