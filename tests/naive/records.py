"""Slow twins of the kernels of `gamay.kernels.rows.records`."""

from collections.abc import Sequence


def find(records: Sequence[Sequence[int]], spans: Sequence[Sequence[tuple[int, int]]]) -> list[int]:
    """Return the records of which each of the first columns has an id in one of its spans."""
    return [
        number
        for number, record in enumerate(records)
        if all(any(first <= id_ < after for first, after in part) for id_, part in zip(record, spans, strict=False))
    ]
