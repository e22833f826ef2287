"""What is new in a table: the segments between two moments of it. Pure: from snapshots and offsets to names.

An offset is the set of segments that were read, or left out, with their CRCs: a query that starts again goes on exactly
there, and a batch that runs again has the same segments. A set says more than a moment would: segments are shown in another
order than they are made.
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
"""Segments by name, with their CRCs: those that were read; of those that were left out `~crc`, which is negative."""


def to_offset(seen: Seen) -> dict[str, Any]:
    """Return a set of segments as Spark keeps it, packed: a table may have thousands.

    >>> from_offset(to_offset({"trips_0": 17}))
    {'trips_0': 17}
    """
    text = "\n".join(f"{crc} {name}" for name, crc in sorted(seen.items()))
    return {"segments": len(seen), "packed": base64.b64encode(zlib.compress(text.encode(), 9)).decode()}


def from_offset(offset: Mapping[str, Any]) -> dict[str, int]:
    """Return the set that an offset stands for. Raises InvalidConfigError for what is no offset of this source."""
    try:
        lines = zlib.decompress(base64.b64decode(offset["packed"])).decode().split("\n")
        pairs = [line.partition(" ") for line in lines if line]
        return {name: int(crc) for crc, _, name in pairs}
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise InvalidConfigError(f"the checkpoint has no offset of a Gamay table: {offset!r:.200}") from error


@dataclass(frozen=True, slots=True)
class Feed:
    """One moment of a typed table, as `ControllerClient.read_snapshot` tells it.

    on_replace: `fail`, `skip` or `read`. has_keys: rows replace those of their keys; then segments are made anew from rows
    that were read, and all rows of others are changes.
    """

    half: Mapping[str, Any]
    on_replace: str
    has_keys: bool

    def committed(self) -> dict[str, int]:
        """Return the segments that queries see and that will not change any more."""
        return {one["name"]: one["crc"] for one in self.half["segments"] if one["uri"] is not None}

    def after(self, seen: Seen, segments_max: int, within: Collection[str] | None = None) -> dict[str, int]:
        """Return what is seen once a next batch was read, of a few segments more.

        Segments that are gone are forgotten. within: those that may be read, None for all.
        Raises ConflictError for a segment that has taken the place of some that were read, where that is to fail.
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
        """Return whether the rows of a segment that is new were read already, or are not to be read."""
        if self.has_keys and name in seen:
            return True  # compacted
        merged: Sequence[str] = next((one["mergedFrom"] for one in self.half["segments"] if one["name"] == name), [])
        if merged and all(one in seen for one in merged):
            return True
        if merged and self.has_keys:
            return False  # a row that comes again is the same change
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
    """Return what sorts names as they count: `trips__0__9__…` before `trips__0__10__…`."""
    return [int(part) if part.isdigit() else part for part in _NUMBERS.split(name)]
