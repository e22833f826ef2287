"""Rows after a requested segment, in a successor that the broker does not know yet.

Until a broker knows the successor of a segment, and that a server has it, it requests only the segment. It marks such
segments: the last ones that it knows of their partitions. The server then also reads the successor's rows;
no other server is asked for these, so none is read twice.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gamay.segment.spi import Segment
from gamay.server.loading.table import Contents

if TYPE_CHECKING:
    from gamay.ingest.stream.offsets import Offset


def frozen_after(contents: Contents, segment: str, end: "Offset | None") -> Iterator[tuple[Segment, int | None]]:
    """Yield the rows that follow a segment on this server, in order, with their freshness, None for a loaded segment.

    end: the end of the rows of `segment` that are read; None if it is loaded and so has all of them. Only rows that start
    exactly where the previous ones end are yielded.
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
