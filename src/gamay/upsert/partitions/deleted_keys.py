"""`enableDeletedKeysCompactionConsistency`: expiry of deleted keys that have no other rows left.

A key deleted longer than `deletedKeysTTL` ago expires, and a compaction then removes the row that deleted it. If another
segment still had an older row of the key, that row would become valid after a restart. So the key is kept until only
the segment of the deleting row has rows of it.
"""

from collections.abc import Sequence

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.keys.table import DELETED_BIT, NO_DOC
from gamay.segment.spi import Segment
from gamay.upsert.config.settings import UpsertSettings
from gamay.upsert.index.comparing import beyond
from gamay.upsert.index.key_index import BATCH_ROWS, KeyIndex, Keys, Rules
from gamay.upsert.index.keys import KeyEncoder
from gamay.upsert.rows.segment_registry import DOC_BITS, TrackedSegments


def remove_deleted_alone(settings: UpsertSettings, index: KeyIndex, tracked: TrackedSegments) -> Array:
    """Remove the deleted keys beyond deletedKeysTTL that have rows in only one segment; return their locations, int64."""
    locations, comparisons = index.items()
    deleted = (locations & DELETED_BIT != 0) & (locations & DOC_BITS != NO_DOC)
    locations, comparisons = locations[deleted], comparisons[deleted]
    expired = beyond(comparisons, index.watermark, settings.deleted_ttl, settings.comparison.is_float)
    places = np.sort(locations[expired] & ~DELETED_BIT)
    segments = {one.ordinal: one.read() for one in tracked.by_name().values()} if len(places) else {}
    groups = [places[places >> 32 == ordinal] for ordinal in np.unique(places >> 32)]
    wanted = [
        (ordinal, settings.encoder.at(segments[ordinal], (mine & DOC_BITS).astype(np.int32)))
        for mine in groups
        for ordinal in [int(mine[0] >> 32)]
    ]
    elsewhere = _rows_left_elsewhere(settings.encoder, list(segments.items()), wanted)
    unused, removed = tracked.num_ordinals, [np.empty(0, np.int64)]
    for mine, (_, keys), has_others in zip(groups, wanted, elsewhere, strict=True):
        alone = np.flatnonzero(~has_others)
        gone = mine[alone]
        index.move(keys.at(alone), gone, (unused << 32) | (gone & DOC_BITS))
        removed.append(gone)
    index.remove_segment(unused)
    return np.concatenate(removed)


def _rows_left_elsewhere(
    encoder: KeyEncoder, segments: Sequence[tuple[int, Segment]], wanted: Sequence[tuple[int, Keys]]
) -> list[Array]:
    """Return which keys have rows in a segment other than their own: bool [n] for each entry of `wanted`.

    segments: (ordinal, segment) of the whole partition; all their rows are read once, in batches.
    wanted: (ordinal, distinct keys of rows of that segment).
    """
    index, count = KeyIndex(encoder.words), 0
    for _, keys in wanted:
        rows = len(keys)
        index.put(
            keys, np.zeros((rows, 1), np.int64), np.full(rows, -1, np.int8), np.zeros(rows, np.uint8),
            np.ones(1, np.uint8), Rules(0), np.arange(count, count + rows),
        )  # fmt: skip
        count += rows
    own = np.repeat([ordinal for ordinal, _ in wanted], [len(keys) for _, keys in wanted])
    elsewhere = np.zeros(count, np.bool_)
    for ordinal, segment in segments if count else ():
        for start in range(0, segment.num_docs, BATCH_ROWS):
            stop = min(start + BATCH_ROWS, segment.num_docs)
            locations, _ = index.find(encoder.of_segment(segment, start, stop))
            found = locations[locations >= 0] & DOC_BITS
            elsewhere[found[own[found] != ordinal]] = True
    return np.split(elsewhere, np.cumsum([len(keys) for _, keys in wanted])[:-1]) if wanted else []
