"""Dead letters of a table: stream messages that could not become rows, and offsets that the stream had lost.

One file of JSON lines per table and server, appended and synced before the consumer passes the message's offset, so that
every message below a committed offset is either a row or listed here. A message that is consumed again, after a restart, is
listed once. A line of kind REPLAYED records that a message was written to its partition again, and at which offset; if that
is the original offset, the message became a row when it was consumed again.
"""

import base64
import logging
import os
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from gamay.cluster.records.llc_name import STREAM_LEVEL, Place

_log = logging.getLogger(__name__)

PAYLOADS_MAX_BYTES = 256 << 20
"""Size of a file beyond which the payloads of further messages are omitted, but not their offsets and reasons."""

LOGGED_EVERY = 1000
"""The first entry of a table, and then one in this number, is also written to the process's log."""


FOUND_MAX_BYTES = 32 << 20
"""`find` stops after this number of bytes of payloads, in base64."""

_REPLAYED = "REPLAYED"
_LATER_FIELDS = {"key": None, "headers": None, "rowsTaken": 0}
"""Defaults for fields that are missing in older files."""


class DeadLetterKind(Enum):
    """Kind of a dead letter."""

    UNDECODABLE = "UNDECODABLE"  # the decoder could not read the message
    UNCONVERTIBLE = "UNCONVERTIBLE"  # a value could not be computed or converted to its column's type
    REJECTED = "REJECTED"  # a table with primary keys cannot compare or merge the row
    GAP = "GAP"  # the stream no longer had the messages from `offset` to before `next_offset`


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One entry.

    timestamp_ms: the time of detection. payload, key, headers: the original message, None if unknown.
    rows_taken: the number of rows of the same message that the table has.
    """

    segment: str
    partition: int
    offset: str
    kind: DeadLetterKind
    reason: str
    timestamp_ms: int
    payload: bytes | None = None
    next_offset: str | None = None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes]] | None = None
    rows_taken: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of the file and of REST, with binary values in base64."""
        return {
            "segment": self.segment,
            "partition": self.partition,
            "offset": self.offset,
            "nextOffset": self.next_offset,
            "kind": self.kind.value,
            "reason": self.reason,
            "timestampMs": self.timestamp_ms,
            "payload": None if self.payload is None else _base64(self.payload),
            "key": None if self.key is None else _base64(self.key),
            "headers": None if self.headers is None else [[name, _base64(value)] for name, value in self.headers],
            "rowsTaken": self.rows_taken,
        }


