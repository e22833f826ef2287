"""Columns of type MAP from a stream: sealed and consuming segments, queried over REST and by the clients."""

from collections.abc import Callable
from typing import Any

import httpx
import orjson
import pyarrow as pa
import pytest

from gamay.client import connect

SCHEMA = {
    "schemaName": "t",
    "enableColumnBasedNullHandling": True,
    "dimensionFieldSpecs": [{"name": "id", "dataType": "INT"}],
    "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
    "complexFieldSpecs": [
        {
            "name": "m",
            "dataType": "MAP",
            "fieldType": "COMPLEX",
            "childFieldSpecs": {
                "key": {"name": "key", "dataType": "STRING", "fieldType": "DIMENSION"},
                "value": {"name": "value", "dataType": "LONG", "fieldType": "METRIC"},
            },
        }
    ],
}
KEYS = ("a", "b", "no such key")


def sent(number: int) -> dict[str, Any] | None:
    """Return the map of a row in the stream: values as numbers and as text, keys in any order, none, or no map at all."""
    if number % 7 == 6:
        return None
    return {"b": number, "a": str(number % 3)} if number % 2 else {"b": None, "a": number % 3} if number % 5 else {}


def kept(number: int) -> dict[str, int]:
    return {key: int(value) for key, value in sorted((sent(number) or {}).items()) if value is not None}


def ask(table: Any, sql: str) -> tuple[list[str], list[list[Any]]]:
    answer = table.ask(sql)
    assert answer["exceptions"] == [], (sql, answer["exceptions"])
    return answer["resultTable"]["dataSchema"]["columnDataTypes"], answer["resultTable"]["rows"]


@pytest.fixture
def filled(make_realtime: Callable[..., Any], eventually: Callable[..., None]) -> Any:
    """Return table t of 13 rows: two segments of five, and three rows in a consuming one."""
    table = make_realtime(segment_rows=5, start=False)
    table.start()
    table.rest("POST", "/schemas", json=SCHEMA)
    table.rest("POST", "/tables", json=table.table)
    lines = [orjson.dumps({"id": n, "ts": 1_700_000_000_000 + n, "m": sent(n)}) for n in range(13)]
    table.producer.send(pa.array(lines, pa.binary()), partition=0)
    eventually(lambda: table.ask("SELECT COUNT(*) FROM t").get("resultTable", {}).get("rows") == [[13]])
    eventually(lambda: sorted(table.segments().values()) == ["CONSUMING", "ONLINE", "ONLINE"])
    return table


def test_maps_of_a_stream(filled: Any) -> None:
    assert filled.rest("GET", "/schemas/t")["complexFieldSpecs"] == SCHEMA["complexFieldSpecs"]
    every = {number: kept(number) for number in range(13)}
    types, rows = ask(filled, "SELECT id, m, m['a'], item(m, 'b') FROM t ORDER BY id LIMIT 20")
    assert types == ["INT", "MAP", "LONG", "LONG"]
    assert rows == [[n, one, one.get("a", 0), one.get("b", 0)] for n, one in every.items()]
    nulls = "SET enableNullHandling = true; "
    _, rows = ask(filled, nulls + "SELECT id, m['a'], m['b'], m FROM t ORDER BY id LIMIT 20")
    assert rows == [[n, one.get("a"), one.get("b"), None if sent(n) is None else one] for n, one in every.items()]
    for key in KEYS:
        _, rows = ask(filled, f"SELECT id FROM t WHERE m['{key}'] IN (1, 5, 9) ORDER BY id LIMIT 20")
        assert [row[0] for row in rows] == [n for n, one in every.items() if one.get(key) in (1, 5, 9)]
        _, rows = ask(filled, f"{nulls}SELECT id FROM t WHERE m['{key}'] IS NULL ORDER BY id LIMIT 20")
        assert [row[0] for row in rows] == [n for n, one in every.items() if key not in one]
        _, rows = ask(filled, f"{nulls}SELECT id FROM t WHERE NOT m['{key}'] BETWEEN 1 AND 7 ORDER BY id LIMIT 20")
        assert [row[0] for row in rows] == [n for n, one in every.items() if key in one and not 1 <= one[key] <= 7]
        known = [one[key] for one in every.values() if key in one]
        _, rows = ask(filled, f"{nulls}SELECT COUNT(m['{key}']), SUM(m['{key}']), MAX(m['{key}']) FROM t")
        assert rows == [[len(known), sum(known) if known else None, max(known, default=None)]]
        groups = dict[Any, int]()
        for one in every.values():
            groups[one.get(key, 0)] = groups.get(one.get(key, 0), 0) + 1
        types, rows = ask(filled, f"SELECT m['{key}'], COUNT(*) FROM t GROUP BY m['{key}'] ORDER BY m['{key}'] LIMIT 20")
        assert (types, rows) == (["LONG", "LONG"], [[value, groups[value]] for value in sorted(groups)])
    _, rows = ask(filled, "SELECT id FROM t WHERE JSON_MATCH(m, '\"$.a\" = ''2''') ORDER BY m['b'] DESC, id LIMIT 20")
    assert [row[0] for row in rows] == sorted(
        (n for n, one in every.items() if one.get("a") == 2), key=lambda n: (-every[n].get("b", 0), n)
    )
    _, rows = ask(filled, "SELECT DISTINCT m FROM t WHERE id < 5 LIMIT 20")
    assert sorted(map(repr, rows)) == sorted({repr([every[n]]) for n in range(5)})
    _, rows = ask(filled, "SELECT SUM(jsonExtractScalar(m, '$.b', 'LONG', 0)) FROM t")
    assert rows == [[sum(one.get("b", 0) for one in every.values())]]


def test_maps_in_the_clients(filled: Any) -> None:
    sql = "SELECT id, m FROM t WHERE id IN (1, 2, 6) ORDER BY id"
    rows = [(n, kept(n)) for n in (1, 2, 6)]
    assert filled.cluster is not None
    with connect(filled.cluster.broker_url) as connection:
        answer = connection.execute(sql)
        assert answer.rows() == rows
        table = answer.to_arrow()
        assert table.schema.field("m").type == pa.map_(pa.string(), pa.int64())
        assert table.column("m").to_pylist(maps_as_pydicts="strict") == [one for _, one in rows]
        assert answer.to_pandas()["m"].tolist() == [one for _, one in rows]
        assert len(answer.to_polars()) == 3
    legacy = httpx.post(filled.cluster.broker_url + "/query", json={"pql": "SELECT id, m FROM t WHERE id = 1"}).json()
    assert legacy["selectionResults"]["results"] == [["1", '{"a":1,"b":1}']]
