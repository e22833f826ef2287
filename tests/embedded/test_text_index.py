"""Text indexes of tables: built on load, explained, changed with the config, rebuilt when damaged."""

import logging
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.waiting import eventually

import gamay
from gamay.base.errors import ErrorCode, QueryError
from gamay.embedded.database import Database
from gamay.segment.describe import describe

COUNT = 3000
SCHEMA = {
    "schemaName": "t",
    "dimensionFieldSpecs": [
        {"name": "id", "dataType": "INT"},
        {"name": "encoded", "dataType": "STRING"},
        {"name": "raw", "dataType": "STRING"},
        {"name": "doc", "dataType": "JSON"},
        {"name": "tags", "dataType": "STRING", "singleValueField": False},
    ],
    "enableColumnBasedNullHandling": True,
}
RAW = {"noDictionaryColumns": ["raw", "doc", "tags"]}
FIELDS: list[dict[str, Any]] = [
    {"name": "encoded", "indexes": {"text": {"stopWordsInclude": ["w7"]}}},
    {"name": "raw", "encodingType": "RAW", "indexTypes": ["TEXT"], "properties": {"caseSensitive": "true"}},
    {"name": "doc", "encodingType": "RAW", "indexes": {"text": {"useANDForMultiTermQueries": True}}},
    {"name": "tags", "encodingType": "RAW", "indexes": {"text": {}}},
]
QUERIES = (
    "w3", "W3", "w3 AND w5", "w3 w5 -w7", '"w1 w2"', '"w1 w2"~2', "w1*", "w?9", "w12~1", "/w[12]+/", "[w3 TO w5]", "null",
    "w30 OR (w31 w32)", "*:* AND NOT w1", "the", "w7",
)  # fmt: skip
COLUMNS = ("encoded", "raw", "doc", "tags")


def rows(seed: int = 1) -> pa.Table:
    rng = random.Random(seed)

    def text() -> str:
        return " ".join(f"{rng.choice('wW')}{min(99, int(rng.paretovariate(0.5)))}" for _ in range(rng.randrange(9)))

    texts = [None if number % 17 == 0 else f"{text()} n{number}" for number in range(COUNT)]
    return pa.table(
        {
            "id": pa.array(range(COUNT), pa.int32()),
            "encoded": texts,
            "raw": texts,
            "doc": [None if t is None else f'{{"a": "{t}"}}' for t in texts],
            "tags": [None if t is None else [t, text()] for t in texts],
        }
    )


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with gamay.connect(tmp_path_factory.mktemp("text") / "data") as database:
        database.create_table("t", rows(), SCHEMA, {"fieldConfigList": FIELDS})
        yield database


def plan(db: Database, condition: str) -> str:
    return " ".join(row[0] for row in db.sql(f"EXPLAIN PLAN FOR SELECT id FROM t WHERE {condition}").rows())


def both(db: Database, condition: str, **options: Any) -> list[Any]:
    """The ids of the rows that are found, the same with the index and without."""
    return answers(db, f"SELECT id FROM t WHERE {condition} ORDER BY id LIMIT {COUNT}", **options)


def answers(db: Database, text: str, **options: Any) -> list[Any]:
    """The rows of an answer, the same with the indexes and without."""
    found = db.sql(text, **options).rows()
    assert found == db.sql(text, skipIndexes="&".join(f"{c}=text" for c in COLUMNS), **options).rows(), text
    return found


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("null_handling", [False, True])
def test_the_same_rows_are_found_with_the_index_and_without(db: Database, column: str, null_handling: bool) -> None:
    found = {}
    for query in QUERIES:
        condition = f"TEXT_MATCH({column}, '{query}')"
        found[query] = both(db, condition, enableNullHandling=null_handling)
        both(db, f"NOT {condition}", enableNullHandling=null_handling)
        both(db, f"({condition} OR id < 40) AND NOT TEXT_MATCH(raw, 'w2') AND id > 20", enableNullHandling=null_handling)
    assert len([query for query in QUERIES if found[query]]) > 12
    assert bool(found["null"]) != null_handling or column == "doc"


@pytest.mark.parametrize("column", COLUMNS[:3])
@pytest.mark.parametrize("null_handling", [False, True])
def test_scores_are_the_same_with_the_index_and_without(db: Database, column: str, null_handling: bool) -> None:
    scored = 0
    for query in QUERIES:
        call = f"textScore({column}, '{query}')"
        every = answers(db, f"SELECT id, {call} FROM t ORDER BY id LIMIT {COUNT}", enableNullHandling=null_handling)
        matching = [number for (number,) in both(db, f"TEXT_MATCH({column}, '{query}')", enableNullHandling=null_handling)]
        assert [number for number, score in every if score] == matching
        nulls = list(range(0, COUNT, 17)) if null_handling else []
        assert [number for number, score in every if score is None] == nulls
        best = answers(
            db,
            f"SELECT id FROM t WHERE TEXT_MATCH({column}, '{query}') ORDER BY {call} DESC, id LIMIT 10",
            enableNullHandling=null_handling,
        )
        of = dict(every)
        assert [number for (number,) in best] == sorted(matching, key=lambda number: (-of[number], number))[:10]
        scored += len({score for _, score in every}) > 10
    assert scored > 5


