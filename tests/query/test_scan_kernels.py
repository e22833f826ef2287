"""Scans in buffers and with vector instructions, against plain NumPy and whole-column evaluation."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gamay
from gamay.kernels.rows.masks import choose_marked, replace_chosen_by
from gamay.kernels.times import hours_of_day, minutes_of_hour, quotients, seconds_of_minute


@pytest.mark.parametrize(
    ("field", "size", "count"), [(hours_of_day, 3_600_000, 24), (minutes_of_hour, 60_000, 60), (seconds_of_minute, 1000, 60)]
)
@pytest.mark.parametrize("highest", [2_000_000_000_000, 2**52 - 1, 2**63 - 1])
def test_fields_of_times_are_exact(field: Any, size: int, count: int, highest: int) -> None:
    times = np.random.default_rng(0).integers(-highest, highest, 5000)
    edges = times // size * size
    for some in (times, edges, edges - 1, np.array([-highest - 1, highest, 0, -1]), times[:0]):
        out = np.empty(len(some), np.int32)
        field(some, out)
        np.testing.assert_array_equal(out, some // size % count)


def test_choices_are_marked_in_place() -> None:
    rng = np.random.default_rng(1)
    marks, choice, values = rng.integers(0, 2, 999).astype(np.uint8), np.full(999, 7, np.uint8), rng.random(999)
    choose_marked(marks, np.uint8(3), choice)
    np.testing.assert_array_equal(choice, np.where(marks, 3, 7))
    out = np.zeros(999)
    replace_chosen_by(choice, 3, values, out)
    np.testing.assert_array_equal(out, np.where(marks, values, 0.0))


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Any:
    rng = np.random.default_rng(2)
    rows = 70_000  # more than a block of buffers
    prices = rng.integers(0, 1000, rows) / 8
    table = pa.table(
        {
            "i": pa.array(rng.integers(-50, 50, rows), mask=rng.random(rows) < 0.1),
            "j": rng.integers(0, 1 << 40, rows),
            "p": pa.array(prices, mask=rng.random(rows) < 0.02),
            "text": pa.array([f"text {number}" for number in range(rows)]),
        }
    )
    folder: Path = tmp_path_factory.mktemp("scans")
    with gamay.connect(folder, threads=2) as connection:
        connection.settings.null_handling = False
        config = {"tableIndexConfig": {"noDictionaryColumns": ["j", "text"], "nullHandlingEnabled": True}}
        connection.create_table("t", table, config=config)
        yield connection, table


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("i * p + j > 500000000000", lambda i, j, p: ~(i * p + j <= 5e11)),
        ("p - i * i * 2 <= 10", lambda i, j, p: p - i * i * 2 <= 10),
        ("20 < p + i", lambda i, j, p: ~(p + i <= 20)),
        ("i + j - p = 5", lambda i, j, p: i + j - p == 5),
        ("NOT i + p <> 7", lambda i, j, p: i + p == 7),
        ("i * p > 100 AND j + i > 1000", lambda i, j, p: ~(i * p <= 100) & (j + i > 1000)),
        ("i * p > 100 AND i = 3", lambda i, j, p: ~(i * p <= 100) & (i == 3)),
    ],
)
def test_arithmetic_in_conditions(database: Any, condition: str, expected: Any) -> None:
    connection, _ = database
    for handles_nulls in (False, True):
        stored = connection.sql(f"SET enableNullHandling = {handles_nulls}; SELECT i, j, p FROM t LIMIT 100000").to_arrow()
        i, j, p = (stored[name].fill_null(0).to_numpy().astype(np.float64) for name in "ijp")
        flags = expected(i, j, p) & ~stored["i"].is_null().to_numpy() & ~stored["p"].is_null().to_numpy()
        counted = connection.sql(
            f"SET enableNullHandling = {handles_nulls}; SELECT COUNT(*) FROM t WHERE {condition}"
        ).rows()
        assert counted == [(int(np.count_nonzero(flags)),)]


def test_raw_texts_are_read_in_blocks(database: Any) -> None:
    connection, table = database
    lengths = [len(text) for text in table["text"].to_pylist()]
    assert connection.sql("SELECT SUM(LENGTH(text)), COUNT(*) FROM t").rows() == [(float(sum(lengths)), len(lengths))]
    expected = sum(text.endswith("77") for text in table["text"].to_pylist())
    assert connection.sql("SELECT COUNT(*) FROM t WHERE text LIKE '%77'").rows() == [(expected,)]
    assert connection.sql("SELECT COUNT(*) FROM t WHERE LENGTH(text) > i + 3 AND REGEXP_LIKE(text, '7+7$')").rows() == [
        (
            sum(
                text.endswith("77") and len(text) > (i or 0) + 3
                for text, i in zip(table["text"].to_pylist(), table["i"].to_pylist(), strict=True)
            ),
        )
    ]


def test_a_sketch_of_marked_entries_is_the_sketch_of_the_rows(database: Any) -> None:
    connection, _ = database
    for aggregate in ("DISTINCTCOUNTHLL", "DISTINCTCOUNTHLLPLUS", "DISTINCTCOUNTULL"):
        for condition in ("j > 500000000000", "i = 3", "j < 0"):
            by_group = connection.sql(f"SELECT {aggregate}(p) FROM t WHERE {condition} GROUP BY LENGTH(text) > 0").rows()
            alone = connection.sql(f"SELECT {aggregate}(p) FROM t WHERE {condition}").rows()
            assert (by_group or [(0,)]) == alone


@pytest.mark.parametrize("size", [1, 7, 1000, 21_600_000, (1 << 52) - 1])
def test_quotients_are_those_of_whole_numbers(size: int) -> None:
    rng = np.random.default_rng(size)
    near = rng.integers(-9, 9, 200) * size + rng.integers(-1, 2, 200)  # where a quotient changes
    exact = rng.integers(-(1 << 52) + 1, 1 << 52, 200)
    for times in (near, exact, np.append(exact, [np.iinfo(np.int64).min, np.iinfo(np.int64).max])):
        out = np.empty(len(times), np.int64)
        quotients(times, size, out)
        assert out.tolist() == [abs(time) // size * (-1 if time < 0 else 1) for time in times.tolist()]
