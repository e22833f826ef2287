"""Unmodified third-party clients."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pinotdb
import pytest
from sqlalchemy import MetaData, Table, create_engine, func, inspect, select


@pytest.fixture
def filled(trips: Any, make_segment: Callable[..., Path]) -> Any:
    trips.push(make_segment("trips_0", [1, 2, 3]))
    return trips


def test_pinotdb_dbapi(filled: Any) -> None:
    port = int(filled.cluster.broker_url.rpartition(":")[2])
    connection = pinotdb.connect(host="localhost", port=port, path="/query/sql", scheme="http")
    cursor = connection.cursor()
    cursor.execute("SELECT city, sum(n) AS total FROM trips WHERE n > %(low)s GROUP BY city ORDER BY city", {"low": 1})
    assert [column[0] for column in cursor.description] == ["city", "total"]
    assert list(cursor) == [["city0", 3.0], ["city2", 2.0]]
    cursor.execute("SELECT ts FROM trips ORDER BY ts LIMIT 1", queryOptions="timeoutMs=5000")
    assert next(iter(cursor))[0].isoformat() == "2023-11-14T22:13:20"
    # this way the client sends its options twice
    with_options = {"path": "/query/sql", "scheme": "http", "query_options": "timeoutMs=5000"}
    twice = pinotdb.connect(host="localhost", port=port, **with_options).execute("SELECT count(*) FROM trips")
    assert list(twice) == [[3]]
    with pytest.raises(pinotdb.exceptions.DatabaseError, match="190"):
        cursor.execute("SELECT 1 FROM nowhere")


def test_pinotdb_sqlalchemy(filled: Any) -> None:
    pytest.importorskip("requests", reason="the SQLAlchemy dialect of pinotdb imports requests without requiring it")
    port = int(filled.cluster.broker_url.rpartition(":")[2])
    engine = create_engine(f"pinot://localhost:{port}/query/sql?controller={filled.cluster.controller_url}/")
    assert "trips" in inspect(engine).get_table_names()
    table = Table("trips", MetaData(), autoload_with=engine)
    assert {column.name for column in table.columns} == {"city", "n", "ts"}
    statement = select(table.c.city, func.count()).group_by(table.c.city).order_by(table.c.city).limit(2)
    with engine.connect() as connection:
        assert [tuple(row) for row in connection.execute(statement)] == [("city0", 1), ("city1", 1)]


def test_the_help_page_needs_no_internet(api: Any) -> None:
    page = api.controller.get("/help").text
    references = re.findall(r'(?:src|href|url)\s*[=:]\s*["\']([^"\']+)', page)
    assert references
    assert [r for r in references if "://" in r or r.startswith("//")] == []
    for reference in references:
        assert api.controller.get(reference).status_code == 200, reference
    document = api.controller.get("/swagger.json").json()
    used = {tag for item in document["paths"].values() for operation in item.values() for tag in operation["tags"]}
    assert used == {tag["name"] for tag in document["tags"]}
    assert "securitySchemes" not in document.get("components", {})
    assert "/v2/segments" in document["paths"]
    operations = [(path, verb, op) for path, verbs in document["paths"].items() for verb, op in verbs.items()]
    assert [f"{verb} {path}" for path, verb, op in operations if not op.get("summary")] == []
    assert api.controller.get("/api").status_code in (200, 307)


def test_every_answer_carries_the_controller_headers(api: Any) -> None:
    for answer in (api.controller.get("/version"), api.controller.get("/nowhere"), api.controller.options("/tables")):
        assert answer.headers["Pinot-Controller-Version"]
        assert answer.headers["Pinot-Controller-Host"]
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert api.controller.options("/anything/at/all").status_code == 200
