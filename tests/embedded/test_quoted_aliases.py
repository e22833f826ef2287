"""Aliases in single quotes name columns; strings elsewhere are literals, which may differ within a shape."""

from pathlib import Path

import httpx
import pyarrow as pa

import gamay
from gamay.embedded import EmbeddedCluster

QUERIES = [
    (f"SELECT n AS '{alias}', count(*) AS /* of n */ 'it''s {alias}' FROM t WHERE s = '{s}' GROUP BY n", alias, s)
    for s in ("one", "two", "one")
    for alias in ("first", "second", "one", "First")
]


def test_queries_that_differ_in_the_alias_only(tmp_path: Path) -> None:
    with gamay.connect(tmp_path / "data") as db:
        db.create_table("t", pa.table({"n": [1, 2, 2], "s": ["one", "two", "two"]}))
        for sql, alias, s in QUERIES:
            answer = db.sql(sql)
            assert answer.columns == (alias, f"it's {alias}")
            assert answer.rows() == [(1, 1) if s == "one" else (2, 2)]
        assert db.sql("SELECT n AS 'm' FROM t WHERE s = 'one'").columns == ("m",)
        assert db.sql("SELECT n AS 'k' FROM t WHERE s = 'one'").columns == ("k",)
    with EmbeddedCluster(tmp_path / "data", 0, 0, 0, threads=1, warm_up=False) as cluster:
        small = [(f"SELECT n AS '{alias}' FROM t WHERE s = 'one'", alias) for alias in ("a", "b", "a")] * 3
        for sql, alias in [(sql, alias) for sql, alias, _ in QUERIES] + small:
            answer = httpx.post(f"{cluster.broker_url}/query/sql", json={"sql": sql}).json()
            assert answer["exceptions"] == []
            assert answer["resultTable"]["dataSchema"]["columnNames"][0] == alias
