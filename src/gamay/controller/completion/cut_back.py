"""Selection of the segments to delete so that partitions are consumed again from an earlier offset. Pure."""

from collections.abc import Iterable

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.cluster.records.llc_name import LlcName


def segments_from(names: Iterable[str], first: Iterable[str]) -> dict[int, list[str]]:
    """Return partition -> its segments from the sequence number of the given segment on, in order.

    names: all segments of the table. first: the first segment to delete of each partition; the earliest wins. Raises
    InvalidConfigError for a name that is not that of a consumed segment, NotFoundError for a segment that does not
    exist.
    """
    known = {name: parsed for name in names if (parsed := LlcName.parse(name)) is not None}
    begin: dict[int, int] = {}
    for name in first:
        wanted = LlcName.parse(name)
        if wanted is None:
            raise InvalidConfigError(f"segments: '{name}' is not the name of a segment that was consumed from a stream")
        if name not in known:
            raise NotFoundError(f"Segment {name} not found in table {wanted.table}")
        begin[wanted.partition] = min(wanted.sequence, begin.get(wanted.partition, wanted.sequence))
    found: dict[int, list[str]] = {partition: [] for partition in sorted(begin)}
    for name, parsed in sorted(known.items(), key=lambda entry: entry[1].sequence):
        if parsed.partition in begin and parsed.sequence >= begin[parsed.partition]:
            found[parsed.partition].append(name)
    return found
