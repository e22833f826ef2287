"""Completions offered by the shell at the cursor."""

import pytest

from gamay.shell.catalog import Catalog, Column
from gamay.shell.completion import complete

CATALOG = Catalog(
    {
        "trips": [Column("city", "STRING", "DIMENSION", False), Column("order", "INT", "DIMENSION", False)],
        "shop.zones": [Column("zone_name", "STRING", "DIMENSION", True), Column("cityId", "INT", "DIMENSION", False)],
    }
)
FUNCTIONS = ["COUNT", "cityHash64", "SUM"]


@pytest.mark.parametrize(
    ("before", "behind", "first", "absent"),
    [
        ("", "", ["SELECT", "SHOW TABLES"], []),
        ("SEL", "", ["SELECT"], ["city"]),
        ("SELECT ci", " FROM trips", ["city", "cityHash64("], ["cityId"]),
        ("SELECT * FROM tr", "", ["trips"], ["SELECT"]),
        ("SELECT * FROM ", "", ["trips", "shop.zones"], []),
        ("SELECT * FROM trips WHERE or", "", ['"order"'], []),
        ("SELECT t.ci", " FROM trips t JOIN shop.zones z ON 1 = 1", ["city"], ["cityId"]),
        ("SELECT z.", " FROM trips t JOIN shop.zones AS z ON 1 = 1", ["zone_name", "cityId"], ["city"]),
        ("SELECT zo", "", ["zone_name"], ["city"]),
        ("SELECT name", " FROM shop.zones", ["zone_name"], []),
        ('SELECT "ci', " FROM trips", ['"city"'], ["COUNT("]),
        ("SELECT 1; SELECT * FROM t", "", ["trips"], []),
        ("SELECT city FROM trips WHERE city = 'ci", "", [], ["city"]),
        ("SELECT city -- ci", "", [], ["city"]),
        ("SELECT CI", " FROM TRIPS", ["city"], []),
    ],
)
def test_completion(before: str, behind: str, first: list[str], absent: list[str]) -> None:
    texts = [one.text for one in complete(before, behind, CATALOG, FUNCTIONS)]
    assert texts[: len(first)] == first
    assert not set(absent) & set(texts)
    if not first:
        assert not texts


def test_only_the_word_at_the_cursor_is_replaced() -> None:
    found = complete("SELECT t.ci", " FROM trips t", CATALOG, FUNCTIONS)[0]
    assert (found.text, found.length, found.meta) == ("city", 2, "STRING")
