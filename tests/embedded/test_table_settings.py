"""The effects of table settings, as seen by a user."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.embedded import conftest
from tests.waiting import eventually

import gamay

DAY = {"dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}]}
SCHEMA = {
    "schemaName": "t",
    "dimensionFieldSpecs": [{"name": "k", "dataType": "INT"}],
    "metricFieldSpecs": [{"name": "n", "dataType": "INT"}],
    **DAY,
}


def _config(**parts: Any) -> dict[str, Any]:
    partitioned = {"columnPartitionMap": {"k": {"functionName": "Modulo", "numPartitions": 2}}}
    return {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"timeColumnName": "day", "replication": "1"},
        "tenants": {},
        "tableIndexConfig": {"segmentPartitionConfig": partitioned},
        **parts,
    }


# by pruners: how many of the two segments remain for a day, for a partition of k, and for a value of another column
@pytest.mark.parametrize(
    ("pruners", "left"),
    [
        (None, (1, 1, 1)),
        ([], (2, 2, 2)),
        (["time"], (1, 2, 2)),
        (["partition"], (2, 1, 2)),
        (["time", "partition", "empty"], (1, 1, 2)),
    ],
)
def test_segments_are_pruned_by_the_pruners_that_a_table_names(
    tmp_path: Path, pruners: list[str] | None, left: tuple[int, ...]
) -> None:
    routing = {} if pruners is None else {"segmentPrunerTypes": pruners}
    with gamay.connect(tmp_path) as db:
        first = pd.DataFrame({"k": [0, 2], "n": [1, 2], "day": [16_000, 16_001]})
        db.create_table("t", first, schema=SCHEMA, config=_config(routing=routing))
        db.append("t", pd.DataFrame({"k": [1, 3], "n": [11, 12], "day": [16_010, 16_011]}))
        for where, expected, rows in zip(("day = 16000", "k = 1", "n = 12"), left, (1, 1, 1), strict=True):
            answer = db.sql(f"SELECT COUNT(*) FROM t WHERE {where}")
            assert [tuple(row) for row in answer.rows()] == [(rows,)]
            assert 2 - answer.stats.num_segments_pruned_by_broker == expected, where


def test_exact_functions_are_approximate_where_the_table_says_so(api: Any, make_segment: Callable[..., Path]) -> None:
    api.create(conftest.SCHEMA, {**conftest.TABLE, "query": {"useApproximateFunction": True}})
    api.push(make_segment("trips_0", [1, 2, 3]))
    sql = "SELECT DISTINCTCOUNT(n), COUNT(DISTINCT n) AS d, PERCENTILE(n, 50), PERCENTILE50(n), SUM(n) FROM trips"
    table = api.query(sql)["resultTable"]
    median = "percentilesmarttdigest(n, 50.0)"
    assert table["dataSchema"]["columnNames"] == ["distinctcountsmarthll(n)", "d", median, median, "sum(n)"]
    assert table["rows"] == [[3, 3, 2.0, 2.0, 6.0]]
    api.controller.put("/tables/trips", json=conftest.TABLE)
    eventually(lambda: api.query(sql)["resultTable"]["dataSchema"]["columnNames"][0] == "distinctcount(n)")


def test_expressions_are_read_as_the_table_says(api: Any, make_segment: Callable[..., Path]) -> None:
    def setting(**by: str) -> dict[str, Any]:
        return {**conftest.TABLE, "query": {"expressionOverrideMap": by}}

    api.create(conftest.SCHEMA, setting(**{"n * 10": "n + 1000", "UPPER(city)": "'town'"}))
    api.push(make_segment("trips_0", [1, 2, 3]))
    answer = api.query("SELECT n * 10, n * 10 AS ten, n*2 FROM trips WHERE n*10 > 1001 ORDER BY n * 10 DESC LIMIT 5")
    assert answer["resultTable"]["dataSchema"]["columnNames"] == ["plus(n,'1000')", "ten", "times(n,'2')"]
    assert answer["resultTable"]["rows"] == [[1003.0, 1003.0, 6.0], [1002.0, 1002.0, 4.0]]
    grouped = "SELECT upper(city), SUM(10 + n * 10) FROM trips GROUP BY upper(city) HAVING SUM(n * 10) > 0"
    assert api.rows(grouped) == api.rows(grouped) == [["town", 3036.0]]  # the second one could be of a known shape
    api.controller.put("/tables/trips", json=conftest.TABLE)
    eventually(lambda: api.rows("SELECT SUM(n * 10) FROM trips") == [[60.0]])
    api.controller.put("/tables/trips", json=setting(**{"n * 10": "n"}))
    eventually(lambda: api.rows("SELECT SUM(n * 10) FROM trips") == [[6.0]])
    refused = api.controller.put("/tables/trips", json=setting(**{"n *": "n"}))
    assert (refused.status_code, "query.expressionOverrideMap, 'n *'" in refused.json()["error"]) == (400, True)
