"""BIG_DECIMALs above the leaves keep all digits, or the query fails with an error."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from gamay.base.errors import QueryError
from gamay.embedded import connect
from gamay.relational.functions import decimal_type

AMOUNTS = ["0.123456789012345678", "-1.5", "20000000000000000000.000000000000000001", None, "7"]
LONG = "12345678901234567890123456789012345678.9"


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    fields = [{"name": "id", "dataType": "INT"}, {"name": "n", "dataType": "BIG_DECIMAL"}]
    schema = {"enableColumnBasedNullHandling": True, "dimensionFieldSpecs": fields}
    tables = {"amounts": AMOUNTS, "nothing": [None] * 5, "long": [LONG, "0.5"]}
    with connect(tmp_path_factory.mktemp("db")) as made:
        for name, values in tables.items():
            made.create_table(name, pa.table({"id": pa.array(range(len(values)), pa.int32()), "n": values}), schema)
        yield made


def expected(change: Any = lambda value: value) -> list[tuple[Any]]:
    return [(None if text is None else change(Decimal(text)),) for text in AMOUNTS]


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT a.n FROM amounts a JOIN nothing b ON a.id = b.id ORDER BY a.id", expected()),
        ("SELECT n FROM (SELECT id, n FROM amounts UNION ALL SELECT 9, 1) q WHERE id < 9 ORDER BY id", expected()),
        ("SELECT -a.n FROM amounts a JOIN amounts b ON a.id = b.id ORDER BY a.id", expected(Decimal.copy_negate)),
        ("SELECT abs(a.n) FROM amounts a JOIN amounts b ON a.id = b.id ORDER BY a.id", expected(Decimal.copy_abs)),
        ("SELECT least(a.n, 3) FROM amounts a JOIN amounts b ON a.id = b.id WHERE a.n IS NOT NULL ORDER BY a.id",
         [(min(Decimal(text), Decimal(3)),) for text in AMOUNTS if text]),
        ("SELECT MAX(a.n), SUM(a.n) FROM amounts a JOIN amounts b ON a.id = b.id",
         [(Decimal(AMOUNTS[2]), Decimal("20000000000000000005.623456789012345679"))]),
        ("SELECT n FROM (VALUES (CAST('0.123456789012345678' AS DECIMAL))) v(n)", [(Decimal(AMOUNTS[0]),)]),
        ("SELECT COUNT(*) FROM amounts a JOIN amounts b ON a.n = b.n", [(4,)]),
    ],
)  # fmt: skip
def test_all_digits_are_kept(db: Any, sql: str, wanted: list[tuple[Any]]) -> None:
    assert db.sql(sql).rows() == wanted


@pytest.mark.parametrize("nulls", [False, True])
def test_aggregates_of_no_rows_are_null(db: Any, nulls: bool) -> None:
    """In a query of one table PERCENTILE and MODE of nothing are -Infinity, which no decimal is."""
    sql = "SELECT PERCENTILE(n, 50), MODE(n), MIN(n), COUNT(*) FROM amounts WHERE id > 9"
    assert db.sql(sql, enableNullHandling=nulls, useMultistageEngine=True).rows() == [(None, None, None, 0)]


def test_more_than_38_digits_are_refused(db: Any) -> None:
    with pytest.raises(QueryError, match="38"):
        db.sql("SELECT n FROM amounts UNION ALL SELECT n FROM long")


def test_the_type_has_room_for_all_and_for_what_is_computed() -> None:
    assert decimal_type([], []) == "DECIMAL(38, 10)"
    assert decimal_type([pa.decimal128(5, 2), pa.list_(pa.decimal128(20, 18))], [Decimal("1E+3")]) == "DECIMAL(38, 18)"
    assert decimal_type([pa.decimal128(38, 0)], []) == "DECIMAL(38, 0)"
    assert decimal_type([pa.int32()], [Decimal("-0.000000000000001")]) == "DECIMAL(38, 15)"
    with pytest.raises(QueryError, match="30 digits before the point and 9 after"):
        decimal_type([pa.decimal128(30, 0)], [Decimal("1.123456789")])
