"""The primary-key index against a dict, through growth, removal and collisions."""

import hashlib
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive.key_index import CheckedKeyIndex

from gamay.kernels.keys import table
from gamay.kernels.keys.table import ABSENT, DELETED_BIT, LATE, NEW, REPLACED
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.upsert.config.estimate import estimate
from gamay.upsert.index import comparing, key_index
from gamay.upsert.index.key_index import NO_TEXT, KeyIndex, Keys, NewRows, Rules
from gamay.upsert.index.keys import KeyEncoder

Array = Any
WINS = np.ones(8, np.uint8)


def hashed(values: Sequence[int], words: int, collide: bool = False) -> Keys:
    """Keys of numbers; collide: with very few different hashes, or hashes at the end of the directory."""
    numbers = np.array(values, np.uint64)
    hashes = np.empty(len(numbers), np.uint64)
    lows = numbers * np.uint64(3) if words == 3 else np.empty(0, np.uint64)
    if words == 1:
        table.mix64(numbers, hashes)
        if collide:  # the lower half still tells keys apart
            hashes = numbers | np.uint64(0xFFFFFFFF00000000)
    else:
        table.mix128(numbers, lows, hashes)
        if collide:
            hashes = np.full(len(numbers), 2**64 - 5, np.uint64)
    return Keys(words, hashes, lows, *NO_TEXT)


def texts(values: Sequence[bytes], collide: bool = False) -> Keys:
    """Keys that are compared as bytes."""
    data = np.frombuffer(b"".join(values), np.uint8)
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int64)
    hashes = np.array([7 if collide else int.from_bytes(hashlib.md5(v).digest()[:8], "big") for v in values], np.uint64)
    return Keys(3, hashes, np.zeros(len(values), np.uint64), data, offsets, np.ones(len(values), np.uint8))


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("put"),
            st.lists(st.tuples(st.integers(0, 60), st.integers(-5, 30), st.booleans()), max_size=40),
            st.integers(0, 4),
        ),
        st.tuples(
            st.just("build"),
            st.lists(
                st.lists(
                    st.tuples(st.integers(0, 200), st.integers(-5, 30), st.booleans(), st.booleans()),
                    unique_by=lambda row: row[0],
                    max_size=20,
                ),
                max_size=3,
            ),
        ),
        st.tuples(st.just("remove"), st.integers(0, 4)),
        st.tuples(st.just("expire"), st.sampled_from([1.0, 7.0]), st.booleans()),
        st.tuples(st.just("find")),
    ),
    max_size=25,
)


@pytest.mark.parametrize("collide", [False, True])
@pytest.mark.parametrize("kind", [1, 3, "text"])
@given(steps=STEPS)
@settings(max_examples=40, deadline=None)
def test_index_is_a_dict(kind: Any, collide: bool, steps: list[Any]) -> None:
    def keys_of(values: Sequence[int]) -> Keys:
        if kind == "text":
            return texts([str(v).encode() * (v % 300 + 1) for v in values], collide)
        return hashed(values, kind, collide)

    checked = CheckedKeyIndex(KeyIndex(3 if kind == "text" else kind), keys_of)
    for step in steps:
        if step[0] == "put":
            checked.put(step[1], step[2])
        elif step[0] == "build":
            checked.build(step[1], exact=not collide)
        elif step[0] == "remove":
            checked.remove_segment(step[1])
        elif step[0] == "expire":
            checked.remove_expired(step[1], deleted_only=step[2])
        checked.check()


@pytest.mark.parametrize("words", [1, 3])
def test_growth_and_return_of_memory(words: int) -> None:
    index, n = KeyIndex(words), 300_000
    rng = np.random.default_rng(5)
    order = rng.permutation(n)
    for start in range(0, n, 10_000):
        part = order[start : start + 10_000]
        rows = len(part)
        put = index.put(
            hashed(part, words), part[:, None].astype(np.int64), np.full(rows, -1, np.int8), np.zeros(rows, np.uint8), WINS,
            Rules(1, first_doc=start),
        )  # fmt: skip
        assert (put.status == NEW).all()
    assert len(index) == n
    locations, comparisons = index.find(hashed(np.arange(n), words))
    assert (comparisons[:, 0] == np.arange(n)).all()
    np.testing.assert_array_equal(locations & 0x7FFFFFFF, np.argsort(order))
    assert index.num_bytes / n < 60
    removed = index.remove_expired(Rules(-1, ttl=1000.0))
    assert len(index) == 1001
    assert len(removed) == n - 1001
    assert index.num_bytes < 4_000_000
    locations, _ = index.find(hashed(np.arange(n), words))
    assert ((locations >= 0) == (np.arange(n) >= n - 1001)).all()


