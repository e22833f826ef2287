"""Columns of type MAP through `gamay.connect`: from files and DataFrames of all kinds, in every clause of a query."""

import csv
import json
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import fastavro
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gamay
from gamay.base.errors import InvalidConfigError, QueryError, RecordError
from gamay.embedded import Database

MAPS: list[dict[str, int] | None] = [{"b": 2, "a": 1}, {}, {"a": 7, 'q"é': 5}, None, {"a": 1}, {"b": -3}]
KEPT = [{} if one is None else dict(sorted(one.items())) for one in MAPS]
INT_MIN = -(2**31)


def schema(name: str, kind: str = "INT", **more: Any) -> dict[str, Any]:
    children = {"key": {"dataType": "STRING"}, "value": {"dataType": kind}}
    return {
        "schemaName": name,
        "dimensionFieldSpecs": [{"name": "id", "dataType": "INT"}],
        "complexFieldSpecs": [{"name": "m", "dataType": "MAP", "childFieldSpecs": children, **more}],
    }


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with gamay.connect(tmp_path_factory.mktemp("maps") / "data") as database:
        database.settings.null_handling = False
        texts = [None if one is None else json.dumps(one) for one in MAPS]
        database.create_table("t", pa.table({"id": range(3), "m": texts[:3]}), schema("t"))
        database.append("t", pa.table({"id": range(3, 6), "m": texts[3:]}))  # another segment
        yield database


@pytest.mark.parametrize("form", ["json", "parquet", "avro", "csv", "pandas", "polars", "structs", "entries"])
def test_maps_of_files_and_frames(db: Database, tmp_path: Path, form: str) -> None:
    rows = [{"id": n, "m": one} for n, one in enumerate(MAPS)]
    path = tmp_path / f"rows.{form}"
    pairs = [None if one is None else list(one.items()) for one in MAPS]
    source: Any = str(path)
    if form == "json":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif form == "parquet":
        pq.write_table(pa.table({"id": range(6), "m": pa.array(pairs, pa.map_(pa.string(), pa.int32()))}), path)
    elif form == "avro":
        kind = {"type": "map", "values": "int"}
        record = {
            "type": "record",
            "name": "r",
            "fields": [{"name": "id", "type": "int"}, {"name": "m", "type": ["null", kind]}],
        }
        with path.open("wb") as out:
            fastavro.writer(out, record, rows)
    elif form == "csv":
        with path.open("w", newline="") as out:
            writer = csv.writer(out)
            writer.writerows([("id", "m"), *((row["id"], "" if row["m"] is None else json.dumps(row["m"])) for row in rows)])
    elif form == "pandas":
        source = pandas.DataFrame({"id": range(6), "m": [None if one is None else json.dumps(one) for one in MAPS]})
    elif form == "polars":
        source = polars.DataFrame(
            rows,
            schema={"id": polars.Int32, "m": polars.Struct({"a": polars.Int64, "b": polars.Int64, 'q"é': polars.Int64})},
        )
    elif form == "structs":
        source = pa.table({"id": range(6), "m": pa.array(MAPS)})
    else:
        listed = [None if one is None else [{"key": k, "value": v} for k, v in one.items()] for one in MAPS]
        source = pa.table({"id": range(6), "m": pa.array(listed)})
    db.create_table(form, source, schema(form))
    assert db.sql(f"SELECT id, m FROM {form} ORDER BY id").rows() == list(enumerate(KEPT))
    found = db.sql(f"""SELECT m['a'], item(m, 'q"é') FROM {form} ORDER BY id""").rows()
    assert found == [(one.get("a", INT_MIN), one.get('q"é', INT_MIN)) for one in KEPT]