class DeadLetters:
    """The entries of one typed table on this server. Thread-safe."""

    def __init__(self, table: str, path: Path) -> None:
        self._table = table
        self._path = path
        self._lock = threading.Lock()
        self._known: defaultdict[int, set[str]] = defaultdict(set)
        self._replayed: dict[Place, str] = {}
        self._counts: Counter[str] = Counter()
        self._size = 0
        self._is_closed = False
        if path.exists():
            self._size = _cut_to_whole_lines(path)
        for line in self._lines():
            if line["kind"] == _REPLAYED:
                self._replayed[_place(line)] = line["replayedTo"]
            else:
                self._count(line)

    def add(self, letters: Sequence[DeadLetter]) -> int:
        """Append entries durably; return the number of new ones. Raises OSError."""
        with self._lock:
            if self._is_closed:
                return 0
            fresh = [letter for letter in letters if letter.offset not in self._known[letter.partition]]
            if not fresh:
                return 0
            self._append(map(self._line, fresh))
            for letter in fresh:
                before = sum(self._counts.values())
                self._count(letter.to_json())
                if before % LOGGED_EVERY == 0:
                    _log.warning(
                        "%s, partition %d, offset %s (entry %d of its dead letters): %s",
                        self._table, letter.partition, letter.offset, before + 1, letter.reason,
                    )  # fmt: skip
            return len(fresh)

    def close(self) -> None:
        """Reject further entries: the table was deleted, and a new one may have its name and file."""
        with self._lock:
            self._is_closed = True

    def counts(self) -> dict[str, int]:
        """Return the number of entries of each kind."""
        return {kind.value: self._counts[kind.value] for kind in DeadLetterKind}

    def entries(self, limit: int, *, partition: int | None = None, offset: str | None = None) -> list[dict[str, Any]]:
        """Return the last `limit` entries as JSON objects, the oldest first; optionally of one partition or offset.

        Each has `replayedTo`, the new offset or None, and `notReplayable`, the reason or None.
        """
        found = deque(
            (
                entry
                for entry in self._letters()
                if (partition is None or entry["partition"] == partition) and (offset is None or entry["offset"] == offset)
            ),
            maxlen=limit,
        )
        return list(found)

    # replay

    def replayable(self, limit: int) -> tuple[list[Place], bool]:
        """Return the positions of at most `limit` messages that can be replayed and have not been, the oldest first, and
        whether there are more of them."""
        waiting = (_place(e) for e in self._letters() if e["replayedTo"] is None and e["notReplayable"] is None)
        found = list(islice(waiting, limit + 1))
        return found[:limit], len(found) > limit

    def find(self, places: Collection[Place]) -> tuple[list[dict[str, Any]], dict[Place, str]]:
        """Return the entries at some positions, at least one and up to FOUND_MAX_BYTES, and the new offsets of those
        positions
        that were replayed."""
        found, size, wanted = [], 0, set(places)
        for entry in self._letters():
            if _place(entry) in wanted:
                found.append(entry)
                size += len(entry["payload"] or "")
                if size > FOUND_MAX_BYTES:
                    break
        with self._lock:
            return found, {place: self._replayed[place] for place in places if place in self._replayed}

    def waiting(self, partition: int) -> list[str]:
        """Return the offsets of a partition's entries that have not been replayed."""
        with self._lock:
            return [offset for offset in self._known[partition] if (partition, offset) not in self._replayed]

    def note_replayed(self, replayed: Mapping[Place, str]) -> None:
        """Record durably the new offsets of replayed messages. Raises OSError."""
        with self._lock:
            fresh = {place: offset for place, offset in replayed.items() if self._replayed.get(place) != offset}
            self._append(
                orjson.dumps(
                    {"kind": _REPLAYED, "partition": partition, "offset": offset, "replayedTo": to},
                    option=orjson.OPT_APPEND_NEWLINE,
                )
                for (partition, offset), to in fresh.items()
            )
            self._replayed |= fresh

    def _count(self, entry: Mapping[str, Any]) -> None:
        self._known[entry["partition"]].add(entry["offset"])
        self._counts[entry["kind"]] += 1

    def _append(self, lines: Iterable[bytes]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self._path.open("ab") as file:
                file.writelines(lines)
                file.flush()
                os.fsync(file.fileno())
                size = file.tell()
        except OSError:  # the next entry must start a new line
            with suppress(OSError):
                os.truncate(self._path, self._size)
            raise
        self._size = size

    def _line(self, letter: DeadLetter) -> bytes:
        entry = letter.to_json()
        if self._size > PAYLOADS_MAX_BYTES:
            entry |= {"payload": None, "key": None, "headers": None}
        return orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE)

    def _letters(self) -> Iterator[dict[str, Any]]:
        """Yield the entries in the form of REST."""
        for line in self._lines():
            if line["kind"] != _REPLAYED:
                entry = _LATER_FIELDS | line
                yield entry | {"replayedTo": self._replayed.get(_place(line)), "notReplayable": _hindrance(entry)}

    def _lines(self) -> Iterator[dict[str, Any]]:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):  # still being written
                    return
                yield orjson.loads(line)


def _hindrance(entry: Mapping[str, Any]) -> str | None:
    """Return why a message cannot be written to the stream again, None if it can."""
    if entry["kind"] == DeadLetterKind.GAP.value:
        return "the stream had lost these messages before they were read"
    if entry["payload"] is None:
        return "the message was not kept, for the list of dead letters was too large"
    if entry["partition"] >= STREAM_LEVEL:
        return "one consumer reads the whole topic, so the message's partition is not known"
    if entry["rowsTaken"]:
        return f"the message has other rows which the table has: {entry['rowsTaken']} of them would be there twice"
    return None


def _place(line: Mapping[str, Any]) -> Place:
    return line["partition"], line["offset"]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _cut_to_whole_lines(path: Path) -> int:
    """Remove an incomplete last line, whose messages are consumed again, after a crash; return the file's size."""
    with path.open("rb+") as file:
        content = file.read()
        size = content.rfind(b"\n") + 1
        if size < len(content):
            file.truncate(size)
        return size