@pytest.mark.parametrize("kind", [1, 3, "text"])
def test_keys_added_at_once_are_there_as_if_put_one_by_one(kind: Any) -> None:
    """So many that they are dealt out to ranges, beside keys that are there and entries that are free."""

    def keys_of(values: Sequence[int]) -> Keys:
        return texts([b"%d" % v for v in values]) if kind == "text" else hashed(values, kind)

    rng = np.random.default_rng(7)
    numbers = rng.permutation(70_000).tolist()
    checked = CheckedKeyIndex(KeyIndex(3 if kind == "text" else kind), keys_of)
    checked.put([(key, key % 50, key % 7 == 0) for key in numbers[:9_000]], 4)
    checked.put([(key, key % 50, False) for key in numbers[9_000:12_000]], 5)
    checked.remove_segment(5)
    new = [(key, key % 60, key % 5 == 0, key % 9 != 0) for key in numbers[12_000:]]
    again = (numbers[17], 99, False, True)
    assert not checked.build([new[:30_000], [*new[30_000:], again]], exact=True)
    checked.check()
    assert not checked.build([new[:30_000], [*new[30_000:], next(row for row in new if row[3])]], exact=True)
    checked.check()
    assert checked.build([new[:30_000], [], new[30_000:]], exact=True)
    checked.check()
    checked.put([(key, 100, False) for key in numbers[11_000:14_000]], 3)
    checked.remove_segment(2)
    checked.remove_expired(80, deleted_only=True)
    checked.check()


@pytest.mark.parametrize("is_float", [False, True])
def test_keys_added_at_once_leave_out_what_lies_beyond_the_ttl(is_float: bool) -> None:
    index, every = KeyIndex(1), np.full(1, 255, np.uint8)
    values = comparing.ordered(np.array([4.0, 5.0, 15.5, 15.0, 9.0])) if is_float else np.array([4, 5, 16, 15, 9])
    index.raise_watermark(int(values[3]))
    parts = [NewRows(0, np.arange(5, dtype=np.int32), hashed(range(5), 1), values[:, None], every, every)]
    assert index.build(parts, 5, ttl=10.0, is_float=is_float)
    assert index.find(hashed(range(5), 1))[0].tolist() == [-1, 1, 2, 3, 4]
    assert index.watermark == values[2]


def test_keys_added_at_once_that_have_no_room_at_the_end_of_the_directory() -> None:
    index, n, every = KeyIndex(1), 6000, np.full(750, 255, np.uint8)
    keys, docs = hashed(np.arange(n), 1, collide=True), np.arange(n, dtype=np.int32)
    assert not index.build([NewRows(0, docs, keys, np.zeros((n, 1), np.int64), every, every)], n)
    index.put(keys, np.zeros((n, 1), np.int64), np.full(n, -1, np.int8), np.zeros(n, np.uint8), WINS, Rules(0))
    np.testing.assert_array_equal(index.find(keys)[0], docs)


def test_keys_that_cannot_be_read_leave_the_index_as_it_was() -> None:
    index, every = KeyIndex(1), np.full(1, 255, np.uint8)

    def parts() -> Iterator[NewRows]:
        yield NewRows(0, np.arange(5, dtype=np.int32), hashed(range(5), 1), np.ones((5, 1), np.int64), every, every)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        index.build(parts(), 10)
    assert len(index) == 0
    assert index.watermark == ABSENT
    assert (index.find(hashed(range(5), 1))[0] == -1).all()


def test_many_keys_of_one_hash_are_no_error() -> None:
    index = KeyIndex(3)
    n = 9000
    keys = hashed(np.arange(n), 3, collide=True)
    put = index.put(keys, np.zeros((n, 1), np.int64), np.full(n, -1, np.int8), np.zeros(n, np.uint8), WINS, Rules(0))
    assert (put.status == NEW).all()
    assert len(index) == n
    np.testing.assert_array_equal(index.find(keys)[0], np.arange(n))


