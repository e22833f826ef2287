"""The new segments of a table between two snapshots. Pure functions of snapshots and offsets.

An offset is the set of segments that were read or skipped, with their CRCs: a restarted query resumes exactly there, and a
repeated batch has the same segments. A point in time would not suffice, since segments are not published in the order in
which they are created.
"""

import base64
import re
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gamay.base.errors import ConflictError, InvalidConfigError

_NUMBERS = re.compile(r"(\d+)")
Seen = Mapping[str, int]
"""CRCs of segments by name: `crc` for those that were read, `~crc`, which is negative, for those that were skipped."""


def to_offset(seen: Seen) -> dict[str, Any]:
    """Return a set of segments as an offset for Spark, compressed, as a table may have thousands.

    >>> from_offset(to_offset({"trips_0": 17}))
    {'trips_0': 17}
    """
    text = "\n".join(f"{crc} {name}" for name, crc in sorted(seen.items()))
    return {"segments": len(seen), "packed": base64.b64encode(zlib.compress(text.encode(), 9)).decode()}


def from_offset(offset: Mapping[str, Any]) -> dict[str, int]:
    """Return the set of segments in an offset. Raises InvalidConfigError for an offset of another source."""
    try:
        lines = zlib.decompress(base64.b64decode(offset["packed"])).decode().split("\n")
        pairs = [line.partition(" ") for line in lines if line]
        return {name: int(crc) for crc, _, name in pairs}
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise InvalidConfigError(f"the checkpoint has no offset of a Gamay table: {offset!r:.200}") from error


@dataclass(frozen=True, slots=True)
class Feed:
    """A snapshot of a typed table, as `ControllerClient.read_snapshot` returns it.

    on_replace: `fail`, `skip` or `read`. has_keys: whether rows replace those with their primary keys; then new versions of
    segments have rows that were already read, and all rows of other segments are changes.
    """

    half: Mapping[str, Any]
    on_replace: str
    has_keys: bool

    def committed(self) -> dict[str, int]:
        """Return the committed segments that queries see."""
        return {one["name"]: one["crc"] for one in self.half["segments"] if one["uri"] is not None}

    def after(self, seen: Seen, segments_max: int, within: Collection[str] | None = None) -> dict[str, int]:
        """Return the offset after the next batch, which reads up to `segments_max` more segments.

        Deleted segments are removed from it. within: the segments that may be read, None for all.
        Raises ConflictError for a segment that replaced some that were read, if `on_replace` is `fail`.
        """
        committed = self.committed()
        there = {*(one["name"] for one in self.half["segments"]), *self.half["hidden"]}
        now = {name: crc for name, crc in seen.items() if name in there}
        new = [name for name, crc in committed.items() if seen.get(name) not in (crc, ~crc)]
        left = segments_max
        for name in sorted(new, key=_in_order):
            if within is not None and name not in within:
                continue
            if self._is_known(name, seen):
                now[name] = ~committed[name]
            elif left:
                now[name] = committed[name]
                left -= 1
        return now

    def _is_known(self, name: str, seen: Seen) -> bool:
        """Return whether to skip a new segment, as its rows were already read or are not wanted."""
        if self.has_keys and name in seen:
            return True  # compacted
        merged: Sequence[str] = next((one["mergedFrom"] for one in self.half["segments"] if one["name"] == name), [])
        if merged and all(one in seen for one in merged):
            return True
        if merged and self.has_keys:
            return False  # a row that is read again is the same change
        read = sorted(one for one in {name, *merged, *self._replaced_by(name)} if one in seen)
        if not read or self.on_replace == "read":
            return False
        if self.on_replace == "skip":
            return True
        others = "" if len(read) == 1 else f" and {len(read) - 1} others"
        raise ConflictError(
            f"segment '{name}' of table '{self.half['table']}' has taken the place of '{read[0]}'{others}, which this "
            f"stream has read: say .option('onReplace', 'skip') to leave such segments out, or 'read' to read them too"
        )

    def _replaced_by(self, name: str) -> Sequence[str]:
        return [old for one in self.half["replacements"] if name in one["to"] for old in one["from"]]


def to_read(start: Seen, end: Seen) -> dict[str, int]:
    """Return the segments of the batch between two offsets, with their CRCs."""
    return {name: crc for name, crc in end.items() if crc >= 0 and start.get(name) != crc}


def _in_order(name: str) -> list[int | str]:
    """Return a sort key that orders numbers in names by value: `trips__0__9__…` before `trips__0__10__…`."""
    return [int(part) if part.isdigit() else part for part in _NUMBERS.split(name)]