def test_scores_of_an_index_read_no_text(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: Any) -> None:
        raise QueryError(ErrorCode.QUERY_EXECUTION, "a text is read")

    text = "SELECT id, textScore(raw, 'w1 AND \"w1 w2\"') AS s FROM t ORDER BY s DESC, id LIMIT 5"
    shown = plan(db, "textScore(raw, 'w3') > 1")
    assert (
        "FILTER_EXPRESSION(operator:RANGE,predicate:textscore(raw,'w3') > '1.0') TEXT_SCORE_INDEX(textscore(raw,'w3'))"
        in shown
    )
    for options, source in (({}, "INDEX"), ({"skipIndexes": "raw=text"}, "SCAN")):
        shown = " ".join(row[0] for row in db.sql(f"EXPLAIN PLAN FOR {text}", **options).rows())
        assert f"TEXT_SCORE_{source}(textscore(raw,'w1 AND \"w1 w2\"'))" in shown
    expected = db.sql(text, skipIndexes="raw=text").rows()
    monkeypatch.setattr("gamay.functions.search.counted.text_batches", read)
    assert db.sql(text).rows() == expected
    with pytest.raises(QueryError, match="a text is read"):
        db.sql(text, skipIndexes="raw=text")


def test_an_index_reads_no_text(db: Database) -> None:
    for column in COLUMNS:
        condition = f"TEXT_MATCH({column}, 'w3 AND \"w1 w2\"')"
        assert "FILTER_TEXT_INDEX(indexLookUp:text_index,operator:TEXT_MATCH" in plan(db, condition)
        assert db.sql(f"SELECT COUNT(*) FROM t WHERE {condition}").stats.num_entries_scanned_in_filter == 0
    assert db.sql("SELECT COUNT(*) FILTER (WHERE TEXT_MATCH(raw, 'w3')) FROM t").rows()[0][0] > 0


def test_indexes_follow_the_config(trips: Any, make_segment: Callable[..., Path], caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a", "b"):
        trips.push(make_segment(name, list(range(100))))
    table = trips.controller.get("/tables/trips").json()["OFFLINE"]
    raw = {"noDictionaryColumns": ["city"]}
    shared = {"columns": ["city"], "perColumnProperties": {"city": {"stopWordInclude": "city9"}}}
    stale, found = "/segments/trips_OFFLINE/needReload", "TEXT_MATCH(city, 'CITY1 -city2')"
    for indexing, fields, is_used in (
        (raw, [{"name": "city", "indexes": {"text": {}}}], True),
        (raw, [{"name": "city", "indexType": "TEXT", "properties": {"caseSensitive": "true"}}], True),
        ({**raw, "multiColumnTextIndexConfig": shared}, [], True),
        (raw, [], False),
    ):
        kept_as_written = "caseSensitive" in str(fields)
        expected = 0 if kept_as_written else 66
        changed = {**table, "tableIndexConfig": {**table["tableIndexConfig"], **indexing}, "fieldConfigList": fields}
        assert "warnings" not in trips.controller.put("/tables/trips", json=changed).json()
        count = f"SELECT COUNT(*) FROM trips WHERE {found}"
        eventually(lambda: trips.rows(count) == [[expected]])  # noqa: B023 - brokers follow the config; asked at once
        trips.controller.post("/segments/trips/reload")
        eventually(lambda: not trips.controller.get(stale).json()["needReload"])
        assert trips.rows(count) == [[expected]]
        shown = str(trips.rows(f"EXPLAIN PLAN FOR SELECT n FROM trips WHERE {found.replace('CITY1', 'city1')}"))
        assert ("FILTER_TEXT_INDEX" in shown) == is_used, (fields, shown)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_damaged_index_is_built_again_and_never_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with gamay.connect(tmp_path / "db") as db:
        db.create_table("t", rows(), SCHEMA, {"fieldConfigList": FIELDS})
        expected = both(db, "TEXT_MATCH(tags, '\"w1 w2\"')")
    for file in ("index.bin", "indexes.json"):
        damaged = next((tmp_path / "db").rglob(file))
        folder = next(parent for parent in damaged.parents if (parent / "metadata.json").exists())
        assert "text" in describe(folder)
        content = bytearray(damaged.read_bytes())
        content[len(content) // 2] ^= 0x55
        damaged.write_bytes(content)
        with gamay.connect(tmp_path / "db") as db:
            assert both(db, "TEXT_MATCH(tags, '\"w1 w2\"')") == expected
            assert "FILTER_TEXT_INDEX" in plan(db, "TEXT_MATCH(tags, 'w1')")
    assert "is not used" in caplog.text or "are not used" in caplog.text