@pytest.mark.parametrize("words", [1, 3])
@pytest.mark.parametrize("step", [1, 2, 7])
def test_keys_put_while_the_directory_moves_are_found(monkeypatch: pytest.MonkeyPatch, words: int, step: int) -> None:
    """A new key in an empty slot that a move has passed over would be lost."""
    monkeypatch.setattr(key_index, "_MOVED_PER_ROW", step)
    monkeypatch.setattr(key_index, "_MOVED_MIN", step)
    n, wins = 6000, np.ones(1, np.uint8)
    index, keys = KeyIndex(words), hashed(np.random.default_rng(step).integers(0, 2**60, n), words)
    for i in range(n):
        one = (np.zeros((1, 1), np.int64), np.full(1, -1, np.int8), np.zeros(1, np.uint8), wins, Rules(0, i))
        assert index.put(keys.part(i, i + 1), *one).status[0] == NEW
    np.testing.assert_array_equal(index.find(keys)[0], np.arange(n))
    assert len(index) == len(index.items()[0]) == n


def test_several_comparison_values() -> None:
    index = KeyIndex(1, 2)

    def put(first: int, second: int, chosen: int) -> tuple[int, list[int]]:
        values = np.array([[first, second]], np.int64)
        found = index.put(
            hashed([7], 1), values, np.array([chosen], np.int8), np.zeros(1, np.uint8), WINS, Rules(0, first_doc=3)
        )
        return int(found.status[0]), values[0].tolist()

    assert put(94, ABSENT, 0) == (NEW, [94, ABSENT])
    assert put(97, ABSENT, 0) == (REPLACED, [97, ABSENT])
    assert put(96, ABSENT, 0)[0] == LATE
    assert put(ABSENT, 95, 1) == (REPLACED, [97, 95])
    assert put(ABSENT, 92, 1)[0] == LATE
    assert put(ABSENT, 98, 1) == (REPLACED, [97, 98])
    assert put(97, 97, -1)[0] == LATE
    assert put(97, 98, -1)[0] == REPLACED


def test_moved_rows_stay_deleted() -> None:
    index = KeyIndex(3)
    keys = hashed([1, 2, 3], 3)
    deletes = np.array([0, 1, 0], np.uint8)
    index.put(keys, np.zeros((3, 1), np.int64), np.full(3, -1, np.int8), deletes, WINS, Rules(2))
    moved = index.move(keys, (2 << 32) | np.array([0, 1, 5]), (4 << 32) | np.array([10, 11, 12]))
    assert moved.tolist() == [True, True, False]
    assert index.find(keys)[0].tolist() == [4 << 32 | 10, 4 << 32 | 11 | DELETED_BIT, 2 << 32 | 2]


FIELDS = {
    "l": {"name": "l", "dataType": "LONG"},
    "i": {"name": "i", "dataType": "INT"},
    "b": {"name": "b", "dataType": "BOOLEAN"},
    "d": {"name": "d", "dataType": "DOUBLE"},
    "s": {"name": "s", "dataType": "STRING"},
    "t": {"name": "t", "dataType": "STRING"},
    "u": {"name": "u", "dataType": "UUID"},
    "n": {"name": "n", "dataType": "BIG_DECIMAL"},
}
VALUES: dict[str, list[Any]] = {
    "l": [0, -1, 2**62, 5],
    "i": [1, 2, -3, 1],
    "b": [True, False, True, True],
    "d": [0.5, -0.0, 0.0, 1e300],
    "s": ["", "a", "a" * 300, "ü"],
    "t": ["x", "", "ax", "a"],
    "u": [bytes(16), b"a" * 16, b"a" * 15 + b"b", b"z" * 16],
    "n": ["1.0", "1.00", "-7", "0"],
}


@pytest.mark.parametrize("function", ["NONE", "MD5", "MURMUR3", "UUID", "XXHASH", "XXH128"])
@pytest.mark.parametrize("columns", ["l", "i", "b", "d", "s", "u", "n", "li", "lu", "st", "si", "ds", "bi", "un", "lis"])
def test_keys_are_equal_where_rows_are(columns: str, function: str) -> None:
    schema = Schema.from_json(
        {"schemaName": "t", "dimensionFieldSpecs": [FIELDS[c] for c in columns], "primaryKeyColumns": list(columns)}
    ).value
    from gamay.functions.arrow import arrow_type

    rng = np.random.default_rng(3)
    picks = rng.integers(0, 4, (200, len(columns)))
    rows = [tuple(VALUES[c][p] for c, p in zip(columns, row, strict=True)) for row in picks]
    batch = pa.RecordBatch.from_arrays(
        [pa.array([r[k] for r in rows], arrow_type(schema.field(c).data_type)) for k, c in enumerate(columns)],
        names=list(columns),
    )
    encoder = KeyEncoder.of(schema, function)
    index = KeyIndex(encoder.words)
    keys = encoder.of_batch(batch)
    n = len(rows)
    put = index.put(keys, np.zeros((n, 1), np.int64), np.full(n, -1, np.int8), np.zeros(n, np.uint8), WINS, Rules(0))
    seen: set[Any] = set()
    for row, status in zip(rows, put.status, strict=True):
        identity = tuple(np.float64(v).tobytes() if isinstance(v, float) else v for v in row)
        assert (status == NEW) == (identity not in seen), row
        seen.add(identity)
    some = np.array([5, 3, 190])
    np.testing.assert_array_equal(index.find(keys.at(some))[0], index.find(encoder.of_batch(batch.take(pa.array(some))))[0])


