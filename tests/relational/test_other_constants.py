"""A plan made for other constants equals the plan made for these."""

import random
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.relational.conftest import Twins
from tests.relational.generator import Generator
from tests.relational.wide_generator import WideGenerator
from tests.seeds import by_first, chunks, count_of

from gamay.base.errors import QueryError
from gamay.query.bind.binder import BoundQuery, bind
from gamay.query.prepared.statements import PreparedStatement
from gamay.relational.plan import Plan
from gamay.relational.plans.cache import PlanCache
from gamay.sql.query import Query
from gamay.sql.text.slots import cut_literals

WHOLE = ["0", "1", "2", "3", "5", "7", "40", "100", "2147483647", "3000000000"]
FRACTIONS = ["0.0", "0.5", "1.25", "2.0", "10.0", "3e0"]
TEXTS = ["''", "'s1'", "'s2'", "'Lyon'", "'drink'", "'a'", "'3'", "'2023-11-15'", "'it''s'"]
MARK = re.compile("\0(.)")


class Checked:
    """Count of plans that are those made anew, and of those among them that had been made for others."""

    def __init__(self) -> None:
        self.count = self.reused = 0


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Checked:
    found = Checked()
    plan_of = PlanCache.plan

    def compared(self: PlanCache, statement: Any, key: Any, catalog: Any, make: Callable[..., Plan]) -> Plan:
        made: list[Any] = []
        plan = plan_of(self, statement, key, catalog, lambda *args: (made.append(args), make(*args))[1])
        assert repr(plan) == repr(make(catalog, statement.literals)), statement.text
        found.count += 1
        found.reused += not made
        return plan

    monkeypatch.setattr(PlanCache, "plan", compared)
    return found


@pytest.fixture
def bound_alike(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables of leaf queries that were bound like others, each as if there had been none."""
    found: list[str] = []
    bind_like_others = PreparedStatement.bind

    def compared(self: PreparedStatement, query: Query) -> BoundQuery:
        bound = bind_like_others(self, query)
        fresh = bind(query, bound.schema)
        for part in fields(BoundQuery):
            one, other = getattr(bound, part.name), getattr(fresh, part.name)
            if part.name == "aggregates":
                assert [(each.call, each.arguments, each.filter) for each in one] == [
                    (each.call, each.arguments, each.filter) for each in other
                ]
            elif part.compare:
                assert repr(one) == repr(other) or one == other, (part.name, query.where)
        found.append(query.table or "")
        return bound

    monkeypatch.setattr(PreparedStatement, "bind", compared)
    return found


def with_other_constants(sql: str, rng: random.Random) -> str:
    """Return a statement with some of its constants replaced; equal ones stay equal."""
    key, sources, pattern = cut_literals(sql)
    by_kind = {"'": TEXTS, ".": FRACTIONS}
    kinds = ["'" if each[0] == "'" else "." if re.search("[.eE]", each) else "0" for each in sources]
    others = [
        each if rng.random() < 0.3 else rng.choice(by_kind.get(kind, WHOLE))
        for each, kind in zip(sources, kinds, strict=True)
    ]
    places = iter(range(len(sources)) if pattern is None else pattern)
    return MARK.sub(lambda mark: others[next(places)], key)


def _written() -> list[str]:
    lines = (Path(__file__).parent / "queries.sql").read_text().splitlines()
    return [line for line in lines if line and not line.startswith(("--", "==>"))]


def check(twins: Twins, sql: str, rng: random.Random) -> str:
    """Ask for the plans of a statement, and of others like it; return the last of them."""
    other = sql
    for _ in range(5):
        with suppress(QueryError):
            twins.plan(other)
        other = with_other_constants(sql, rng)
    return other


@pytest.mark.parametrize("number", range(0, len(_written()), 40))
def test_written_queries(twins: Twins, checked: Checked, number: int) -> None:
    for place, sql in enumerate(_written()[number : number + 40]):
        check(twins, sql, random.Random(number + place))
    assert checked.reused > 10


@pytest.mark.parametrize("numbers", chunks(count_of("GAMAY_RELATIONAL_QUERIES", 200), 50), ids=by_first)
@pytest.mark.parametrize("generator", [Generator, WideGenerator])
def test_generated_queries(twins: Twins, checked: Checked, bound_alike: list[str], generator: type, numbers: range) -> None:
    for number in numbers:
        rng = random.Random(number)
        sql = generator(rng).query()
        other = check(twins, sql, rng)
        twins.check(sql)
        with suppress(QueryError, duckdb.Error):
            twins.check(other)
    assert checked.reused > checked.count / 8
    assert bound_alike


STARS = (
    "SELECT city, SUM(qty) FROM sales JOIN shops ON sales.shop = shops.shop WHERE area > {} AND id < {} GROUP BY city",
    "SELECT kind, COUNT(*), SUM(CASE WHEN name < '{}' THEN qty END) FROM sales JOIN items ON sales.item = items.item "
    "WHERE id BETWEEN {} AND 150 GROUP BY kind ORDER BY kind",
    "SELECT name, city, MAX(price) FROM sales JOIN items ON sales.item = items.item JOIN shops ON sales.shop = shops.shop "
    "WHERE items.item <> {} AND qty > {} GROUP BY name, city ORDER BY name, city LIMIT 3",
    "SELECT kind, COUNT(*) FILTER (WHERE name IS NOT NULL AND qty > {}) FROM sales LEFT JOIN items "
    "ON sales.item = items.item WHERE id < {} GROUP BY kind",
    "SELECT city, COUNT(*) FILTER (WHERE qty > {}) FROM sales LEFT JOIN shops ON sales.shop = shops.shop WHERE id < {} "
    "GROUP BY city",
)


@pytest.mark.parametrize("sql", STARS)
def test_stars(twins: Twins, checked: Checked, bound_alike: list[str], sql: str) -> None:
    for one, other in ((1, 100), (2, 7), (5, 180), (0, 3), (4, 5)):
        twins.check(sql.format(one, other))
    assert checked.reused >= 3  # a constant may be equal to one of the text
    assert bound_alike
    assert ("sales" in bound_alike) == ("FILTER" not in sql)
