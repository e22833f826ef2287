"""Indexing of rows in a consuming segment, after the lookup of primary keys; rejected rows become dead letters."""

from collections.abc import Set
from contextlib import suppress
from dataclasses import replace

from gamay.base.errors import GamayError, InvalidConfigError
from gamay.ingest.stream.offsets import Offset
from gamay.ingest.stream.spi import MessageBatch
from gamay.segment.mutable.segment import MutableSegment
from gamay.server.consuming.context import SegmentContext
from gamay.server.consuming.intake import Intake, Taken
from gamay.upsert.spi import ConsumingKeys


class Indexing:
    """Indexing of one segment, on its consumer's thread.

    keys: of the segment's rows, None while there are none. filtered, incomplete: numbers of dropped rows, and of rows with
    missing values; dropped: number of messages and rows that became dead letters.
    """

    def __init__(self, context: SegmentContext, rows: MutableSegment, intake: Intake) -> None:
        self._rows, self._intake = rows, intake
        self._letters, self._counts = context.memory.letters, context.counts
        self._note_error = context.note_error
        self._partition = context.name.partition
        self._doubtful = _dead_before(context)
        self.keys: ConsumingKeys | None = None
        self.filtered = self.incomplete = self.dropped = 0

    def append(self, batch: MessageBatch, taken: Taken) -> bool:
        """Index rows; return whether the segment is full, in which case their messages are left to the next one."""
        dead = list(taken.dead)
        if taken.dead:
            self._counts.count_dead(taken.dead)
            self.dropped += self._letters.add([replace(letter, segment=self._rows.name) for letter in taken.dead])
        if taken.rows is not None:
            keys = self.keys
            prepared = None if keys is None else keys.prepare(taken.rows)
            if prepared is not None and prepared.rejected:
                rejected = self._intake.rejected(batch, taken, prepared.rejected)
                self._counts.count_dead(rejected)
                self.dropped += self._letters.add(rejected)
                dead += rejected
            try:
                self._rows.append(taken.rows if prepared is None else prepared.batch)
            except GamayError as error:
                self._counts.indexing_failures += 1
                if keys is not None and prepared is not None:
                    keys.undo(prepared)
                if not self._rows.num_docs:
                    raise
                self._note_error(f"the segment cannot index more rows: {error}", permanent=False)
                return True
            if keys is not None and prepared is not None:
                keys.publish(prepared)
        if self._doubtful:
            self._note_taken(batch, {letter.offset for letter in dead})
        self.filtered += taken.num_filtered
        self.incomplete += taken.num_incomplete
        self._counts.filtered += taken.num_filtered - taken.num_foreign
        self._counts.foreign += taken.num_foreign
        self._counts.incomplete += taken.num_incomplete
        self._counts.sanitised += taken.num_sanitised
        return False

    def _note_taken(self, batch: MessageBatch, dead: Set[str]) -> None:
        """Record which former dead letters have now become rows, so that they are not replayed as well."""
        reached = {text for text, offset in self._doubtful.items() if offset < batch.next_offset}
        if reached:
            taken = reached.intersection(map(str, batch.offsets.to_pylist())) - dead
            self._letters.note_replayed({(self._partition, text): text for text in taken})
            self._doubtful = {text: offset for text, offset in self._doubtful.items() if text not in reached}


def _dead_before(context: SegmentContext) -> dict[str, Offset]:
    """Return the former dead letters of a segment that is consumed again, perhaps with another config."""
    found: dict[str, Offset] = {}
    if context.is_stream_level:  # they cannot be replayed
        return found
    for text in context.memory.letters.waiting(context.name.partition):
        with suppress(InvalidConfigError):  # an offset of another stream, which the table consumed before
            offset = context.factory.parse_offset(text)
            if context.begin <= offset:
                found[text] = offset
    return found
