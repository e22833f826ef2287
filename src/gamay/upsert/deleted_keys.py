"""`enableDeletedKeysCompactionConsistency`: which deleted keys may be forgotten because nothing else of them is left.

A key that was deleted long ago is forgotten by `deletedKeysTTL`, and a compaction then removes the row that deleted it. If
an older row of the key still lay in another segment, it would count again after a restart. So the key is kept until the
segment of that row is the only one that has rows of it.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from gamay.kernels.key_table import DELETED_BIT
from gamay.segment.spi import Segment
from gamay.upsert.key_index import BATCH_ROWS, KeyIndex, Keys, Rules
from gamay.upsert.keys import KeyEncoder

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_DOC = DELETED_BIT - 1


def rows_left_elsewhere(
    encoder: KeyEncoder, segments: Sequence[tuple[int, Segment]], wanted: Sequence[tuple[int, Keys]]
) -> list[Array]:
    """Return which keys have rows in another segment than the one that they are given with: for each entry bool [n].

    segments: (ordinal, segment) of the whole partition; every row of them is looked at once, a batch at a time.
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
            found = locations[locations >= 0] & _DOC
            elsewhere[found[own[found] != ordinal]] = True
    return np.split(elsewhere, np.cumsum([len(keys) for _, keys in wanted])[:-1]) if wanted else []
