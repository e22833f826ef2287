"""SHOW, DESCRIBE, TABLE and `information_schema` list tables and columns."""

import re

import pytest
from tests.relational.conftest import Twins

from gamay.base.errors import QueryError


def test_tables(twins: Twins) -> None:
    names = [name for (name,) in twins.db.sql("SHOW TABLES").rows()]
    assert names == sorted(names)
    assert {"sales", "shops", "items"} <= set(names)
    assert twins.db.sql("SHOW TABLES FROM default LIKE 'sho%'").rows() == [("shops",)]
    assert twins.db.sql("show tables like 'item_'").rows() == [("items",)]
    assert twins.db.sql("SHOW TABLES FROM nowhere").rows() == []
    assert twins.db.sql("SHOW DATABASES").rows() == [("default",)]


def test_columns_are_those_of_a_select(twins: Twins) -> None:
    selected = twins.db.sql("SELECT * FROM sales LIMIT 1").columns
    for sql in ("DESCRIBE sales", 'DESC "sales"', "DESCRIBE TABLE default.sales", "SHOW COLUMNS FROM sales"):
        described = twins.db.sql(sql)
        assert tuple(row[0] for row in described.rows()) == selected
    assert described.columns == ("column_name", "data_type", "field_type", "is_multi_value")


def test_views_are_tables_like_others(twins: Twins) -> None:
    counted = twins.db.sql(
        "SELECT t.table_name, COUNT(*) FROM information_schema.tables t JOIN information_schema.columns c "
        "ON t.table_name = c.table_name WHERE t.table_name = 'shops' GROUP BY t.table_name"
    )
    assert counted.rows() == [("shops", len(twins.db.sql("DESCRIBE shops").rows()))]


def test_table_is_a_select_of_all(twins: Twins) -> None:
    selected = twins.db.sql("SELECT * FROM shops ORDER BY shop LIMIT 100").rows()
    assert twins.db.sql("TABLE shops ORDER BY shop").rows() == selected
    assert len(twins.db.sql("(TABLE shops) UNION ALL TABLE shops").rows()) == 2 * len(selected)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("DESCRIBE nowhere", "Table 'nowhere' does not exist"),
        ("DESCRIBE", "expected a name, found the end of the query, at line 1, column 9"),
        ("DESCRIBE shops, items", "expected the end of the statement, found `,`"),
        ("SHOW TABLES LIKE shops", "expected a pattern in quotes after LIKE, found `shops`"),
        ("SHOW COLUMNS", "expected FROM or IN, found the end"),
        ("SHOW INDEXES", "SHOW TABLES, SHOW COLUMNS FROM t and SHOW DATABASES are"),
        ("SELECT * FROM information_schema.nothing", "Table 'information_schema.nothing' does not exist"),
    ],
)
def test_mistakes(twins: Twins, sql: str, message: str) -> None:
    with pytest.raises(QueryError, match=re.escape(message)):
        twins.db.sql(sql)
