"""What a table could not take from its stream: messages that are no rows, and offsets that the stream had lost.

One file of JSON lines a table and server, appended and synced before the offset behind the message is passed, so that every
message below a committed offset is either a row or listed here. A message that is consumed again, after a restart, is
listed once.
"""

import base64
import logging
import os
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import orjson

_log = logging.getLogger(__name__)

PAYLOADS_MAX_BYTES = 256 << 20
"""Once a file is as large, the payloads of further messages are left out of it; their offsets and reasons are not."""

LOGGED_EVERY = 1000
"""Of the entries of a table, the first and then one in so many are written to the process's log."""


class DeadLetterKind(Enum):
    """What happened."""

    UNDECODABLE = "UNDECODABLE"  # the decoder could not read the message
    UNCONVERTIBLE = "UNCONVERTIBLE"  # a value could not be computed, or does not fit its column
    REJECTED = "REJECTED"  # a table with primary keys cannot compare or merge the row
    GAP = "GAP"  # the stream no longer had the messages from `offset` to before `next_offset`


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One entry. timestamp_ms: when it was found; payload: the message as the stream gave it, None when it is not known."""

    segment: str
    partition: int
    offset: str
    kind: DeadLetterKind
    reason: str
    timestamp_ms: int
    payload: bytes | None = None
    next_offset: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of the file and of REST; the payload is base64."""
        return {
            "segment": self.segment,
            "partition": self.partition,
            "offset": self.offset,
            "nextOffset": self.next_offset,
            "kind": self.kind.value,
            "reason": self.reason,
            "timestampMs": self.timestamp_ms,
            "payload": None if self.payload is None else base64.b64encode(self.payload).decode(),
        }


class DeadLetters:
    """The entries of one typed table on this server; all methods may be called from any thread."""

    def __init__(self, table: str, path: Path) -> None:
        self._table = table
        self._path = path
        self._lock = threading.Lock()
        self._known: set[tuple[int, str]] = set()
        self._counts: Counter[str] = Counter()
        self._size = 0
        if path.exists():
            self._size = _cut_to_whole_lines(path)
        for entry in self._lines():
            self._count(entry)

    def add(self, letters: Sequence[DeadLetter]) -> int:
        """Append entries, durably; return how many were not there before. Raises OSError."""
        with self._lock:
            fresh = [letter for letter in letters if (letter.partition, letter.offset) not in self._known]
            if not fresh:
                return 0
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                for letter in fresh:
                    file.write(self._line(letter))
                file.flush()
                os.fsync(file.fileno())
                self._size = file.tell()
            for letter in fresh:
                before = sum(self._counts.values())
                self._count(letter.to_json())
                if before % LOGGED_EVERY == 0:
                    _log.warning(
                        "%s, partition %d, offset %s (entry %d of its dead letters): %s",
                        self._table, letter.partition, letter.offset, before + 1, letter.reason,
                    )  # fmt: skip
            return len(fresh)

    def counts(self) -> dict[str, int]:
        """Return how many entries there are of each kind."""
        return {kind.value: self._counts[kind.value] for kind in DeadLetterKind}

    def entries(self, limit: int, *, partition: int | None = None, offset: str | None = None) -> list[dict[str, Any]]:
        """Return the last `limit` entries as JSON objects, the oldest first; of one partition, or of one offset."""
        found = [
            entry
            for entry in self._lines()
            if (partition is None or entry["partition"] == partition) and (offset is None or entry["offset"] == offset)
        ]
        return found[-limit:] if limit > 0 else []

    def remove(self) -> None:
        """Forget all entries: the table is gone."""
        with self._lock:
            self._path.unlink(missing_ok=True)
            self._known.clear()
            self._counts.clear()
            self._size = 0

    def _count(self, entry: dict[str, Any]) -> None:
        self._known.add((entry["partition"], entry["offset"]))
        self._counts[entry["kind"]] += 1

    def _line(self, letter: DeadLetter) -> bytes:
        entry = letter.to_json()
        if self._size > PAYLOADS_MAX_BYTES:
            entry["payload"] = None
        return orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE)

    def _lines(self) -> Iterable[dict[str, Any]]:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            for line in file:
                yield orjson.loads(line)


def _cut_to_whole_lines(path: Path) -> int:
    """Remove the end of a file that a crash cut short, whose messages are consumed again; return the file's size."""
    with path.open("rb+") as file:
        content = file.read()
        size = content.rfind(b"\n") + 1
        if size < len(content):
            file.truncate(size)
        return size
