"""The successor of a consuming segment: its first rows are prefetched, its buffers made, and it is given way to."""

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
"""How long what nobody waits for gives way to the successor's first rows, which queries wait for."""
_SPARE_AT = 0.75
"""Which part of its rows a segment has when buffers are made for its successor."""


class Successor:
    """Successor of one segment, prepared on that segment's consumer's thread. rows: of the segment before it."""

    def __init__(self, context: SegmentContext, rows: MutableSegment) -> None:
        self._context, self._rows = context, rows
        self._has_keys = context.task.open_keys is not None
        self._is_spare_made = False

    def prefetch(self, reader: PartitionConsumer | None) -> None:
        """Let the stream be read on from where the segment ends now, most likely for good. reader: given away.

        Forced ends may be those of a table that is to rest: nobody is shown what is behind them.
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
        """Begin the segment behind this one's end; None where only the successor itself can take its rows.

        So it is where primary keys are looked up, which cannot be undone, and where rows take the time at which their
        segment was made.
        """
        if self._has_keys or self._rows.holds_creation_time:
            return None
        context, now_ms = self._context, self._context.clock.now_ms()
        name = str(context.name.next(now_ms))  # most likely
        try:
            begun = context.begin_rows(name, now_ms, context.partition.take_spare())
        except (GamayError, OSError) as error:
            _log.info("%s: the next segment takes its rows itself: %s", context.segment, error)
            return None
        self._is_spare_made = True
        return begun

    def drop_prefetch(self) -> None:
        """Throw away what was prefetched: the segment did not end where it seemed to."""
        self._context.partition.drop_prefetch(self._context.segment)

    def make_spare(self, num_rows: int | None = None) -> None:
        """Have buffers made, which takes as long as the file system wants, on a thread of its own.

        num_rows: of the segment before; not yet while these are few.
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
        """Let the successor show its first rows before the processor is used for what no query waits for."""
        if not self._has_keys:  # with primary keys it may itself wait for this segment
            self._context.partition.await_successor(self._context.segment, _GIVE_WAY_S)