def test_known_hashes() -> None:
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [FIELDS["s"]], "primaryKeyColumns": ["s"]}).value
    from gamay.kernels.keys.key_bytes import md5

    words = [b"", b"a", b"message digest", b"x" * 55, b"x" * 56, b"x" * 64, b"y" * 1000]
    data, offsets = np.frombuffer(b"".join(words), np.uint8), np.cumsum([0, *map(len, words)])
    for form in {md5, getattr(md5, "py_func", md5)}:
        low, high = np.empty(len(words), np.uint64), np.empty(len(words), np.uint64)
        form(data, offsets, low, high)
        for word, first, second in zip(words, low, high, strict=True):
            assert int(first).to_bytes(8, "little") + int(second).to_bytes(8, "little") == hashlib.md5(word).digest()
    assert KeyEncoder.of(schema, "MD5").words == 3


def test_uuids_in_any_spelling_are_one_key() -> None:
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [FIELDS["s"]], "primaryKeyColumns": ["s"]}).value
    one = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
    spellings = [str(one), str(one).upper(), "112233-4455-6677-8899-aabbccddeeff"]
    others = [
        "00112233-4455-6677-8899-aabbccddeef0",
        "00112233445566778899aabbccddeeff",
        "",
        "-----",
        "g-1-1-1-1",
        "1-1-1-1-1",
    ]
    encoder = KeyEncoder.of(schema, "UUID")
    keys = encoder.of_batch(pa.RecordBatch.from_arrays([pa.array([*spellings, *others])], names=["s"]))
    n = len(keys)
    index = KeyIndex(3)
    put = index.put(keys, np.zeros((n, 1), np.int64), np.full(n, -1, np.int8), np.zeros(n, np.uint8), WINS, Rules(0))
    assert put.status.tolist() == [NEW, REPLACED, REPLACED, *[NEW] * len(others)]


@pytest.mark.parametrize(("function", "columns", "most"), [("MURMUR3", "s", 40), ("NONE", "l", 32), ("NONE", "s", 57)])
def test_estimate_is_what_keys_take(function: str, columns: str, most: int) -> None:
    schema = Schema.from_json(
        {
            "schemaName": "t",
            "dimensionFieldSpecs": [FIELDS["l"] | {"name": "at"}, *(FIELDS[c] for c in columns)],
            "primaryKeyColumns": list(columns),
        }
    ).value
    document = {
        "tableName": "t", "tableType": "REALTIME", "segmentsConfig": {"timeColumnName": "at"}, "tenants": {},
        "tableIndexConfig": {}, "upsertConfig": {"hashFunction": function},
    }  # fmt: skip
    found = estimate(schema, TableConfig.from_json(document).value, 1000, 16)
    assert found is not None
    assert found.entry_bytes + found.key_bytes < most
    assert estimate(schema, TableConfig.from_json({**document, "upsertConfig": None}).value, 1, 1) is None


@pytest.mark.parametrize("oldest", [ABSENT, ABSENT + 1, -1])
def test_keys_expire_however_far_below_they_lie(oldest: int) -> None:
    watermark = 2**62
    index = KeyIndex(1)
    values = np.array([[oldest], [watermark - 10], [watermark - 11], [watermark]])
    index.put(hashed(range(4), 1), values, np.full(4, -1, np.int8), np.zeros(4, np.uint8), WINS, Rules(0))
    rules = Rules(-1, ttl=10.0)
    expired = comparing.beyond(values[:, 0], watermark, 10.0, is_float=False)
    assert expired.tolist() == [True, False, True, False]
    assert sorted(index.remove_expired(rules)) == [0, 2]
    assert len(index) == 2
