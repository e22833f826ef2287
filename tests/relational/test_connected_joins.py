"""Tables listed before the tables that connect them are joined through these, with the same rows."""

import itertools

import pytest
from tests.relational.conftest import Twins

TABLES = ("sales s", "items i", "shops p", "items j")
LINKS = "s.item = i.item AND s.shop = p.shop AND j.item = s.item AND j.kind = i.kind AND p.area + i.item > j.item"


@pytest.mark.parametrize("order", list(itertools.permutations(TABLES)))
def test_no_step_pairs_all_rows_with_all_rows(twins: Twins, order: tuple[str, ...]) -> None:
    sql = f"SELECT s.id, i.kind, p.city, j.item FROM {', '.join(order)} WHERE {LINKS} LIMIT 100000"
    assert twins.check(sql)
    plan = twins.plan(sql)
    assert plan.count("Join(type=[inner]") == 3
    assert "cross" not in plan


def test_columns_keep_the_order_of_the_statement(twins: Twins) -> None:
    joined = (
        "FROM items i CROSS JOIN shops p JOIN sales s ON s.item = i.item AND s.shop = p.shop WHERE i.item <> 4 LIMIT 100000"
    )
    sql = f"SELECT * {joined}"
    columns = "i.item, i.kind, i.name, i.tags, p.area, p.city, p.shop, s.big, s.id, s.item, s.paid, s.price, s.qty"
    assert twins.check(sql, f"SELECT {columns}, s.shop, s.ts {joined}")
    assert "cross" not in twins.plan(sql)


@pytest.mark.parametrize(
    "sql",
    [
        # no condition joins these
        "SELECT i.item, p.shop, j.kind FROM items i, shops p, items j WHERE i.item = j.item LIMIT 100000",
        # a partner of all, beside an outer join that stays as it is
        "SELECT i.item, p.shop, s.id FROM items i CROSS JOIN shops p LEFT JOIN sales s "
        "ON s.item = i.item AND s.shop = p.shop LIMIT 100000",
        # a subquery reads tables that come after it in the order of the joins
        "SELECT i.item, p.shop, s.id FROM items i, shops p, sales s WHERE s.item = i.item AND s.shop = p.shop "
        "AND p.area > (SELECT MIN(q.area) FROM shops q WHERE q.shop = s.shop OR q.area < i.item) LIMIT 100000",
        # rows that each reads of the tables before it
        "SELECT i.item, p.shop, l.id FROM items i, shops p, LATERAL (SELECT s.id FROM sales s WHERE s.item = i.item "
        "AND s.shop = p.shop) l LIMIT 100000",
    ],
)
def test_other_products_stay(twins: Twins, sql: str) -> None:
    assert twins.check(sql)
