"""Keys computed from dictionary columns, on a segment read through the real reader."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gamay.functions.evaluate import evaluate
from gamay.functions.expression import Call, Column, Expression, Literal, column_names
from gamay.functions.vector import EncodedVector, Operand, Vector
from gamay.model.types import DataType
from gamay.query.groupby.numbering import (
    DirectNumbering,
    HashedNumbering,
    LookupNumbering,
    Numbering,
    SingleNumbering,
)
from gamay.query.groupby.recode import coded_key
from gamay.query.groupby.segment import group_segment
from gamay.query.groupby.table import key_values
from gamay.query.pool import WorkPool
from gamay.query.view.matches import AllDocs, Block

NUMBERS = np.array([-3, 0, 1, 2, 5, 8], np.int32)
TEXTS = pa.array(["", "A", "a", "b", "é"])
ROWS = 300
_RNG = np.random.default_rng(2)
COLUMNS: dict[str, EncodedVector] = {
    "n": EncodedVector(_RNG.integers(0, 6, ROWS).astype(np.uint8), Vector(DataType.INT, NUMBERS)),
    "t": EncodedVector(_RNG.integers(0, 5, ROWS).astype(np.uint8), Vector(DataType.STRING, TEXTS)),
}


def reader(block: Block) -> Any:
    docs = np.arange(block.start, block.stop) if isinstance(block, AllDocs) else block.docs()

    def column(name: str) -> Operand:
        return EncodedVector(COLUMNS[name].ids[docs], COLUMNS[name].dictionary)

    return lambda expression: evaluate(expression, column, len(docs))


def python(column: Operand) -> list[Any]:
    assert isinstance(column, Vector | EncodedVector)
    vector = column.decode() if isinstance(column, EncodedVector) else column
    return list(vector.values.to_pylist() if isinstance(vector.values, pa.Array) else vector.values.tolist())


def integer(value: int) -> Literal:
    return Literal(value, DataType.INT)


COMPUTED: list[Expression] = [
    Call("abs", (Column("n"),)),
    Call("times", (Column("n"), Column("n"))),
    Call("mod", (Column("n"), integer(2))),
    Call("greaterthan", (Column("n"), integer(1))),
    Call("upper", (Column("t"),)),
    Call("length", (Column("t"),)),
]


@pytest.mark.parametrize("key", COMPUTED)
def test_computed_keys_become_codes_of_a_sorted_dictionary(key: Expression) -> None:
    coded = coded_key(key, reader(AllDocs(0, 0)), ROWS)
    assert coded is not None
    values = python(coded.dictionary)
    assert values == sorted(set(values))
    operand = reader(AllDocs(0, ROWS))
    expected = operand(key)
    assert [values[code] for code in coded.of(operand(coded.column))] == python(expected)


@pytest.mark.parametrize("key", COMPUTED)
def test_groups_of_computed_keys(key: Expression) -> None:
    with WorkPool(2) as pool:
        table = group_segment([key, Column("t")], [], AllDocs(0, ROWS), reader, pool)
    everything = reader(AllDocs(0, ROWS))
    column = COLUMNS["t"].decode()
    expected = set(zip(python(everything(key)), python(column), strict=True))
    got = list(zip(*map(python, key_values(table)), strict=True))
    assert len(got) == len(expected)
    assert set(got) == expected


def test_what_is_not_computed_through_a_dictionary() -> None:
    probe = reader(AllDocs(0, 0))
    assert coded_key(Call("plus", (Column("n"), Column("t"))), probe, ROWS) is None
    assert coded_key(integer(1), probe, ROWS) is None
    assert coded_key(COMPUTED[0], probe, rows=3) is None
    # an entry that fails need not belong to a matching row
    assert coded_key(Call("cast", (Column("t"), Literal("INT", DataType.STRING))), probe, ROWS) is None
    assert column_names(COMPUTED[1]) == ("n",)


@pytest.mark.parametrize(
    "make",
    [
        lambda: DirectNumbering([4, 5, 6]),
        lambda: LookupNumbering([4, 5, 6], 1000),
        lambda: HashedNumbering([4, 5, 6], 1000),
        lambda: HashedNumbering([4, None, 6], 1000),
        lambda: HashedNumbering([1 << 40, 1 << 40, None], 1000),
    ],
)
def test_numberings_give_the_codes_back(make: Any) -> None:
    numbering: Numbering = make()
    rng = np.random.default_rng(1)
    codes = [rng.integers(0, high, 500).astype(np.uint8) for high in (4, 5, 6)]
    groups = np.concatenate([numbering.number([c[:200] for c in codes]), numbering.number([c[200:] for c in codes])])
    assert groups.max() < numbering.num_groups
    for given, back in zip(codes, numbering.codes(groups.astype(np.int64)), strict=True):
        np.testing.assert_array_equal(given, back)
    distinct = set(zip(*codes, strict=True))
    assert len(np.unique(groups)) == len(distinct)
    assert not numbering.dropped


def test_a_single_key_grows_its_table() -> None:
    numbering = SingleNumbering(3)
    assert numbering.number([np.array([9000, 5, 9000], np.int32)]).tolist() == [0, 1, 0]
    assert numbering.number([np.array([70_000, 5, 8, 9], np.int32)]).tolist() == [2, 1, 3, 3]
    assert (numbering.num_groups, numbering.dropped) == (3, True)
    assert numbering.codes(np.arange(3))[0].tolist() == [9000, 5, 70_000]
    assert numbering.number([np.empty(0, np.int32)]).tolist() == []
