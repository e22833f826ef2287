"""Salvage of a record that cannot be read: its fields, and a lineage whose entries follow from the existing segments.

Nothing is guessed: if the remains allow two results that queries would see, UndecidedError names what is missing.
"""

import gzip
from collections.abc import Collection, Mapping
from typing import Any

import orjson

from gamay.base.errors import GamayError, InvalidConfigError
from gamay.cluster.records import invariants
from gamay.cluster.records.records import Lineage, LineageEntry, LineageState, WriterBatch

_GZIP_MAGIC = b"\x1f\x8b"
_FIELDS_MAX = 4
_WRITER = "writer/"
_NOTE = "custom/"


class UndecidedError(InvalidConfigError):
    """A record that cannot be rebuilt: necessary content is neither in it nor anywhere else."""


def document_of(value: bytes) -> Mapping[str, Any]:
    """Return the JSON object that a node holds, whatever its fields, or an empty one if it holds none."""
    try:
        found = orjson.loads(gzip.decompress(value) if value.startswith(_GZIP_MAGIC) else value)
    except (OSError, EOFError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def texts(fields: Any) -> dict[str, str]:
    """Return the fields whose values are strings."""
    found = fields if isinstance(fields, dict) else {}
    return {key: value for key, value in found.items() if isinstance(value, str)}


def number(text: str | None) -> int:
    """Return the number in a text, or -1 (unknown) if it is not one."""
    try:
        found = int(text or "")
    except ValueError:
        return -1
    return found if 0 <= found < 1 << 63 else -1


def lineage_of(table: str, value: bytes, existing: Collection[str], now_ms: int) -> Lineage:
    """Return a table's lineage from its damaged record, without entries that hide no existing segment.

    existing: the segments that have a record. Raises UndecidedError.
    """
    document = document_of(value)
    lists = document.get("listFields")
    if not isinstance(lists, dict) or document.get("mapFields") or not isinstance(document.get("simpleFields") or {}, dict):
        raise UndecidedError("the replacements cannot be read from it")
    entries: dict[str, LineageEntry] = {}
    for entry_id, fields in lists.items():
        if (entry := _entry_of(entry_id, fields, existing, now_ms)) is not None:
            entries[entry_id] = entry
    simple = (document.get("simpleFields") or {}).items()
    writers = {key.removeprefix(_WRITER): _writer_of(key, text, now_ms) for key, text in simple if key.startswith(_WRITER)}
    notes = {key.removeprefix(_NOTE): text for key, text in simple if key.startswith(_NOTE) and isinstance(text, str)}
    try:
        return invariants.check(Lineage(table, entries, writers, notes), invariants.LINEAGE)
    except GamayError as error:
        raise UndecidedError(str(error)) from error


def _entry_of(entry_id: str, fields: Any, existing: Collection[str], now_ms: int) -> LineageEntry | None:
    """Return an entry, or None if it hides no existing segment and never will."""
    if not isinstance(fields, list) or len(fields) != _FIELDS_MAX:
        raise UndecidedError(f"the segments of entry {entry_id} cannot be read")
    before, after = _names(fields[0]), _names(fields[1])
    state = next((one for one in LineageState if one.value == fields[2]), None)
    is_gone = bool(before) and not set(before or ()) & set(existing)
    if is_gone and state in (LineageState.COMPLETED, None):
        return None  # replaced segments are deleted when their replacement is completed, and not before
    if before is None or after is None or state is None:
        what = "state" if state is None else "list of segments"
        raise UndecidedError(f"the {what} of entry {entry_id} cannot be read, and decides which segments queries see")
    written_ms = number(fields[3]) if isinstance(fields[3], str) else -1
    return LineageEntry(entry_id, before, after, state, now_ms if written_ms < 0 else written_ms)


def _names(field: Any) -> tuple[str, ...] | None:
    if not isinstance(field, str):
        return None
    return tuple(field.split(",")) if field else ()


def _writer_of(key: str, text: Any, now_ms: int) -> WriterBatch:
    first, _, second = text.partition(" ") if isinstance(text, str) else ("", "", "")
    if (batch := number(first)) < 0 or not second:
        raise UndecidedError(f"the last batch of {key} cannot be read, without which its batches could be stored twice")
    return WriterBatch(batch, now_ms if number(second) < 0 else number(second))