def test_types_and_names(db: Database) -> None:
    result = db.sql("SELECT id, m, m['a'], m['b'] AS b, sum(m['a']) FROM t GROUP BY id, m, m['a'], m['b'] ORDER BY id")
    assert result.columns == ("id", "m", "item(m,'a')", "b", "sum(item(m,'a'))")
    assert result.types == ("INT", "MAP", "INT", "INT", "DOUBLE")
    assert result.rows()[0] == (0, {"a": 1, "b": 2}, 1, 2, 1.0)
    table = db.sql("SELECT id, m FROM t ORDER BY id").to_arrow()
    assert table.schema.field("m").type == pa.map_(pa.string(), pa.int64())
    assert table.column("m").to_pylist(maps_as_pydicts="strict") == KEPT
    assert db.sql("SELECT m FROM t ORDER BY id").to_pandas()["m"].tolist() == KEPT
    assert db.sql("SELECT m FROM t WHERE id > 9").to_arrow().schema.field("m").type == pa.map_(pa.string(), pa.string())


def test_one_shape_with_other_keys_is_another_query(db: Database) -> None:
    """The plan of a text is kept with its constants taken out: the key of a map is one of them."""
    for _ in range(3):
        for key in ("a", "b", "none"):
            wanted = [one.get(key, INT_MIN) for one in KEPT]
            result = db.sql(f"SELECT m['{key}'] FROM t ORDER BY id")
            assert (result.columns, result.rows()) == ((f"item(m,'{key}')",), [(value,) for value in wanted])
            for number in (1, 2, 7, INT_MIN):
                rows = db.sql(f"SELECT id FROM t WHERE m['{key}'] = {number} ORDER BY id").rows()
                assert rows == [(n,) for n, value in enumerate(wanted) if value == number != INT_MIN]
            rows = db.sql(f"SELECT item(m, '{key}'), count(*) FROM t GROUP BY item(m, '{key}') ORDER BY 1").rows()
            assert rows == [(value, wanted.count(value)) for value in sorted(set(wanted))]


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("m['a'] = 1", [0, 4]),
        ("m['a'] <> 1", [2]),  # where the key is missing, this is unknown
        ("m['a'] IN (1, 7) AND m['b'] > 0", [0]),
        ("m['a'] NOT IN (1, 7)", []),
        ("m['a'] BETWEEN 2 AND 9", [2]),
        ("NOT m['b'] < 0", [0]),
        ("m['a'] = '7'", [2]),
        ("m['a'] + m['b'] = 3", [0]),
        ("CAST(m['a'] AS STRING) LIKE '1%'", [0, 4]),
        ("m['q\"é'] = 5", [2]),
        ("t.m['a'] = 7 OR M['b'] = -3", [2, 5]),
        ("""m = '{"b": 2, "a": 1}'""", [0]),
        ("m = '{}'", [1, 3]),
        ("""m IN ('{"a":1}', '{"b":-3}')""", [4, 5]),
        ("""JSON_MATCH(m, '"$.a" > 1')""", [2]),
        ("""JSON_MATCH(m, '"$.b" IS NOT NULL')""", [0, 5]),
        ("jsonExtractScalar(m, '$.a', 'INT', 0) = 1", [0, 4]),
    ],
)
def test_conditions(db: Database, condition: str, ids: list[int]) -> None:
    assert [row[0] for row in db.sql(f"SELECT id FROM t WHERE {condition} ORDER BY id").rows()] == ids


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT id['a'] FROM t", "'id' is not a MAP; write m"),
        ("SELECT m[1] FROM t", "the key is not a constant text"),
        ("SELECT item(m, id) FROM t", "the key is not a constant text"),
        ("SELECT x['a'] FROM t", "Unknown columnName 'x'"),
        ("SELECT id FROM t WHERE m['a']", "compare it with something"),
        ("SELECT id FROM t WHERE m = 'x'", "'x' is not a JSON object"),
        ("SELECT CASE WHEN id = 1 THEN m ELSE 'x' END FROM t", "cannot be read as MAP"),
        ("SELECT arrayAgg(m, 'MAP') FROM t", "the type of the elements, .* not 'MAP'"),
        ("SELECT item('{}', 'a')", "FROM is missing|argument 1 is not a column|write m"),
    ],
)
def test_what_is_refused(db: Database, sql: str, told: str) -> None:
    with pytest.raises(QueryError, match=told):
        db.sql(sql)


