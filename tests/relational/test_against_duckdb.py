"""Queries of several tables and SELECTs give the rows that DuckDB gives."""

import random
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest
from tests.relational.conftest import Twins
from tests.relational.generator import Generator
from tests.relational.wide_generator import WideGenerator
from tests.seeds import by_first, chunks, count_of


def _queries() -> list[tuple[str, str]]:
    """Return the queries of `queries.sql`, each with its equivalent for DuckDB."""
    found: list[tuple[str, str]] = []
    for line in (Path(__file__).parent / "queries.sql").read_text().splitlines():
        if line.startswith("==> "):
            found[-1] = found[-1][0], line.removeprefix("==> ")
        elif line and not line.startswith("--"):
            found.append((line, line))
    return found


@pytest.mark.parametrize(("sql", "duck_sql"), _queries())
def test_rows_are_those_of_duckdb(twins: Twins, sql: str, duck_sql: str) -> None:
    twins.check(sql, duck_sql)


@pytest.mark.parametrize("numbers", chunks(count_of("GAMAY_RELATIONAL_QUERIES", 400), 50), ids=by_first)
def test_generated_queries(twins: Twins, numbers: range) -> None:
    for number in numbers:
        twins.check(Generator(random.Random(number)).query())


@pytest.mark.parametrize("numbers", chunks(count_of("GAMAY_RELATIONAL_QUERIES", 400), 50), ids=by_first)
def test_nested_queries(twins: Twins, numbers: range) -> None:
    for number in numbers:
        with suppress(duckdb.BinderException):  # DuckDB has no plan for some LATERAL joins
            twins.check(WideGenerator(random.Random(number)).query())


@pytest.mark.parametrize("kind", ["", "NOT "])
def test_long_lists_of_constants(twins: Twins, kind: str) -> None:
    joined = "FROM sales a LEFT JOIN shops b ON a.shop = b.shop"
    numbers = ", ".join(map(str, range(0, 1200, 2)))
    twins.check(
        f"SELECT a.id, b.area {joined} WHERE a.qty + b.area {kind}IN ({numbers}, NULL) OR a.item {kind}IN ({numbers})"
    )
    twins.check(f"SELECT a.id, a.qty + b.area {kind}IN ({numbers}) AS held {joined} AND b.area - a.qty {kind}IN ({numbers})")
    texts = [f"'{number}'" for number in range(300)]
    for ends in (["'s1Lyon'", "'it''s'", "''"], ["'s1Lyon'", "'\x1f'"]):
        listed = ", ".join(texts + ends)
        twins.check(f"SELECT a.id {joined} WHERE (a.shop || b.city) {kind}IN ({listed})")
