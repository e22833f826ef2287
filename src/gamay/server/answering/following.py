"""Rows behind those of a segment that a broker asks for, while it does not know yet that they are in another one.

A segment ends in the middle of a stream. Until a broker has heard which segment its rows go on in, and that a server has
that one, it asks for the first alone. It says of which segments that is so: the last ones that it knows of their partitions.
A server that has what follows there reads it as well; nobody else is asked for these rows, so none is read twice.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gamay.segment.spi import Segment
from gamay.server.loading.table import Contents

if TYPE_CHECKING:
    from gamay.ingest.stream.offsets import Offset


def frozen_after(contents: Contents, segment: str, end: "Offset | None") -> Iterator[tuple[Segment, int | None]]:
    """Yield what follows a segment here, in order: rows, and how fresh they are, None where the segment is loaded.

    end: where the rows of `segment` end that are read; None where it is loaded, and so has all of them. Nothing is yielded
    that does not begin where the rows before it end.
    """
    while True:
        name = contents.following.get(segment)
        if name is not None and (loaded := contents.loaded.get(name)) is not None:
            yield loaded.segment, None
            segment, end = name, None
            continue
        growing = contents.ahead.get(segment) if name is None else contents.consuming.get(name)
        if growing is None or (end is not None and growing.start != end):
            return
        view, freshness_ms, end = growing.freeze_to_end()
        yield view, freshness_ms
        if end is None:
            return
        segment = growing.name