def test_values_that_are_none_are_refused_when_they_come_in(db: Database) -> None:
    db.create_table("strict", None, schema("strict"))
    for text in ('{"a": "x"}', '{"a": 1.5}', "[1]", "no json"):
        with pytest.raises(RecordError, match=r"column 'm'.*is not a valid MAP"):
            db.append("strict", pa.table({"id": [1], "m": [text]}))
    assert db.sql("SELECT count(*) FROM strict").rows() == [(0,)]


def test_indexes_of_maps_are_refused(db: Database) -> None:
    with pytest.raises(InvalidConfigError, match="the MAP column 'm' cannot have an inverted index"):
        db.create_table("indexed", None, schema("indexed"), {"tableIndexConfig": {"invertedIndexColumns": ["m"]}})


def test_a_map_that_is_added_has_its_default(db: Database) -> None:
    plain = {"schemaName": "grown", "dimensionFieldSpecs": [{"name": "id", "dataType": "INT"}]}
    db.create_table("grown", pa.table({"id": [1, 2]}), plain)
    core = db._cluster
    core.schemas.replace("grown", schema("grown", defaultNullValue={"a": 4}))
    core.routing.wait_until(lambda: "m" in core.routing.find("grown")[0].schema, 60)
    result = db.sql("SELECT id, m, m['a'], m['b'] FROM grown ORDER BY id")
    assert result.rows() == [(n, {"a": 4}, 4, INT_MIN) for n in (1, 2)]
    db.append("grown", pa.table({"id": [3], "m": ['{"b":1}']}))
    assert db.sql("SELECT id FROM grown WHERE m['b'] = 1").rows() == [(3,)]
    nulls = db.sql("SELECT id FROM grown WHERE m['b'] IS NULL ORDER BY id", enableNullHandling=True)
    assert nulls.rows() == [(1,), (2,)]


def test_maps_over_rest(api: Any) -> None:
    document = schema("rest", "LONG")
    assert api.controller.post("/schemas/validate", json=document).status_code == 200
    assert api.controller.post("/schemas", json=document).status_code == 200
    shown = api.controller.get("/schemas/rest").json()
    assert shown["complexFieldSpecs"][0]["childFieldSpecs"]["value"] == {
        "name": "value", "dataType": "LONG", "fieldType": "DIMENSION",
    }  # fmt: skip
    assert api.controller.put("/schemas/rest", json=shown).status_code == 200
    assert api.controller.get("/schemas/rest").json() == shown
    refused = api.controller.put("/schemas/rest", json=schema("rest", "STRING"))
    assert refused.status_code == 400
    assert "the value of column 'm' changes its type from LONG to STRING" in refused.text
    (info,) = api.controller.get("/schemas/info").json()["schemasInfo"]
    assert info["numComplexFields"] == 1
    assert api.controller.get("/schemas/fieldSpec").json()["fieldTypes"]["COMPLEX"] == {
        "allowedDataTypes": {"MAP": {"nullDefault": "{}"}}
    }
    wrong = api.controller.post("/schemas", json={**document, "complexFieldSpecs": [{"name": "m", "dataType": "LIST"}]})
    assert wrong.status_code == 400
    assert "LIST columns are not supported; store the value as JSON" in wrong.text
    table = {"tableName": "rest", "tableType": "OFFLINE", "segmentsConfig": {"replication": "1"}, "tenants": {}}
    indexed = api.controller.post("/tables", json={**table, "tableIndexConfig": {"rangeIndexColumns": ["m"]}})
    assert indexed.status_code == 400
    assert "the MAP column 'm' cannot have a range index" in indexed.text
    assert api.controller.post("/tables", json={**table, "tableIndexConfig": {}}).status_code == 200
    api.cluster.core.wait_until_routed("rest_OFFLINE")
    lines = "".join(json.dumps({"id": n, "m": one}) + "\n" for n, one in enumerate(MAPS))
    parameters = {"tableNameWithType": "rest_OFFLINE", "batchConfigMapStr": '{"inputFormat":"json"}'}
    answer = api.controller.post("/ingestFromFile", params=parameters, files={"file": ("rows.json", lines)})
    assert answer.status_code == 200, answer.text
    sql = "SELECT id, m FROM rest ORDER BY id"
    api.cluster.core.routing.wait_until(lambda: api.query("SELECT COUNT(*) FROM rest")["resultTable"]["rows"] == [[6]], 60)
    assert api.rows(sql) == [[n, one] for n, one in enumerate(KEPT)]
    first = api.broker.post("/query/sql?getCursor=true&numRows=4", json={"sql": sql}).json()
    assert first["resultTable"]["rows"] == [[n, one] for n, one in enumerate(KEPT[:4])]
    rest = api.broker.get(f"/responseStore/{first['requestId']}/results?offset=4&numRows=4").json()
    assert rest["resultTable"]["rows"] == [[n + 4, one] for n, one in enumerate(KEPT[4:])]


