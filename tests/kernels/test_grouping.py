"""Numbering of keys, masks and digests, compiled and interpreted."""

from typing import Any

import numpy as np
import pytest

from gamay.kernels.group import grouping
from gamay.kernels.rows import masks
from gamay.kernels.sketch import digest, hll

Array = np.ndarray[Any, np.dtype[Any]]


def forms(kernel: Any) -> list[Any]:
    """Return the compiled and the plain form; they are one when Numba is switched off."""
    return list(dict.fromkeys([kernel, getattr(kernel, "py_func", kernel)]))


@pytest.mark.parametrize("kernel", forms(grouping.pack_pair))
@pytest.mark.parametrize("high_type", [np.uint8, np.uint32])
def test_pack_pair(kernel: Any, high_type: Any) -> None:
    high, low = np.arange(250, dtype=high_type), np.arange(250, dtype=np.uint8)[::-1].copy()
    for out_type in (np.uint32, np.int64):
        out = np.empty(250, out_type)
        kernel(high, low, 251, out)
        np.testing.assert_array_equal(out, high.astype(np.int64) * 251 + low)


def test_pack_pair_may_write_where_it_reads() -> None:
    packed = np.arange(10, dtype=np.int64)
    grouping.pack_pair(packed, np.full(10, 3, np.uint8), 1 << 40, packed)
    np.testing.assert_array_equal(packed, np.arange(10) * (1 << 40) + 3)


@pytest.mark.parametrize("kernel", forms(grouping.number_by_lookup))
@pytest.mark.parametrize("limit", [1000, 7])
def test_number_by_lookup(kernel: Any, limit: int) -> None:
    keys = np.random.default_rng(1).integers(0, 50, 400).astype(np.uint16)
    lookup, known, out = np.full(50, -1, np.int32), np.empty(50, np.int64), np.empty(400, np.int32)
    count = kernel(keys, lookup, known, 0, limit, out)
    distinct = list(dict.fromkeys(keys.tolist()))
    if limit == 7:
        assert count == -1 - 7
        kept = {key: i for i, key in enumerate(distinct[:7])}
        np.testing.assert_array_equal(out, [kept.get(key, 7) for key in keys.tolist()])
    else:
        assert count == len(distinct)
        np.testing.assert_array_equal(known[:count][out], keys)


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("kernel", forms(grouping.number_by_hash))
def test_number_by_hash_stops_when_half_full(kernel: Any) -> None:
    keys = np.array([5, -1, 5, 1 << 62, 0, -(1 << 63), 7, 8, 9, 10], np.int64)
    table, known, out = np.full(8, -1, np.int32), np.empty(8, np.int64), np.full(10, -9, np.int32)
    done, count, dropped = kernel(keys, 0, table, known, 0, 100, out)
    assert (done, count, dropped) == (5, 4, False)
    larger = np.full(32, -1, np.int32)
    for rebuild in forms(grouping.rebuild_table):
        larger[:] = -1
        rebuild(known, 4, larger)
    known = np.concatenate([known, np.empty(8, np.int64)])
    done, count, dropped = kernel(keys, done, larger, known, count, 7, out)
    assert (done, count, dropped) == (10, 7, True)
    assert out.tolist() == [0, 1, 0, 2, 3, 4, 5, 6, 7, 7]
    assert known[:7].tolist() == [5, -1, 1 << 62, 0, -(1 << 63), 7, 8]


