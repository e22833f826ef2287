"""TEXT_MATCH and VECTOR_SIMILARITY through `gamay.connect`, with what the table config says about them."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import gamay
from gamay.base.errors import InvalidConfigError, QueryError
from gamay.embedded import Database

_TEXTS = ["Disk is full", "disk error at start", "all is well"]
_VECTORS = [[1.0, 0.0], [3.0, 0.0], [0.0, 1.0]]
_SCHEMA = {
    "schemaName": "t",
    "dimensionFieldSpecs": [
        {"name": "id", "dataType": "INT"},
        {"name": "s", "dataType": "STRING"},
        {"name": "tags", "dataType": "STRING", "singleValueField": False},
        {"name": "v", "dataType": "FLOAT", "singleValueField": False},
    ],
}
_DATA = pa.table(
    {
        "id": pa.array([0, 1, 2], pa.int32()),
        "s": _TEXTS,
        "tags": [["a disk", "b"], ["disk", "full b"], ["c"]],
        "v": pa.array(_VECTORS, pa.list_(pa.float32())),
    }
)
_FIELDS = [
    {"name": "s", "indexes": {"text": {"useANDForMultiTermQueries": True, "stopWordsExclude": ["is"]}}},
    {"name": "tags", "indexType": "TEXT", "properties": {"stopWordInclude": "B", "caseSensitive": "false"}},
    {
        "name": "v",
        "encodingType": "RAW",
        "indexes": {"vector": {"vectorDimension": 2, "vectorDistanceFunction": "EUCLIDEAN"}},
    },
]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with gamay.connect(tmp_path_factory.mktemp("searches") / "data") as database:
        database.create_table("plain", _DATA, {**_SCHEMA, "schemaName": "plain"})
        database.create_table("t", _DATA, _SCHEMA, {"fieldConfigList": _FIELDS})
        yield database


def ids(db: Database, table: str, condition: str) -> list[int]:
    return [row[0] for row in db.sql(f"SELECT id FROM {table} WHERE {condition} ORDER BY id").rows()]


def test_texts_are_searched_by_the_settings_of_their_column(db: Database) -> None:
    for wanted, plain, table in (("disk full", [0, 1], [0]), ("is", [], [0, 2]), ("disk OR full", [0, 1], [0, 1])):
        assert ids(db, "plain", f"TEXT_MATCH(s, '{wanted}')") == plain
        assert ids(db, "t", f"TEXT_MATCH(s, '{wanted}')") == table
    assert ids(db, "plain", "TEXT_MATCH(plain.tags, 'b')") == [0, 1]
    assert ids(db, "t", "TEXT_MATCH(t.TAGS, 'b')") == []
    assert ids(db, "t", "TEXT_MATCH(s, 'disk full', 'defaultOperator=OR') AND NOT TEXT_MATCH(tags, '\"full b\"')") == [0]


def test_a_search_is_a_value_too_and_is_shown_as_it_was_written(db: Database) -> None:
    result = db.sql("SELECT TEXT_MATCH(s, 'disk full'), COUNT(*) FROM t GROUP BY TEXT_MATCH(s, 'disk full') ORDER BY 1")
    assert result.columns == ("text_match(s,'disk full')", "count(*)")
    assert result.rows() == [(False, 2), (True, 1)]
    plan = [row[0] for row in db.sql("EXPLAIN PLAN FOR SELECT id FROM t WHERE TEXT_MATCH(s, 'disk full')").rows()]
    assert plan[-1] == "FILTER_FULL_SCAN(operator:TEXT_MATCH,predicate:text_match(s,'disk full'))"
    plan = [row[0] for row in db.sql("EXPLAIN PLAN FOR SELECT id FROM t WHERE VECTOR_SIMILARITY(v, ARRAY[1, 0.5])").rows()]
    assert plan[-1] == (
        "VECTOR_SIMILARITY_EXACT_SCAN(distance:EUCLIDEAN,predicate:vector_similarity(v, ARRAY[1.0, 0.5], 10))"
    )


def test_the_distance_is_that_of_the_column(db: Database) -> None:
    # by the angle (3, 0) is as near as (1, 0), by the distance (0, 1) is nearer
    assert ids(db, "plain", "VECTOR_SIMILARITY(v, ARRAY[1.0, 0.1], 2)") == [0, 1]
    assert ids(db, "t", "VECTOR_SIMILARITY(v, ARRAY[1.0, 0.1], 2)") == [0, 2]
    assert ids(db, "t", "VECTOR_SIMILARITY_RADIUS(v, ARRAY[1.0, 0.0], 2)") == [0, 2]
    assert ids(db, "plain", "VECTOR_SIMILARITY_RADIUS(v, ARRAY[1.0, 0.0])") == [0, 1]


def test_a_distance_that_there_is_not_is_refused(db: Database) -> None:
    field = {"name": "v", "encodingType": "RAW", "indexes": {"vector": {"vectorDistanceFunction": "MANHATTAN"}}}
    with pytest.raises(InvalidConfigError, match="the vectorDistanceFunction 'MANHATTAN' of 'v' is not one of COSINE"):
        db.create_table("wrong", None, {**_SCHEMA, "schemaName": "wrong"}, {"fieldConfigList": [field]})


@pytest.mark.parametrize("condition", ["regexp_replace(s, '(a|aa)+$', 'x') = 'y'", "regexp_like(s, '(?=a)(a|aa)+$')"])
def test_patterns_that_backtrack_end_with_their_query(tmp_path: Path, condition: str) -> None:
    with gamay.connect(tmp_path / "data") as database:
        database.create_table("t", pa.table({"s": ["a" * 60 + "b", "c"]}))
        with pytest.raises(QueryError, match="longer than its 300 ms"):
            database.sql(f"SELECT count(*) FROM t WHERE {condition}", timeoutMs=300)
        assert database.sql("SELECT count(*) FROM t WHERE regexp_like(s, '^c$')").rows() == [(1,)]