# a condition on {}, and what it says of a value
CONDITIONS: list[tuple[str, Callable[[int], bool]]] = [
    ("{} <= 4", lambda v: v <= 4),
    ("4 >= {}", lambda v: v <= 4),
    ("{} = 1", lambda v: v == 1),
    ("{} <> 1", lambda v: v != 1),
    ("{} BETWEEN -3000000000 AND 4", lambda v: v <= 4),
    ("{} NOT BETWEEN 3 AND 5", lambda v: not 3 <= v <= 5),
    ("{} IN (1, 2)", lambda v: v in (1, 2)),
    ("{} NOT IN (1, 2)", lambda v: v not in (1, 2)),
    ("CAST({} AS STRING) LIKE '%'", lambda v: True),
    ("CAST({} AS STRING) NOT LIKE '7'", lambda v: v != 7),
    ("{} + 1 <= 5", lambda v: v <= 4),
    ("NOT ({} <= 4 OR id = 100)", lambda v: v > 4),
    ("{} IS NOT NULL", lambda v: True),
    ("CASE WHEN {} <= 4 THEN id ELSE -1 END >= 0", lambda v: v <= 4),
]


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    fields = [
        {"name": "ks", "dataType": "STRING", "singleValueField": False},
        {"name": "vs", "dataType": "INT", "singleValueField": False},
    ]
    declared = schema("keyed")
    rows = [
        {"id": n, "m": json.dumps(one), "ks": list(one) or ["z"], "vs": list(one.values()) or [0]}
        for n, one in enumerate(KEPT)
    ]
    with gamay.connect(tmp_path_factory.mktemp("keyed") / "data") as database:
        database.settings.null_handling = False
        for name, raw in (("coded", []), ("raw", ["ks", "vs"])):
            whole = {**declared, "schemaName": name, "dimensionFieldSpecs": [*declared["dimensionFieldSpecs"], *fields]}
            config = {"tableIndexConfig": {"noDictionaryColumns": raw}}
            database.create_table(name, pa.Table.from_pylist(rows), schema=whole, config=config)
        yield database


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize(("condition", "holds"), CONDITIONS)
def test_a_condition_on_a_missing_key_is_unknown(
    keyed: Database, condition: str, holds: Callable[[int], bool], nulls: bool
) -> None:
    for key, table, form in product(["a", "b", "none"], ["coded", "raw"], ["mapValue(ks, '{}', vs)", "m['{}']"]):
        test = condition.format(form.format(key))
        wanted = [n for n, one in enumerate(KEPT) if key in one and holds(one[key])]
        denied = [n for n, one in enumerate(KEPT) if key in one and not holds(one[key])]
        denied = denied if "NULL" not in test and "CASE" not in test else [n for n in range(len(KEPT)) if n not in wanted]
        for text, expected in ((test, wanted), (f"NOT ({test})", denied)):
            option = f"SET enableNullHandling = {str(nulls).lower()};"
            found = keyed.sql(f"{option} SELECT id FROM {table} WHERE {text} ORDER BY id").rows()
            assert [row[0] for row in found] == expected, text
            counted = keyed.sql(f"{option} SELECT COUNT(*) FILTER (WHERE {text}) FROM {table}").rows()
            assert counted == [(len(expected),)], text
            chosen = keyed.sql(f"{option} SELECT SUM(CASE WHEN {text} THEN 1 ELSE 0 END) FROM {table}").rows()
            assert chosen == [(float(len(expected)),)], text
