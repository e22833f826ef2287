"""SUM, AVG, MIN and MAX of a column and a constant, computed from those of the column, equal those over rows."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gamay
from gamay.base.errors import ErrorCode, QueryError
from gamay.embedded import Database

COLUMNS: dict[str, pa.DataType] = {"i": pa.int32(), "l": pa.int64(), "f": pa.float32(), "d": pa.float64()}
ROWS = 60
INFINITE = {"min": math.inf, "max": -math.inf, "avg": -math.inf, "sum": 0.0}
FOLD: dict[str, Callable[[Sequence[float]], float]] = {
    "sum": math.fsum,
    "min": min,
    "max": max,
    "avg": lambda values: math.fsum(values) / len(values),
}
STEP: dict[str, Callable[[float, float], float]] = {
    "{c} + {k}": lambda c, k: c + k,
    "{k} + {c}": lambda c, k: k + c,
    "{c} - {k}": lambda c, k: c - k,
    "{k} - {c}": lambda c, k: k - c,
    "{c} * {k}": lambda c, k: c * k,
    "{k} * {c}": lambda c, k: k * c,
    "add({c}, {k})": lambda c, k: c + k,
    "sub({k}, {c})": lambda c, k: k - c,
}
CONSTANTS = ("1", "0", "-3", "2.5", "-0.5", "0.0", "1700000000000000", "9223372036854775807")


def value(name: str, row: int) -> float | None:
    if row % 7 == 3:
        return None
    number = (row * 37) % 101 - 50
    return number / 8 if name in ("f", "d") else number * (1 << 20 if name == "l" else 1)


def rows(start: int, stop: int) -> pa.Table:
    numbers = {name: pa.array([value(name, row) for row in range(start, stop)], kind) for name, kind in COLUMNS.items()}
    grouped = {"g": [row % 3 for row in range(start, stop)], "mv": [[row, row + 1] for row in range(start, stop)]}
    return pa.table({**numbers, **grouped, "s": [str(row) for row in range(start, stop)]})


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    fields = [
        {"name": name, "dataType": kind} for name, kind in zip(COLUMNS, ("INT", "LONG", "FLOAT", "DOUBLE"), strict=True)
    ]
    schema = {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "g", "dataType": "INT"},
            {"name": "mv", "dataType": "INT", "singleValueField": False},
            {"name": "s", "dataType": "STRING"},
        ],
        "metricFieldSpecs": fields,
        "enableColumnBasedNullHandling": True,
    }
    with gamay.connect(tmp_path_factory.mktemp("linear") / "data") as database:
        database.settings.null_handling = False
        indexing = {"nullHandlingEnabled": True, "noDictionaryColumns": ["l", "f"]}
        database.create_table("t", rows(0, 40), schema=schema, config={"tableIndexConfig": indexing})
        database.append("t", rows(40, ROWS))
        yield database


def expected(aggregate: str, numbers: Sequence[float | None], nulls: bool, step: Callable[[float], float]) -> float | None:
    """Compute an aggregate row by row; metrics that are missing are 0 unless nulls are nulls."""
    known = [0.0 if number is None else number for number in numbers if number is not None or not nulls]
    if not known:
        return None if nulls else INFINITE[aggregate]
    return FOLD[aggregate]([step(number) for number in known])


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(list(FOLD)),
    st.sampled_from(list(COLUMNS)),
    st.sampled_from(list(STEP)),
    st.sampled_from(CONSTANTS),
    st.booleans(),
    st.sampled_from(("", " WHERE g = 99", " GROUP BY g ORDER BY g", " WHERE i IS NULL")),
)
def test_as_row_by_row(db: Database, aggregate: str, column: str, form: str, constant: str, nulls: bool, rest: str) -> None:
    argument = form.format(c=column, k=constant)
    call = f"{aggregate}({argument})"
    found = db.sql(
        f"SELECT {call}, {call} AS x, {call} FILTER (WHERE true), {aggregate}(({argument}) + 0 * i) FROM t{rest}",
        enableNullHandling=str(nulls).lower(),
    )
    kept = [row for row in range(ROWS) if rest != " WHERE g = 99" and (rest != " WHERE i IS NULL" or row % 7 == 3)]
    groups = [[row for row in kept if row % 3 == g] for g in range(3)] if "GROUP" in rest else [kept]
    step = STEP[form]
    wanted = [
        expected(aggregate, [value(column, row) for row in group], nulls, lambda c: step(c, float(constant)))
        for group in groups
    ]
    assert found.types == ("DOUBLE",) * 4
    for row, number in zip(found.rows(), wanted, strict=True):
        assert row == (None,) * 4 if number is None else row == pytest.approx((number,) * 4, rel=1e-9, abs=1e-9)


def names(db: Database, select: str, **options: Any) -> tuple[str, ...]:
    return db.sql(f"SELECT {select} FROM t", **options).columns


def test_names_count_rows_or_values(db: Database) -> None:
    assert names(db, "sum(i + 1), max(1 - i), sum(add(i, l)), COUNT(i)") == (
        "add(sum(i),mult('1',count(*)))",
        "sub('1',min(i))",
        "sum(add(i,l))",
        "count(*)",
    )
    assert names(db, "sum(2 - i), add(count(i), 1)", enableNullHandling="true") == (
        "sub(mult('2',count(i)),sum(i))",
        "add(count(i),'1')",
    )
    assert names(db, "add(count(i), 1)") == ("add(count(*),'1')",)


def test_whole_numbers_stay_whole_where_types_are_kept(db: Database) -> None:
    found = db.sql("SELECT sum(l + 1), min(l * -2), max(i + 1), sum(l + 1) AS x FROM t", autoRewriteAggregationType="true")
    numbers = [int(value("l", row) or 0) for row in range(ROWS)]
    assert found.columns == ("add(sumlong(l),mult('1',count(*)))", "mult(maxlong(l),'-2')", "add(max(i),'1')", "x")
    assert found.types == ("LONG", "LONG", "DOUBLE", "DOUBLE")
    total = sum(numbers) + ROWS
    assert found.rows() == [(total, -2 * max(numbers), 51.0, float(total))]


def test_columns_are_read_once_for_many_constants(db: Database) -> None:
    select = "sum(l), sum(l + 1), sum(l - 2) AS x, min(3 - l), avg(1 - l), sum(2 * l)"
    plan = [row[0] for row in db.sql(f"EXPLAIN PLAN FOR SELECT {select} FROM t WHERE i > 5").rows()]
    after = "add(sum(l),mult('1',count(*))), sub(sum(l),mult('2',count(l))), sub('3',max(l)), sum(times('2',l))"
    assert plan[0] == f"BROKER_REDUCE(limit:10,postAggregations:{after})"
    assert any("(aggregations:sum(l), count(*), max(l), avg(minus('1',l)))" in line for line in plan), plan


def test_texts_are_read_as_numbers_and_lists_have_no_sum_with_a_constant(db: Database) -> None:
    assert db.sql("SELECT sum(s + 1) FROM t").rows() == [(ROWS * (ROWS + 1) / 2,)]
    with pytest.raises(QueryError) as raised:
        db.sql("SELECT sum(mv + 1) FROM t")
    assert raised.value.code is ErrorCode.QUERY_VALIDATION
