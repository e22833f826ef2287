"""Conversion of messages to rows: decoding and the ingestion pipeline, with every message accounted for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.base.clock import Clock
from gamay.base.errors import GamayError
from gamay.ingest.stream.decode.metadata import add_metadata
from gamay.ingest.stream.spi import MessageBatch, MessageDecoder, PermanentStreamError
from gamay.ingest.transform.pipeline import Pipeline
from gamay.server.consuming.dead_letters import DeadLetter, DeadLetterKind
from gamay.server.consuming.foreign import ForeignRows

_ROW_ERRORS = (GamayError, pa.ArrowException, ArithmeticError, ValueError, TypeError)


@dataclass(frozen=True, slots=True)
class Taken:
    """Result of a batch of messages.

    rows: None if there are none. messages: int64 [rows], the message of each row. num_filtered: rows that the
    filter dropped, including num_foreign, those of other partitions. num_sanitised: rows with truncated text.
    """

    rows: pa.RecordBatch | None
    messages: "np.ndarray[Any, np.dtype[np.int64]]"
    dead: Sequence[DeadLetter]
    num_filtered: int
    num_incomplete: int
    num_foreign: int = 0
    num_sanitised: int = 0


class Intake:
    """Converter of the messages of one partition to rows, for one segment; used only on the consumer's thread.

    pipeline: must drop failing rows. stop_on_decode_error: whether an undecodable message ends consumption.
    with_metadata: whether rows include the stream's metadata of their messages. foreign: filter for rows to drop.
    """

    def __init__(
        self,
        segment: str,
        partition: int,
        decoder: MessageDecoder,
        pipeline: Pipeline,
        clock: Clock,
        *,
        stop_on_decode_error: bool = False,
        with_metadata: bool = False,
        foreign: ForeignRows | None = None,
    ) -> None:
        self._segment = segment
        self._partition = partition
        self._decoder = decoder
        self._pipeline = pipeline
        self._clock = clock
        self._stop = stop_on_decode_error
        self._with_metadata = with_metadata
        self._foreign = foreign

    def take(self, messages: MessageBatch) -> Taken:
        """Return the rows of a batch. Raises PermanentStreamError for an invalid message if that ends consumption."""
        dead: list[DeadLetter] = []
        if messages.gap is not None:
            gap = messages.gap
            dead.append(self._letter(DeadLetterKind.GAP, str(gap.first), str(gap), next_offset=str(gap.next)))
        if not len(messages):
            return Taken(None, np.empty(0, np.int64), dead, 0, 0)
        stats = self._pipeline.stats
        filtered, incomplete, sanitised = stats.rows_filtered, stats.rows_incomplete, stats.rows_sanitised
        decoded = self._decoder.decode(messages)
        if self._with_metadata and decoded.rows.num_rows:
            decoded = add_metadata(messages, decoded, self._partition)
        for bad in decoded.undecodable:
            dead.append(self._bad_message(messages, bad.message, DeadLetterKind.UNDECODABLE, bad.reason))
        failed: dict[int, str] = {}
        parts = self._conformed(decoded.rows, 0, failed) if decoded.rows.num_rows else []
        rows = pa.concat_batches([part for part, _ in parts]) if len(parts) > 1 else parts[0][0] if parts else None
        sources = [np.asarray(decoded.message_of_row)[origins] for _, origins in parts]
        messages_of = np.concatenate(sources) if sources else np.empty(0, np.int64)
        rows_of = _rows_of(messages_of, len(messages)) if failed else []
        for row, reason in sorted(failed.items()):
            message = int(decoded.message_of_row[row])
            dead.append(self._bad_message(messages, message, DeadLetterKind.UNCONVERTIBLE, reason, rows_of[message]))
        if self._stop and any(letter.kind is not DeadLetterKind.GAP for letter in dead):
            first = next(letter for letter in dead if letter.kind is not DeadLetterKind.GAP)
            raise PermanentStreamError(f"the message at offset {first.offset} cannot become a row: {first.reason}")
        left_out, num_foreign = stats.rows_filtered - filtered, 0
        if self._foreign is not None and rows is not None:
            own = self._foreign.own(rows)
            if not own.all():
                num_foreign = len(own) - int(own.sum())
                rows, messages_of = rows.filter(pa.array(own)) if own.any() else None, messages_of[own]
        return Taken(
            rows, messages_of, dead, left_out + num_foreign, stats.rows_incomplete - incomplete, num_foreign,
            stats.rows_sanitised - sanitised,
        )  # fmt: skip

    def rejected(self, messages: MessageBatch, taken: Taken, reasons: Mapping[int, str]) -> list[DeadLetter]:
        """Return a dead letter for each row of a batch that the table rejects. reasons: by row."""
        rows_of = _rows_of(np.delete(taken.messages, list(reasons)), len(messages))
        found = []
        for row, reason in sorted(reasons.items()):
            message = int(taken.messages[row])
            found.append(self._bad_message(messages, message, DeadLetterKind.REJECTED, reason, rows_of[message]))
        return found

    def _conformed(
        self, rows: pa.RecordBatch, first: int, failed: dict[int, str]
    ) -> "list[tuple[pa.RecordBatch, np.ndarray[Any, np.dtype[np.int64]]]]":
        """Run the pipeline; if a batch fails as a whole, bisect it until the failing row is found.

        Return the parts, with the original row number of each of their rows.
        """
        try:
            batch = self._pipeline.apply(rows)
        except _ROW_ERRORS as error:
            if rows.num_rows == 1:
                failed[first] = str(error)
                return []
            middle = rows.num_rows // 2
            before = self._conformed(rows.slice(0, middle), first, failed)
            return before + self._conformed(rows.slice(middle), first + middle, failed)
        failed.update({first + row: reason for row, reason in self._pipeline.dropped.items()})
        return [(batch, self._pipeline.origins + first)] if batch.num_rows else []

    def _bad_message(
        self, messages: MessageBatch, message: int, kind: DeadLetterKind, reason: str, rows_taken: int = 0
    ) -> DeadLetter:
        key = None if messages.keys is None else messages.keys[message].as_py()
        headers = None if messages.headers is None else messages.headers[message].as_py()
        letter = self._letter(kind, str(messages.offset(message)), reason)
        payload = messages.payloads[message].as_py()
        return replace(letter, payload=payload, key=key, headers=headers, rows_taken=rows_taken)

    def _letter(self, kind: DeadLetterKind, offset: str, reason: str, next_offset: str | None = None) -> DeadLetter:
        now_ms = self._clock.now_ms()
        return DeadLetter(self._segment, self._partition, offset, kind, reason, now_ms, next_offset=next_offset)


def _rows_of(messages_of: "np.ndarray[Any, np.dtype[np.int64]]", messages: int) -> list[int]:
    """Return the number of rows per message. messages_of: int64 [rows], the message of each row."""
    counts: list[int] = np.bincount(messages_of, minlength=messages).tolist()
    return counts
