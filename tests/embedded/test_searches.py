"""TEXT_MATCH and VECTOR_SIMILARITY through `gamay.connect`, with the settings of the table config."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import gamay
from gamay.base.errors import InvalidConfigError, QueryError
from gamay.embedded import Database
from gamay.segment.describe import describe

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


def test_the_vector_index_of_the_older_form_is_used_and_shown(tmp_path: Path) -> None:
    vectors = np.random.default_rng(1).normal(size=(2000, 8)).astype(np.float32)
    data = pa.table({"id": pa.array(range(2000), pa.int32()), "v": pa.array(list(vectors), pa.list_(pa.float32()))})
    schema = {"schemaName": "t", "dimensionFieldSpecs": [_SCHEMA["dimensionFieldSpecs"][place] for place in (0, 3)]}
    older = {"vectorIndexType": "IVF_FLAT", "vectorDimension": "8", "vectorDistanceFunction": "L2", "minRowsForIndex": "1"}
    field = {"name": "v", "encodingType": "RAW", "indexType": "VECTOR", "properties": older}
    near = f"VECTOR_SIMILARITY(v, ARRAY[{', '.join(map(str, vectors[7] + 0.1))}], 5)"
    wanted = sorted(np.argsort(((vectors - vectors[7] - 0.1) ** 2).sum(axis=1))[:5].tolist())
    for _ in range(2):  # built when the segment is loaded, and opened at the next start
        with gamay.connect(tmp_path) as database:
            if not database.tables():
                database.create_table("t", data, schema, {"fieldConfigList": [field]})
            plan = database.sql(f"EXPLAIN PLAN FOR SELECT id FROM t WHERE {near}").rows()[-1][0]
            assert plan.startswith("VECTOR_SIMILARITY_INDEX(distance:L2,predicate:vector_similarity(v, ARRAY[")
            assert ids(database, "t", near) == wanted
    folder = next(path.parent for path in tmp_path.rglob("indexes.json"))
    shown = next(line for line in describe(folder).splitlines() if "vector" in line and "IVF_FLAT" in line)
    assert "v" in shown.split()


@pytest.mark.parametrize(
    ("vector", "says"),
    [
        ({"vectorDistanceFunction": "L2"}, "vectorDimension 0; it must be the length of the vectors"),
        ({"vectorDimension": 2}, "has no vectorDistanceFunction"),
        (
            {"vectorIndexType": "HSNW"},
            "'HSNW' of 'v' is not one of HNSW, IVF_FLAT, IVF_PQ, IVF_ON_DISK",
        ),
        ({"properties": {"nlist": "3"}}, "the property nlist is unknown to HNSW"),
        ({"properties": {"maxCon": "x"}}, 'maxCon: "x" is not a whole number'),
        ({"properties": {"maxCon": "1"}}, "maxCon is 1; it must be 2 to 512"),
        (
            {"vectorIndexType": "IVF_FLAT", "properties": {"nlist": "9", "trainSampleSize": "8"}},
            "at least nlist, which is 9",
        ),
        ({"vectorIndexType": "IVF_PQ", "properties": {"nlist": "9"}}, "IVF_PQ needs the properties pqM, pqNbits"),
    ],
)
def test_settings_of_vector_indexes_without_sense_are_refused(db: Database, vector: dict[str, object], says: str) -> None:
    given = {"vectorDimension": 2, "vectorDistanceFunction": "L2", **vector}
    if says.startswith(("vectorDimension", "has no")):
        given = vector
    field = {"name": "v", "encodingType": "RAW", "indexes": {"vector": given}}
    with pytest.raises(InvalidConfigError, match=re.escape(says)):
        db.create_table("wrong", None, {**_SCHEMA, "schemaName": "wrong"}, {"fieldConfigList": [field]})


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
