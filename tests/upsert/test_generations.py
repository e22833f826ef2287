"""The index in two generations decides like the scanned one, and holds the keys of at most two TTLs."""

import numpy as np
import pytest

from gamay.kernels.keys.table import LATE, NO_DOC
from gamay.upsert.index.comparing import ordered
from gamay.upsert.index.generations import GenerationIndex
from gamay.upsert.index.key_index import NO_TEXT, KeyIndex, Keys, Rules

TTL = 50


def batches(rng: np.random.Generator, count: int, is_float: bool) -> "list[tuple[Keys, np.ndarray]]":
    """Batches of rows of few keys, whose times go on and are sometimes late."""
    found = []
    for number in range(count):
        size = int(rng.integers(1, 60))
        numbers = rng.integers(0, 400, size).astype(np.uint64)
        times = number * 3 - rng.choice([0, 0, 1, 8, 70], size)
        keys = Keys(1, numbers * np.uint64(0x9E3779B97F4A7C15), np.empty(0, np.uint64), *NO_TEXT)
        found.append((keys, ordered(times.astype(np.float64) if is_float else times)[:, None]))
    return found


@pytest.mark.parametrize("is_float", [False, True])
def test_it_decides_as_an_index_that_is_scanned(is_float: bool) -> None:
    rng = np.random.default_rng(7)
    scanned, turned = KeyIndex(1), GenerationIndex(1, 1, TTL, is_float=is_float)
    doc = 0
    for number, (keys, times) in enumerate(batches(rng, 400, is_float)):
        segment = number // 20
        rules = Rules(segment, doc, check_expiry=True, is_float=is_float, ttl=TTL, deleted_ttl=20)
        deletes = (rng.random(len(keys)) < 0.1).astype(np.uint8)
        chosen, wins = np.full(len(keys), -1, np.int8), np.ones(segment + 1, np.uint8)
        puts = [
            index.put(keys, times.copy(), chosen, deletes, wins, rules, undoable=True) for index in (scanned, turned)
        ]  # fmt: skip
        np.testing.assert_array_equal(*((put.status == LATE) for put in puts))
        np.testing.assert_array_equal(*(put.previous for put in puts))
        if rng.random() < 0.1:
            for index, put in zip((scanned, turned), puts, strict=True):
                index.undo(keys, put)
            continue
        doc += len(keys)
        if number % 20 == 19:
            for index in (scanned, turned):
                index.remove_expired(Rules(-1, ttl=TTL, is_float=is_float))
                index.remove_expired(Rules(-1, deleted_ttl=20, is_float=is_float))
                index.remove_segment(segment - 3)
            alive = scanned.items()[0]
            alive = alive[alive & NO_DOC != NO_DOC]  # what an undone row of a new key leaves says nothing of it
            assert np.isin(alive, turned.items()[0]).all()
            assert len(turned) == len(turned.items()[0])
            here = (segment << 32) | puts[0].docs
            moved = [index.move(keys, here, here + (1 << 24)) for index in (scanned, turned)]
            assert not (moved[0] & ~moved[1]).any()  # those beyond the TTL may be there yet
    assert turned.num_dropped > 100


def test_memory_of_keys_that_nobody_renews_is_given_back() -> None:
    index = GenerationIndex(1, 1, TTL, is_float=False)
    sizes = []
    for number in range(300):
        keys = Keys(1, np.random.default_rng(number).integers(0, 2**64, 100, np.uint64), np.empty(0, np.uint64), *NO_TEXT)
        values, chosen = np.full((100, 1), number), np.full(100, -1, np.int8)
        index.put(keys, values, chosen, np.zeros(100, np.uint8), np.ones(1, np.uint8), Rules(0, 100 * number))
        sizes.append(len(index))
    assert max(sizes) <= 100 * (2 * TTL + 3)
    assert index.num_dropped == 100 * 300 - len(index)


def test_rows_that_are_taken_back_forget_no_deleted_key() -> None:
    """The old generation was begun at a watermark that does not hold any more."""
    index = GenerationIndex(1, 1, 20.0, is_float=False)
    for key, value in ((1, 60), (2, 85), (3, 90)):
        hashes = np.array([key], np.uint64)
        one = (np.array([[value]]), np.full(1, -1, np.int8), np.ones(1, np.uint8), np.ones(1, np.uint8), Rules(0, key))
        index.put(Keys(1, hashes, hashes[:0], *NO_TEXT), *one)
    index.set_watermark(65)
    assert len(index.remove_expired(Rules(-1, deleted_ttl=10.0))) == 0
    index.set_watermark(75)
    assert len(index.remove_expired(Rules(-1, deleted_ttl=10.0))) == 1
