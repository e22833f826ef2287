"""Timestamp indexes of tables: built and changed on reload during queries, displayed, and refused for invalid columns."""

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pandas as pd
import pytest
from tests.waiting import eventually

import gamay
from gamay.base.errors import QueryError
from gamay.controller.segments.verify import check_matches, record_of, verify_folder
from gamay.embedded.database import Database
from gamay.segment.describe import describe

DAY_MS = 86_400_000
SCHEMA = {
    "dimensionFieldSpecs": [{"name": "id", "dataType": "INT"}, {"name": "city", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [{"name": "ts", "dataType": "TIMESTAMP", "format": "TIMESTAMP", "granularity": "1:MILLISECONDS"}],
}
BY_DAY = "SELECT dateTrunc('DAY', ts), SUM(n), COUNT(*) FROM t WHERE dateTrunc('MONTH', ts) >= 0 GROUP BY 1 ORDER BY 1"
QUERIES = (
    BY_DAY,
    'SELECT "$ts$DAY", "$ts$WEEK", n FROM t WHERE "$ts$DAY" < \'1970-01-09 00:00:00\' ORDER BY ts, n LIMIT 20',
    "SELECT year(ts), month(ts), toEpochDays(ts), MAX(dateTrunc('HOUR', ts)) FROM t GROUP BY 1, 2, 3 ORDER BY 3 LIMIT 9",
    "SELECT city, SUM(n) FILTER (WHERE dateTrunc('DAY', ts) = 86400000) FROM t GROUP BY city ORDER BY city",
)


def rows(count: int = 600, seed: int = 1) -> pd.DataFrame:
    rng = random.Random(seed)
    return pd.DataFrame(
        {
            "id": range(count),
            "city": [f"c{rng.randrange(3)}" for _ in range(count)],
            "n": [rng.randrange(100) for _ in range(count)],
            "ts": [pd.Timestamp(rng.randrange(40 * DAY_MS), unit="ms") for _ in range(count)],
        }
    )


def indexed(*granularities: str, **others: Any) -> dict[str, Any]:
    declared = {"name": "ts", "indexTypes": ["TIMESTAMP"], "timestampConfig": {"granularities": list(granularities)}}
    return {"fieldConfigList": [declared], **others}


def plan(db: Database, text: str) -> str:
    return " ".join(row[0] for row in db.sql(f"EXPLAIN PLAN FOR {text}").rows())


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with gamay.connect(tmp_path / "db") as opened:
        yield opened


def test_columns_are_used_and_known_but_not_of_the_schema(db: Database, tmp_path: Path) -> None:
    db.create_table("t", rows(), SCHEMA, indexed("DAY", "MONTH"))
    db.create_table("u", rows(), SCHEMA)
    for text in QUERIES:
        assert db.sql(text).rows() == db.sql(text.replace("FROM t", "FROM u")).rows(), text
    told = plan(db, BY_DAY)
    assert "GROUP_BY(groupKeys:$ts$DAY" in told, told
    assert "predicate:$ts$MONTH > '0'" in plan(db, "SELECT n FROM t WHERE dateTrunc('MONTH', ts) > 0 AND n > 1")
    assert "GROUP_BY(groupKeys:datetrunc('HOUR',ts)" in plan(db, "SELECT dateTrunc('HOUR', ts), MAX(n) FROM t GROUP BY 1")
    assert "groupKeys:year($ts$MONTH)" in plan(db, "SELECT year(ts), MAX(n) FROM t GROUP BY 1")
    assert db.sql("SELECT * FROM t LIMIT 1").columns == ("city", "id", "n", "ts")
    assert [row[0] for row in db.sql("DESCRIBE t").rows()] == ["city", "id", "n", "ts"]
    (folder,) = {path.parent for path in tmp_path.rglob("metadata.json") if "$ts$DAY" in path.read_text()}
    assert "$ts$MONTH" in describe(folder)
    verified = verify_folder(folder)  # as an upload of the segment is
    check_matches(verified.info, db.schema("t"))
    assert set(orjson.loads(record_of(verified.info, "", 1).column_stats)) == {"city", "id", "n", "ts"}
    condition = "u.\"$ts$MONTH\" > '1970-01-15'"
    joined = f'SELECT t."$ts$DAY", SUM(t.n) FROM t JOIN u ON t.id = u.id WHERE {condition} GROUP BY 1 ORDER BY 1'
    other = joined.replace('t."$ts$DAY"', 'u."$ts$DAY"').replace('u."$ts$MONTH"', 't."$ts$MONTH"')
    assert db.sql(joined).rows() == db.sql(other).rows()
    for unknown in ('"$ts$FORTNIGHT"', '"$city$DAY"', '"$tt$DAY"'):
        with pytest.raises(QueryError, match="Unknown columnName"):
            db.sql(f"SELECT {unknown} FROM t")


def test_indexes_survive_a_restart(tmp_path: Path) -> None:
    with gamay.connect(tmp_path / "db") as db:
        db.create_table("t", rows(), SCHEMA, indexed("DAY"))
        expected = [db.sql(text).rows() for text in QUERIES]
    with gamay.connect(tmp_path / "db") as db:
        assert [db.sql(text).rows() for text in QUERIES] == expected
        assert "groupKeys:$ts$DAY" in plan(db, BY_DAY)


def test_star_trees_of_days_are_used(db: Database) -> None:
    tree = {"dimensionsSplitOrder": ["$ts$DAY", "city"], "functionColumnPairs": ["SUM__n"], "maxLeafRecords": 1}
    db.create_table("t", rows(), SCHEMA, indexed("DAY", tableIndexConfig={"starTreeIndexConfigs": [tree]}))
    for text in (
        "SELECT dateTrunc('DAY', ts), SUM(n) FROM t GROUP BY 1 ORDER BY 1 LIMIT 99",
        'SELECT "$ts$DAY", SUM(n) FROM t WHERE "$ts$DAY" > \'1970-01-03\' GROUP BY 1 ORDER BY 1 LIMIT 99',
    ):
        assert "FILTER_STARTREE_INDEX" in plan(db, text)
        assert db.sql(text).rows() == db.sql(text, useStarTree=False).rows()


def test_what_makes_no_sense_is_refused_or_told(db: Database, recwarn: pytest.WarningsRecorder) -> None:
    own = {**SCHEMA, "dimensionFieldSpecs": [*SCHEMA["dimensionFieldSpecs"], {"name": "$ts$DAY", "dataType": "STRING"}]}
    data = rows(5).assign(**{"$ts$DAY": "mine"})
    with pytest.raises(gamay.InvalidConfigError, match=r"makes a column '\$ts\$DAY', which the schema has already"):
        db.create_table("t", data, own, indexed("HOUR", "DAY"))
    city = {"fieldConfigList": [{"name": "city", "timestampConfig": {"granularities": ["DAY"]}}]}
    with pytest.raises(
        gamay.InvalidConfigError, match="'city' of type STRING has a timestamp index, which needs LONG or TIME"
    ):
        db.create_table("t", rows(5), SCHEMA, city)
    with pytest.raises(gamay.InvalidConfigError, match="FORTNIGHT"):
        db.create_table("t", rows(5), SCHEMA, indexed("FORTNIGHT"))
    db.create_table("t", data, own)
    assert db.sql('SELECT DISTINCT "$ts$DAY" FROM t').rows() == [("mine",)]
    assert len(db.sql("SELECT dateTrunc('DAY', ts) FROM t WHERE dateTrunc('DAY', ts) >= 0").rows()) == 5


def test_indexes_follow_the_config_and_answers_stay(trips: Any, make_segment: Callable[..., Path]) -> None:
    for number, name in enumerate(("a", "b")):
        trips.push(make_segment(name, list(range(200)), first_ms=1_700_000_000_000 + number * 9 * DAY_MS))
    where = "WHERE dateTrunc('HOUR', ts) > 0"
    text = f"SELECT dateTrunc('DAY', ts), hour(ts), COUNT(*), SUM(n) FROM trips {where} GROUP BY 1, 2 ORDER BY 1, 2"
    expected = trips.rows(text)
    table = trips.controller.get("/tables/trips").json()["OFFLINE"]
    stale = "/segments/trips_OFFLINE/needReload"
    wrong, over = [], threading.Event()

    def ask() -> None:
        while not over.is_set():
            if (found := trips.rows(text)) != expected:
                wrong.append(found)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for granularities in (["DAY", "HOUR"], ["HOUR", "WEEK"], []):
            table["fieldConfigList"] = [{"name": "ts", "timestampConfig": {"granularities": granularities}}]
            warnings = trips.controller.put("/tables/trips", json=table).json().get("warnings", [])
            assert [("and there are none" in told) for told in warnings] == [True] * (not granularities)
            assert trips.controller.get(stale).json()["needReload"]
            trips.controller.post("/segments/trips/reload")
            eventually(lambda: not trips.controller.get(stale).json()["needReload"])
            told = trips.server.get("/tables/trips_OFFLINE/segments/a/metadata", params={"columns": "*"}).json()
            derived = {column["columnName"] for column in told["columns"]} - {"city", "n", "ts"}
            assert derived == {f"$ts${granularity}" for granularity in granularities}
            explained = str(trips.rows(f"EXPLAIN PLAN FOR {text}"))
            assert ("$ts$HOUR" in explained) == ("HOUR" in granularities)
    finally:
        over.set()
        asking.join()
    assert not wrong