@pytest.mark.parametrize("kernel", forms(grouping.expand_groups))
def test_expand_groups(kernel: Any) -> None:
    offsets = np.array([10, 12, 12, 15], np.int32)
    out = np.empty(5, np.uint8)
    kernel(np.array([4, 5, 6], np.uint8), offsets, out)
    assert out.tolist() == [4, 4, 6, 6, 6]


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 1001])
def test_masks(n: int, share: float) -> None:
    rng = np.random.default_rng(n)
    mask = (rng.random(n) < share).astype(np.uint8)
    values = rng.integers(0, 250, n).astype(np.uint8)
    np.testing.assert_array_equal(masks.masked_docs(mask, 100, mask.sum()), np.flatnonzero(mask) + 100)
    for masked_docs_each, mask_groups in zip(forms(masks.masked_docs_each), forms(masks.mask_groups), strict=True):
        docs = np.empty(mask.sum() + 1, np.int32)
        assert masked_docs_each(mask, mask[: n // 8 * 8].view(np.uint64), 100, docs) == mask.sum()
        np.testing.assert_array_equal(docs[:-1], np.flatnonzero(mask) + 100)
        groups = np.empty(n, np.uint16)
        mask_groups(values, mask, 250, groups)
        np.testing.assert_array_equal(groups[mask == 1], values[mask == 1])
        assert ((groups[mask == 0] >= 250) & (groups[mask == 0] < 258)).all()


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.uint16, np.int32, np.float32, np.int64, np.float64])
@pytest.mark.parametrize("compress", [masks.compress, masks.compress_each])
def test_compress(compress: Any, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    for n in (0, 1, 7, 63, 64, 65, 1000):
        for share in (0.0, 0.02, 0.5, 0.98, 1.0):
            mask = (rng.random(n) < share).astype(np.uint8)
            values = rng.integers(0, 250, n + 3).astype(dtype)[3:]
            room = np.full(mask.sum() + 4, 77, dtype)  # nothing behind `out` is written
            assert compress(values, mask, room[: mask.sum() + 1]) == mask.sum()
            np.testing.assert_array_equal(room[: mask.sum()], values[mask == 1])
            assert (room[-3:] == np.array(77, dtype)).all()


def test_hll_hashes_of_bytes_are_murmur2() -> None:
    """Short inputs worked out by hand from the definition: seed -1, tail bytes signed, the last byte lowest."""
    texts = [b"", b"a", b"\xff\x01", b"abc", b"abcd", b"abcde\x80\x00", bytes(range(256))]
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    data = np.frombuffer(b"".join(texts), np.uint8)
    expected = [_murmur2(text) for text in texts]
    for kernel in forms(hll.hash_bytes):
        out = np.empty(len(texts), np.uint32)
        kernel(offsets, data, out)
        assert out.tolist() == expected


def _murmur2(data: bytes) -> int:
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = mask ^ len(data)
    whole = len(data) // 4 * 4
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = h * m & mask ^ k
    tail = data[whole:]
    if tail:
        for i, byte in enumerate(reversed(tail)):
            h ^= ((byte - 256 if byte > 127 else byte) << 8 * i) & mask
        h = h * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def test_register_candidates() -> None:
    hashes = np.random.default_rng(3).integers(0, 1 << 32, 500, dtype=np.uint32)
    hashes[:3] = [0, 0xFFFFFFFF, 1 << 24]
    for kernel in forms(hll.register_candidates):
        for log2m in (2, 8, 16):
            positions, ranks = np.empty(500, np.uint16), np.empty(500, np.uint8)
            kernel(hashes, log2m, positions, ranks)
            for h, position, rank in zip(hashes.tolist(), positions.tolist(), ranks.tolist(), strict=True):
                assert position == h >> (32 - log2m)
                rest = h << log2m & 0xFFFFFFFF | (1 << log2m - 1) + 1
                assert rank == 33 - rest.bit_length()


@pytest.mark.parametrize("kernel", forms(digest.compress_centroids))
def test_compressed_centroids_keep_weight_and_mean(kernel: Any) -> None:
    rng = np.random.default_rng(5)
    groups = np.sort(rng.integers(0, 3, 3000)).astype(np.int32)
    values = rng.normal(size=3000)
    values = values[np.lexsort((values, groups))]
    means, weights = values.copy(), np.ones(3000)
    totals = np.bincount(groups, minlength=4).astype(np.float64)
    of_points = groups.copy()
    left = kernel(groups, means, weights, totals, 100.0, 0.0)
    assert left < 3 * 110
    for group in range(3):
        mine = groups[:left] == group
        assert weights[:left][mine].sum() == totals[group]
        assert np.average(means[:left][mine], weights=weights[:left][mine]) == pytest.approx(
            values[of_points == group].mean()
        )
        assert (np.diff(means[:left][mine]) >= 0).all()


def test_rows_of_lists_and_their_combinations() -> None:
    lengths = np.random.default_rng(9).integers(0, 4, 200)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    for kernel in forms(grouping.rows_of_lists):
        out = np.empty(offsets[-1], np.int32)
        kernel(offsets, out)
        assert out.tolist() == np.repeat(np.arange(200), lengths).tolist()
    rows = np.array([5, 5, 0, 199, 7], np.int32)
    expected = [(i, place) for i, row in enumerate(rows) for place in range(offsets[row], offsets[row + 1])]
    for kernel in forms(grouping.combine_lists):
        parents, places = np.empty(len(expected), np.int32), np.empty(len(expected), np.int32)
        kernel(offsets, rows, parents, places)
        assert list(zip(parents.tolist(), places.tolist(), strict=True)) == expected
