"""Paging through answers by cursors, over HTTP."""

from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest

import gamay
from gamay.embedded import EmbeddedCluster

SQL = "SELECT n, s FROM trips ORDER BY n LIMIT 5000"
ROWS = [[i, f"s{i % 7}"] for i in range(2500)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    folder = tmp_path_factory.mktemp("cursors") / "data"
    with gamay.connect(folder) as db:
        db.create_table("trips", pa.table({"n": [row[0] for row in ROWS], "s": [row[1] for row in ROWS]}))
    with EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False) as cluster:
        yield cluster


def ask(cluster: EmbeddedCluster, sql: str, parameters: str = "?getCursor=true", **body: Any) -> httpx.Response:
    return httpx.post(f"{cluster.broker_url}/query/sql{parameters}", json={"sql": sql, **body})


def get(cluster: EmbeddedCluster, path: str) -> httpx.Response:
    return httpx.get(f"{cluster.broker_url}/responseStore{path}")


def test_a_query_is_read_page_by_page(cluster: EmbeddedCluster) -> None:
    first = ask(cluster, SQL, "?getCursor=true&numRows=1200").json()
    rows, request_id = first["resultTable"]["rows"], first["requestId"]
    assert (first["exceptions"], first["numRowsResultSet"], first["numRows"]) == ([], 2500, 1200)
    assert f"http://{first['brokerHost']}:{first['brokerPort']}" == cluster.broker_url
    while len(rows) < first["numRowsResultSet"]:
        page = get(cluster, f"/{request_id}/results?offset={len(rows)}&numRows=1200")
        assert (page.status_code, page.headers["X-Pinot-Error-Code"]) == (200, "-1")
        rows += page.json()["resultTable"]["rows"]
    assert rows == ROWS
    assert request_id in [one["requestId"] for one in get(cluster, "").json()]
    for path in (f"/{request_id}", f"/{request_id}/"):
        assert get(cluster, path).json()["numRowsResultSet"] == 2500
    deleted = httpx.delete(f"{cluster.broker_url}/responseStore/{request_id}/")
    assert (deleted.status_code, deleted.text) == (200, f"Query Results for {request_id} deleted.")
    for path in (f"/{request_id}", f"/{request_id}/results?offset=0"):
        missing = get(cluster, path)
        assert missing.json() == {"code": 404, "error": f"Query results for {request_id} not found."}
        assert missing.status_code == 404


@pytest.mark.parametrize(
    ("sql", "body"),
    [
        (f"SET getCursor = true; SET cursorNumRows = 2; {SQL}", {}),
        (f"{SQL} OPTION(getCursor=true, cursorNumRows=2)", {}),
        (SQL, {"queryOptions": "getCursor=true;cursorNumRows=2"}),
    ],
)
def test_options_ask_for_a_cursor_too(cluster: EmbeddedCluster, sql: str, body: dict[str, str]) -> None:
    answer = ask(cluster, sql, "", **body).json()
    assert (answer["resultTable"]["rows"], answer["numRowsResultSet"]) == (ROWS[:2], 2500)
    assert get(cluster, f"/{answer['requestId']}/results?offset=2&numRows=1").json()["resultTable"]["rows"] == ROWS[2:3]


def test_queries_in_the_url_may_ask_for_a_cursor(cluster: EmbeddedCluster) -> None:
    parameters = {"sql": SQL, "getCursor": "true", "numRows": "3"}
    answer = httpx.get(f"{cluster.broker_url}/query/sql", params=parameters).json()
    assert (answer["resultTable"]["rows"], answer["numRows"], answer["numRowsResultSet"]) == (ROWS[:3], 3, 2500)
    assert get(cluster, f"/{answer['requestId']}/results?offset=3&numRows=1").json()["resultTable"]["rows"] == ROWS[3:4]


def test_nothing_is_kept_of_other_queries(cluster: EmbeddedCluster) -> None:
    before = len(get(cluster, "").json())
    for answer in (
        ask(cluster, SQL, ""),
        ask(cluster, SQL, "?getCursor=false&numRows=5"),
        ask(cluster, "SELECT nothing FROM trips"),
        ask(cluster, SQL, queryOptions="dropResults=true"),
    ):
        assert "offset" not in answer.json()
    assert len(get(cluster, "").json()) == before


def test_wrong_parameters_are_told(cluster: EmbeddedCluster) -> None:
    assert ask(cluster, SQL, "?getCursor=true&numRows=many").json()["exceptions"][0]["errorCode"] == 150
    assert ask(cluster, SQL, queryOptions=5).json()["exceptions"][0]["errorCode"] == 150
    request_id = ask(cluster, "SELECT n FROM trips LIMIT 3").json()["requestId"]
    for parameters, status in (("", 400), ("?offset=-1", 400), ("?offset=x", 400), ("?offset=0&numRows=x", 400)):
        assert get(cluster, f"/{request_id}/results{parameters}").status_code == status
    beyond = get(cluster, f"/{request_id}/results?offset=3")
    assert beyond.json() == {"code": 500, "error": "Offset 3 should be lesser than totalRecords 3"}
    assert httpx.delete(f"{cluster.broker_url}/responseStore").status_code == 400


def test_answers_that_expire_by_a_time_are_deleted(cluster: EmbeddedCluster) -> None:
    kept = ask(cluster, SQL).json()
    early = httpx.delete(f"{cluster.broker_url}/responseStore?expiredBefore={kept['submissionTimeMs']}")
    assert early.text == "Query Results of 0 queries deleted."
    late = httpx.delete(f"{cluster.broker_url}/responseStore?expiredBefore={kept['expirationTimeMs']}")
    assert (late.status_code, get(cluster, "").json()) == (200, [])
