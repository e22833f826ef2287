"""Searches for the nearest vectors beside joins, which do not affect which rows are nearest."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gamay.embedded import connect

NEAR = "VECTOR_SIMILARITY(v, ARRAY[1.0, 0.5], 10)"


def make_tables(db: Any, keys: list[int]) -> None:
    vectors = {"name": "v", "dataType": "FLOAT", "singleValueField": False}
    numbers = [{"name": name, "dataType": "LONG"} for name in ("id", "kind")]
    rows = {"id": range(100), "kind": [i % 5 for i in range(100)], "v": [[float(i), 100.0 - i] for i in range(100)]}
    db.create_table("points", pa.table(rows), {"dimensionFieldSpecs": [vectors, *numbers]})
    db.create_table("kinds", pa.table({"k": keys, "name": ["a", "b"]}))


@pytest.mark.parametrize(
    "partner", ["JOIN kinds ON kind = k", "JOIN kinds ON kind = k AND name = 'b'", "SEMI JOIN kinds ON kind = k"]
)
@pytest.mark.parametrize("items", ["id", "COUNT(*), SUM(id)"])
def test_joins_do_not_change_which_rows_are_nearest(tmp_path: Path, partner: str, items: str) -> None:
    with connect(tmp_path) as db:
        make_tables(db, keys=[1, 3])
        nearest = [row[0] for row in db.sql(f"SELECT id FROM points WHERE id > 40 AND {NEAR} LIMIT 100").rows()]
        assert len(nearest) == 10
        kinds = {3} if "name" in partner else {1, 3}
        wanted = sorted(i for i in nearest if i % 5 in kinds)
        found = db.sql(f"SELECT {items} FROM points {partner} WHERE id > 40 AND {NEAR}").rows()
    assert sorted(found) == ([(i,) for i in wanted] if items == "id" else [(len(wanted), sum(wanted))])


@pytest.mark.parametrize(
    "outer",
    ["SELECT id FROM ({}) WHERE kind = 2", "SELECT id FROM (SELECT * FROM ({})) t JOIN kinds ON kind = k AND kind = 2",
     "WITH q AS ({}) SELECT id FROM q WHERE kind = (SELECT MIN(k) FROM kinds)"],
)  # fmt: skip
def test_conditions_around_a_search_come_after_it(tmp_path: Path, outer: str) -> None:
    with connect(tmp_path) as db:
        make_tables(db, keys=[2, 3])
        nearest = [row[0] for row in db.sql(f"SELECT id FROM points WHERE {NEAR} LIMIT 100").rows()]
        found = db.sql(outer.format(f"SELECT id, kind FROM points WHERE {NEAR}")).rows()
    assert sorted(found) == [(i,) for i in sorted(nearest) if i % 5 == 2] != []
