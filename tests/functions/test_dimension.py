"""Keys of dimension tables of every type, against a dict."""

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from gamay.base.errors import QueryError
from gamay.functions import dimension
from gamay.functions.convert import array_of
from gamay.functions.dimension import DimensionTable, KeyColumn
from gamay.functions.vector import EncodedVector, Vector, sorted_distinct
from gamay.kernels.hash.int_hash import fill_places
from gamay.model.types import DataType

POOLS: dict[DataType, list[Any]] = {
    DataType.INT: [-(2**31), -1, 0, 1, 7, 2**31 - 1],
    DataType.LONG: [-(2**63), -(2**40), -1, 0, 1, 2**53 + 1, 2**63 - 1],
    DataType.TIMESTAMP: [0, 1, 1_700_000_000_000],
    DataType.BOOLEAN: [False, True],
    DataType.FLOAT: [-1.5, 0.0, 0.25, float("inf")],
    DataType.DOUBLE: [-1e300, -1.5, 0.0, 0.1, float("-inf")],
    DataType.BIG_DECIMAL: [Decimal("1.5"), Decimal("-7"), Decimal("12345678901234567890.5")],
    DataType.STRING: ["", "a", "b", "null", "łódź", "a" * 300],
    DataType.JSON: ["{}", "[1]"],
    DataType.BYTES: [b"", b"\x00", b"\x00\x01", b"abc"],
    DataType.UUID: [bytes(16), bytes(range(16))],
}


def column(values: list[Any], data_type: DataType) -> Vector:
    return Vector(data_type, array_of(values, data_type))


def table(types: list[DataType], rows: list[tuple[Any, ...]], *, unique: bool = False) -> DimensionTable:
    keys = [KeyColumn(f"k{i}", column([row[i] for row in rows], data_type)) for i, data_type in enumerate(types)]
    numbers = Vector(DataType.INT, np.arange(len(rows) + 1, dtype=np.int32))
    return DimensionTable("d", keys, lambda _: numbers, unique=unique)


@pytest.mark.parametrize("seed", range(40))
def test_rows_are_those_of_a_dict(seed: int) -> None:
    rng = random.Random(seed)
    types = rng.choices(list(POOLS), k=rng.randint(1, 3))
    some = [tuple(rng.choice(POOLS[t][: rng.randint(1, 9)]) for t in types) for _ in range(rng.randrange(30))]
    asked = [tuple(rng.choice(POOLS[t]) for t in types) for _ in range(60)]
    rows = {key: row for row, key in enumerate(some)}
    found = table(types, some).rows([column([key[i] for key in asked], t) for i, t in enumerate(types)], 60)
    assert found.tolist() == [rows.get(key, len(some)) for key in asked]


def test_numbers_are_compared_by_value() -> None:
    whole = table([DataType.INT], [(1,), (2,), (0,)])
    assert whole.rows([column([1.0, 1.5, 1e300, float("nan"), -0.0], DataType.DOUBLE)], 5).tolist() == [0, 3, 3, 3, 2]
    assert whole.rows([column([2**40, 2**32 + 1, 2], DataType.LONG)], 3).tolist() == [3, 3, 1]
    assert whole.rows([column([Decimal(2), Decimal("1.5"), Decimal(2**70)], DataType.BIG_DECIMAL)], 3).tolist() == [1, 3, 3]
    assert whole.rows([column(["2", "9"], DataType.STRING)], 2).tolist() == [1, 3]
    with pytest.raises(QueryError, match="cannot be read as INT"):
        whole.rows([column(["two"], DataType.STRING)], 1)
    doubles = table([DataType.DOUBLE], [(1.0,), (0.0,)])
    assert doubles.rows([column([1, 0, 5], DataType.LONG)], 3).tolist() == [0, 1, 2]
    assert doubles.rows([column([-0.0], DataType.DOUBLE)], 1).tolist() == [1]
    texts = table([DataType.STRING], [("1",)])
    assert texts.rows([column([1, 2], DataType.INT)], 2).tolist() == [0, 1]


def test_texts_whose_hashes_meet_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def lengths(_: Any, offsets: Any, __: int, out: Any) -> None:
        out[:] = np.diff(offsets)

    monkeypatch.setattr(dimension, "murmur64a", lengths)
    alone = table([DataType.STRING], [("ab",), ("c",)])
    assert alone.rows([column(["xy", "ab", "c"], DataType.STRING)], 3).tolist() == [2, 0, 1]
    meeting = table([DataType.STRING], [("ab",), ("cd",), ("ab",)])
    assert meeting.rows([column(["xy", "ab", "cd"], DataType.STRING)], 3).tolist() == [3, 2, 1]


@pytest.mark.parametrize("types", [["INT"], ["STRING"], ["BIG_DECIMAL"], ["INT", "STRING"]])
def test_repeated_keys_may_be_errors(types: list[str]) -> None:
    kinds = [DataType(name) for name in types]
    first, second = (tuple(POOLS[kind][i] for kind in kinds) for i in (0, 1))
    wanted = [column([value], kind) for value, kind in zip(second, kinds, strict=True)]
    assert table(kinds, [first, second], unique=True).rows(wanted, 1).tolist() == [1]
    with pytest.raises(QueryError, match="more than one row of the primary key k0 = "):
        table(kinds, [first, second, first], unique=True)


def test_columns_of_texts_are_encoded() -> None:
    entries, ids = sorted_distinct(column(["b", "a", "b"], DataType.STRING))
    keys = [KeyColumn("k", column([1, 2], DataType.INT))]
    made = DimensionTable("d", keys, lambda _: column(["b", "a", "b"], DataType.STRING)).column("c")
    assert isinstance(made, EncodedVector)
    assert made.dictionary.values.equals(entries)
    assert made.ids.tolist() == ids.tolist()


@pytest.mark.parametrize(
    "keys", [np.arange(1000.0).view(np.int64), np.arange(1000) << 40, np.arange(1000) * 86_400_000, np.arange(1000)]
)
def test_keys_spread_over_the_slots(keys: Any) -> None:
    """Keys that differ in few bits, such as integral doubles or days in milliseconds, must not share few slots."""
    slots = np.full(4096, -1, np.int32)
    assert fill_places(keys, slots) == -1
    longest = max(len(run) for run in "".join("x" if slot >= 0 else " " for slot in slots).split())
    assert longest < 64
