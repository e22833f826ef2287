"""A column added to the schema of a table with segments has its default value, before and after a reload."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.waiting import eventually

SCHEMA = {
    "schemaName": "trips",
    "dimensionFieldSpecs": [
        {"name": "city", "dataType": "STRING"},
        {"name": "kind", "dataType": "STRING", "defaultNullValue": "unknown"},
        {"name": "tags", "dataType": "STRING", "singleValueField": False},
    ],
    "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}, {"name": "tip", "dataType": "DOUBLE"}],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP", "granularity": "1:MILLISECONDS"}
    ],
}


def check(trips: Any) -> None:
    assert trips.rows("SELECT kind, count(*), sum(tip), sum(n) FROM trips GROUP BY kind") == [["unknown", 3, 0.0, 6.0]]
    assert trips.rows("SELECT n, kind, tags FROM trips WHERE kind = 'unknown' ORDER BY n LIMIT 1") == [
        [1, "unknown", ["null"]]
    ]
    assert trips.rows("SELECT count(*) FROM trips WHERE kind <> 'unknown' OR tip > 0 OR tags = 'x'") == [[0]]


def test_a_new_column_answers_its_default(trips: Any, make_segment: Callable[..., Path]) -> None:
    trips.push(make_segment("trips_0", [1, 2, 3]))
    answer = trips.controller.put("/schemas/trips", json=SCHEMA)
    assert answer.status_code == 200, answer.text
    core = trips.cluster.core
    assert core.routing.wait_until(lambda: "kind" in core.routing.find("trips")[0].schema, 60)
    check(trips)
    table = {
        "tableName": "trips",
        "tableType": "OFFLINE",
        "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
        "tenants": {},
        "tableIndexConfig": {"invertedIndexColumns": ["kind"]},
    }
    assert trips.controller.put("/tables/trips", json=table).status_code == 200
    job = trips.controller.post("/segments/trips/reload").json()["status"].split('"reloadJobId":"')[1].split('"')[0]
    eventually(lambda: trips.controller.get(f"/segments/segmentReloadStatus/{job}").json()["successCount"] >= 1)
    check(trips)
