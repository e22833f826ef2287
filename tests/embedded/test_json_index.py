"""JSON indexes of tables: answers of queries, adding and removing by the table config, and damage."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.embedded.conftest import Api
from tests.waiting import eventually

import gamay
from gamay.base.clock import SYSTEM_CLOCK
from gamay.embedded.database import Database
from gamay.model.schema.schema import Schema
from gamay.model.table.secondary_indexes import declared_indexes
from gamay.model.table.table_config import TableConfig
from gamay.segment.describe import describe
from gamay.segment.write.builder import SegmentBuilder
from gamay.segment.write.secondary_indexes import add_indexes
from gamay.storage.archive import pack

ROWS = 1500
SCHEMA: dict[str, Any] = {
    "schemaName": "t",
    "enableColumnBasedNullHandling": True,
    "dimensionFieldSpecs": [
        {"name": "id", "dataType": "INT"},
        {"name": "j", "dataType": "JSON"},
        {"name": "s", "dataType": "STRING"},
        {"name": "raw", "dataType": "JSON"},
    ],
    "complexFieldSpecs": [
        {
            "name": "m", "dataType": "MAP", "fieldType": "COMPLEX",
            "childFieldSpecs": {
                "key": {"name": "key", "dataType": "STRING", "fieldType": "DIMENSION"},
                "value": {"name": "value", "dataType": "LONG", "fieldType": "METRIC"},
            },
        }
    ],
}  # fmt: skip
CONFIG = {
    "tableIndexConfig": {"jsonIndexColumns": ["j"], "jsonIndexConfigs": {"raw": {}}, "noDictionaryColumns": ["raw"]},
    "fieldConfigList": [
        {"name": "s", "indexTypes": ["JSON"], "properties": {"maxLevels": "3", "skipInvalidJson": "true"}},
        {"name": "m", "indexes": {"json": {}}},
    ],
}


def document(row: int) -> str | None:
    items = [{"k": row % 3, "p": row / 2}, {"k": 1, "p": -row}]
    found = {"a": {"b": row % 100, "c": f"c{row}"}, "items": items[: row % 4], "tags": [f"t{row % 9}", "z"], "none": None}
    return None if row % 50 == 7 else json.dumps(found)


def data() -> pa.Table:
    rows = range(ROWS)
    documents = [document(row) for row in rows]
    texts = ["no json" if row % 100 == 3 else document(row) for row in rows]
    maps = [{"x": row, "y": row % 5} for row in rows]
    return pa.table({"id": pa.array(rows, pa.int32()), "j": documents, "s": texts, "raw": documents, "m": maps})


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with gamay.connect(tmp_path_factory.mktemp("json") / "db") as opened:
        opened.create_table("t", data(), SCHEMA, CONFIG)
        yield opened


CONDITIONS = [
    """'"$.a.c" = ''c77'''""",
    """'"$.a.b" >= 98'""",
    """'"$.a.b" <> 5 AND "$.tags[*]" = ''t3'''""",
    """'"$.items[*].k" = 2 AND "$.items[*].p" > 700'""",
    """'"$.items[1].k" = 1'""",
    """'"$.a.c" LIKE ''c12%'' OR "$.a.b" IN (3, 4)'""",
    """'REGEXP_LIKE("$.a.c", ''c1[0-3]'')'""",
    """'"$.items[*].p" BETWEEN -3 AND 3'""",
    """'"$.none" IS NULL'""",
    """'"$.a" IS NOT NULL'""",
    """'"$.tags[*]" NOT IN (''z'', ''t1'')'""",
    """'"$.items[*].deep.deeper[*]" = 1'""",
]


@pytest.mark.parametrize("column", ["j", "s", "raw"])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_answers_are_those_of_the_scan(db: Database, column: str, condition: str) -> None:
    match = f"JSON_MATCH({column}, {condition})"
    for where in (match, f"NOT {match}", f"{match} AND id < 700", f"{match} OR id = 7", f"NOT ({match} OR id % 2 = 0)"):
        for nulls in (False, True):
            text = f"SELECT COUNT(*), SUM(id), MIN(id) FROM t WHERE {where}"
            found, scanned = (
                db.sql(text, enableNullHandling=nulls, **more).rows() for more in ({}, {"skipIndexes": f"{column}=json"})
            )
            assert found == scanned, where


def plan(db: Database, where: str, **options: Any) -> str:
    return " ".join(row[0] for row in db.sql(f"EXPLAIN PLAN FOR SELECT id FROM t WHERE {where}", **options).rows())


def test_maps_and_extracted_values_are_looked_up(db: Database) -> None:
    for where in (
        """JSON_MATCH(m, '"$.x" = 17')""",
        "jsonExtractScalar(j, '$.a.c', 'STRING', '') = 'c40'",
        "jsonExtractScalar(raw, '$.a.b', 'LONG', -1) IN (1, 2)",
        "jsonExtractIndex(j, '$.a.c', 'STRING', 'none') IN ('c40', 'c41', 'x')",
    ):
        column = where.partition("(")[2].partition(",")[0]
        assert "FILTER_JSON_INDEX" in plan(db, where), where
        assert "FILTER_JSON_INDEX" not in plan(db, where, skipIndexes=f"{column}=json")
        text = f"SELECT id FROM t WHERE {where} ORDER BY id LIMIT 100"
        found = db.sql(text).rows()
        assert found
        assert found == db.sql(text, skipIndexes=f"{column}=json").rows()


def test_what_the_settings_leave_out_is_scanned(db: Database) -> None:
    where = """JSON_MATCH(s, '"$.items[*].deep.deeper" IS NULL')"""  # of four levels and more
    assert "FILTER_JSON_INDEX" in plan(db, where.replace(".deep.deeper", ".deep"))
    assert "FILTER_JSON_INDEX" not in plan(db, where)
    for nulls, left_out in ((False, 15), (True, 45)):  # texts that are no JSON, and 30 rows that are null
        found = db.sql(f"SELECT COUNT(*) FROM t WHERE {where}", enableNullHandling=nulls)
        assert found.rows() == [(ROWS - left_out,)]


def test_only_candidates_are_read(db: Database) -> None:
    where = """JSON_MATCH(raw, '"$.items[*].k" = 2 AND "$.items[*].p" BETWEEN 25 AND 25.5')"""
    found = db.sql(f"SELECT id FROM t WHERE {where}")
    assert found.rows() == [(50,)]
    assert 0 < found.stats.num_entries_scanned_in_filter < 10


def test_damage_is_found_and_the_index_built_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = """SELECT id FROM t WHERE JSON_MATCH(raw, '"$.a.c" = ''c77''')"""
    with gamay.connect(tmp_path / "db") as db:
        db.create_table("t", data(), SCHEMA, CONFIG)
        expected = db.sql(text).rows()
    for file in (tmp_path / "db").rglob("index.bin"):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 0x55
        file.write_bytes(content)
    with gamay.connect(tmp_path / "db") as db:
        assert db.sql(text).rows() == expected == [(77,)]
        assert "FILTER_JSON_INDEX" in plan(db, """JSON_MATCH(raw, '"$.a.c" = ''c77''')""")
    assert "is damaged" in caplog.text


TABLE: dict[str, Any] = {
    "tableName": "trips", "tableType": "OFFLINE", "segmentsConfig": {"replication": "1"}, "tenants": {},
    "tableIndexConfig": {"noDictionaryColumns": ["raw"]},
}  # fmt: skip
PLAIN = {
    "schemaName": "trips",
    "dimensionFieldSpecs": [{"name": "id", "dataType": "INT"}, {"name": "raw", "dataType": "JSON"}],
}


def built(folder: Path, name: str) -> Path:
    builder = SegmentBuilder(Schema.from_json(PLAIN).value, TableConfig.from_json(TABLE).value, name, folder)
    builder.append(data().select(["id", "raw"]).combine_chunks().to_batches()[0])
    return builder.build()


def shown(api: Api, query: str) -> bool:
    return "FILTER_JSON_INDEX" in str(api.rows(f"EXPLAIN PLAN FOR {query}"))


def test_indexes_follow_the_config_and_answers_stay(api: Api, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    api.create(PLAIN, TABLE)
    for name in ("a", "b"):
        api.push(pack(built(tmp_path / name, name), tmp_path / f"{name}.tar.gz"))
    query = """SELECT COUNT(*), SUM(id) FROM trips WHERE JSON_MATCH(raw, '"$.a.b" = 77')"""
    expected = api.rows(query)
    table = api.controller.get("/tables/trips").json()["OFFLINE"]
    stale = "/segments/trips_OFFLINE/needReload"
    settings: dict[str, Any] | None
    for settings, is_used in (({}, True), ({"maxLevels": 1}, False), ({"includePaths": ["$.a"]}, True), (None, False)):
        table["tableIndexConfig"]["jsonIndexConfigs"] = {} if settings is None else {"raw": settings}
        answer = api.controller.put("/tables/trips", json=table).json()
        assert "warnings" not in answer, answer
        assert api.controller.get(stale).json()["needReload"]
        assert api.rows(query) == expected
        api.controller.post("/segments/trips/reload")
        eventually(lambda: not api.controller.get(stale).json()["needReload"])
        assert shown(api, query) == is_used, settings
        assert api.rows(query) == expected
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_an_index_that_comes_with_an_archive_is_used_as_it_is(api: Api, tmp_path: Path) -> None:
    table: dict[str, Any] = {**TABLE, "tableIndexConfig": {**TABLE["tableIndexConfig"], "jsonIndexColumns": ["raw"]}}
    api.create(PLAIN, table)
    folder = built(tmp_path / "a", "a")
    declared = declared_indexes(TableConfig.from_json(table).value, Schema.from_json(PLAIN).value)
    add_indexes(folder, declared, SYSTEM_CLOCK)
    assert "\njson             raw" in describe(folder)
    pushed = (folder / "indexes" / "0" / "index.bin").read_bytes()
    api.push(pack(folder, tmp_path / "a.tar.gz"))
    assert shown(api, """SELECT id FROM trips WHERE JSON_MATCH(raw, '"$.a.b" = 77')""")
    copies = [file.read_bytes() for file in api.data_dir.rglob("index.bin")]
    assert copies
    assert all(copy == pushed for copy in copies)
