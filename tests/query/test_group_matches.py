"""Every kind of matches iterates over and splits into the same rows."""

import itertools
from typing import Any

import numpy as np
import pytest

from gamay.kernels.rows.masks import compress_lists, compress_texts
from gamay.query.view.match_spans import cut
from gamay.query.view.matches import BLOCK_ROWS, AllDocs, DocList, DocMask, DocScan, Matches

ROWS = 3 * BLOCK_ROWS + 1234


def flags(share: float, rows: int = ROWS) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    return np.random.default_rng(1).random(rows) < share


def kinds(share: float) -> list[Matches]:
    mask = flags(share)
    docs = np.flatnonzero(mask).astype(np.int32)
    return [DocMask(0, mask), DocScan(0, ROWS, lambda first, last: mask[first:last]), DocList(docs)]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
@pytest.mark.parametrize("kind", range(3))
def test_blocks_and_pieces_cover_the_rows_once(kind: int, share: float) -> None:
    matches = kinds(share)[kind]
    expected = np.flatnonzero(flags(share))
    np.testing.assert_array_equal(matches.docs(), expected)
    assert matches.docs().dtype == np.int32
    assert len(matches) == len(expected)
    for rows, window in ((1000, 0), (1000, 50_000), (BLOCK_ROWS, 0)):
        blocks = list(matches.blocks(rows, window))
        assert all(0 < len(block) <= rows for block in blocks)
        np.testing.assert_array_equal(np.concatenate([np.empty(0, np.int32), *(block.docs() for block in blocks)]), expected)
    for parts in (1, 2, 7):
        pieces = matches.split(parts)
        assert len(pieces) <= parts
        np.testing.assert_array_equal(np.concatenate([np.empty(0, np.int32), *(piece.docs() for piece in pieces)]), expected)


def test_a_block_takes_the_cheapest_form() -> None:
    forms = {type(block) for block in DocScan(0, ROWS, lambda first, last: np.ones(last - first, np.bool_)).blocks()}
    assert forms == {AllDocs}
    assert {type(block) for block in DocMask(5, flags(0.01)).blocks()} == {DocList}
    assert {type(block) for block in DocMask(5, flags(0.3)).blocks()} == {DocMask}
    assert list(DocMask(5, np.zeros(100, np.bool_)).blocks()) == []


def test_few_rows_of_a_window_come_in_few_blocks() -> None:
    few, rows = DocMask(0, flags(0.01)), 1 << 14
    assert len(list(few.blocks(rows, BLOCK_ROWS))) == 4
    assert len(list(few.blocks(rows))) == 49


def test_ranges() -> None:
    matches = AllDocs(7, 7 + ROWS)
    assert len(matches) == ROWS
    assert [(b.start, b.stop) for b in AllDocs(3, 11).blocks(3)] == [(3, 6), (6, 9), (9, 11)]  # type: ignore[union-attr]
    pieces = matches.split(2)
    assert [pieces[0].start, pieces[0].stop, pieces[1].stop] == [7, pieces[1].start, 7 + ROWS]
    assert AllDocs(4, 4).split(3) == []
    assert AllDocs(4, 6).split(5) == [AllDocs(4, 5), AllDocs(5, 6)]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.float64])
def test_compress(dtype: Any) -> None:
    mask = flags(0.4, 1001)
    values = np.arange(1001).astype(dtype)
    np.testing.assert_array_equal(DocMask(3, mask).compress(values), values[mask])


@pytest.mark.parametrize("seed", range(5))
def test_lists_that_a_mask_keeps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lists = [rng.integers(0, 99, rng.integers(0, 4)).tolist() for _ in range(int(rng.integers(0, 60)))]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in lists])]).astype(np.int32)
    values = np.array([value for row in lists for value in row], np.uint16)
    mask = rng.integers(0, 2, len(lists)).astype(np.uint8)
    expected = [row for row, kept in zip(lists, mask.tolist(), strict=True) if kept]
    kept, kept_offsets = np.empty(sum(map(len, expected)), np.uint16), np.empty(len(expected) + 1, np.int32)
    compress_lists(values, offsets, mask, kept, kept_offsets)
    assert [kept[a:b].tolist() for a, b in itertools.pairwise(kept_offsets.tolist())] == expected


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 1.0])
def test_texts_that_a_mask_keeps(share: float) -> None:
    rng = np.random.default_rng(3)
    texts = [bytes(rng.integers(0, 256, rng.integers(0, 12)).tolist()) for _ in range(300)]
    mask = (rng.random(300) < share).astype(np.uint8)
    data = np.frombuffer(b"".join(texts), np.uint8)
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int32)
    kept, kept_offsets = np.empty(len(data), np.uint8), np.empty(int(mask.sum()) + 1, np.int32)
    compress_texts(data, offsets, mask, kept, kept_offsets)
    found = [bytes(kept[a:b].tolist()) for a, b in itertools.pairwise(kept_offsets.tolist())]
    assert found == [text for text, is_kept in zip(texts, mask.tolist(), strict=True) if is_kept]


def test_a_scan_tells_how_many_rows_each_part_lets_through() -> None:
    mask, told = flags(0.3), list[int]()
    scan = DocScan(0, ROWS, lambda first, last: mask[first:last], told.append)
    assert len(scan) == sum(told) == np.count_nonzero(mask)
    told.clear()
    first, rest = cut(scan, 1000)
    for piece in (first, *rest.split(3)):
        assert sum(len(block) for block in piece.blocks(5000, 100_000)) > 0
    assert sum(told) == np.count_nonzero(mask)
