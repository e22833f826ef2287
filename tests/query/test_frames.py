"""Columns in frame of reference give the same answers as the plain values."""

import numpy as np
import pyarrow as pa
import pytest

import gamay
from gamay.functions.frame import Frame, FramedVector
from gamay.model.types import DataType
from gamay.query.buffers.columns import from_arrays, to_arrays
from gamay.query.limits.memory_size import held_bytes

ROWS = 50_000
COLUMNS = ("price", "rate", "whole", "small", "odd")
AGGREGATES = "COUNT(*), SUM({0}), MIN({0}), MAX({0}), AVG({0}), MINMAXRANGE({0}), DISTINCTCOUNT({0})"
QUERIES = (
    f"SELECT {AGGREGATES} FROM {{1}}",
    f"SELECT {AGGREGATES} FROM {{1}} WHERE key < 40",
    f"SELECT {AGGREGATES} FROM {{1}} WHERE key = 3",
    f"SELECT key, {AGGREGATES} FROM {{1}} GROUP BY key ORDER BY key LIMIT 100",
    f"SELECT key, {AGGREGATES} FROM {{1}} WHERE key < 40 GROUP BY key ORDER BY key LIMIT 100",
    "SELECT SUM({0}) FROM {1} WHERE key < 40",
    "SELECT SUM({0} * 2 + 1), MAX({0} / 3), SUM({0} * key) FROM {1} WHERE {0} > 100",
    "SELECT key, SUM({0} * (1 - key)), AVG({0}) FROM {1} GROUP BY key ORDER BY key LIMIT 100",
    "SELECT COUNT(*) FROM {1} WHERE {0} + key > 200",
    "SELECT {0}, key FROM {1} WHERE {0} BETWEEN 99.5 AND 101 ORDER BY {0}, key LIMIT 50",
    "SELECT {0}, key FROM {1} ORDER BY {0} DESC, key LIMIT 20",
    "SELECT {0}, COUNT(*) FROM {1} GROUP BY {0} ORDER BY 2 DESC, 1 LIMIT 20",
    "SELECT DISTINCT {0} FROM {1} ORDER BY {0} LIMIT 20",
    "SELECT SUM(key) FROM {1} WHERE NOT {0} < 120 OR {0} = 7",
    "SELECT COUNT(*), SUM(key) FROM {1} WHERE {0} IN (1, 2.5, 77, 120)",
    "SELECT COUNT(*) FROM {1} WHERE {0} <> 7 AND {0} > -1e30",
    "SELECT SUM({0}) FILTER (WHERE key < 7), COUNT({0}) FROM {1}",
)


@pytest.fixture(scope="module")
def db():
    rng = np.random.default_rng(3)
    odd = rng.integers(0, 200, ROWS) / 4
    odd[::997] = np.inf
    odd[5::1999] = 1 / 3
    rows = {
        "key": rng.integers(0, 60, ROWS),
        "price": rng.integers(0, 20_000_000, ROWS) / 100,  # as who reads a text does
        "rate": rng.integers(-30_000, 30_000, ROWS) * 0.01,  # as who converts a decimal does
        "whole": rng.integers(-5, 1 << 30, ROWS) % 1000 + (1 << 40) * (rng.integers(0, 9, ROWS) == 0),
        "small": rng.integers(-100, 155, ROWS).astype(np.int32),
        "odd": odd,
    }
    with gamay.connect(":memory:") as made:
        for name, codec in (("framed", {}), ("plain", {"noDictionaryConfig": dict.fromkeys(COLUMNS, "PASS_THROUGH")})):
            config = {"tableIndexConfig": {"noDictionaryColumns": list(COLUMNS), **codec}}
            made.create_table(name, pa.table(rows), config=config)
        yield made


def close(one, other):
    """Whether two values are equal, but for the last digits of sums of doubles."""
    return one == other or (isinstance(one, float) and np.isclose(one, other, rtol=1e-12, atol=0, equal_nan=True))


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("column", COLUMNS)
def test_answers_are_those_of_plain_values(db, column, query):
    found, expected = (db.sql(query.format(column, table)).rows() for table in ("framed", "plain"))
    assert len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        assert all(map(close, row, other)), (row, other)


@pytest.mark.parametrize("seed", range(20))
def test_conditions_mark_the_rows_that_they_mark_of_plain_values(db, seed):
    rng = np.random.default_rng(seed)
    column = COLUMNS[seed % len(COLUMNS)]
    values = [row[0] for row in db.sql(f"SELECT {column} FROM plain LIMIT 200").rows()]
    for _ in range(5):
        low, high = sorted(rng.choice(values, 2).tolist())
        low, high = (value if np.isfinite(value) else 3 for value in (low, high))
        first, second = rng.choice([">", ">=", "<", "<=", "=", "<>"], 2).tolist()
        condition = f"{column} {first} {low!r} {rng.choice(['AND', 'OR'])} {column} {second} {high!r}"
        answers = [
            db.sql(f"SELECT COUNT(*), SUM(key) FROM {table} WHERE {condition}").rows() for table in ("framed", "plain")
        ]
        assert answers[0] == answers[1], condition
        kept = [db.sql(f"SELECT COUNT(*) FROM {t} WHERE key = 3 AND ({condition})").rows() for t in ("framed", "plain")]
        assert kept[0] == kept[1], condition


def test_a_frame_travels_as_its_values():
    framed = FramedVector(Frame(DataType.DOUBLE, np.array([3, 0, 255], np.uint8), np.empty(0, np.uint8), -7, 1, True))
    arrays = []
    found = from_arrays(to_arrays(framed, arrays), arrays)
    assert found.type is DataType.DOUBLE
    assert found.values.tolist() == [-0.4, -0.7, 24.8]


def test_measuring_what_a_query_holds_decodes_nothing() -> None:
    framed = FramedVector(Frame(DataType.LONG, np.arange(1000, dtype=np.uint16), np.empty(0, np.uint8), 7))
    assert held_bytes(framed) == 2000
    assert len(framed.values) == 1000
    assert held_bytes(framed) == 2000 + 8000
