"""A cluster with login, queried over HTTP."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from tests.dimension_tables import dimension_config

import gamay
from gamay.cluster.access.passwords import basic_token
from gamay.embedded import EmbeddedCluster
from gamay.roles.settings import read_access

FILE = """
controller.admin.access.control.factory.class=BasicAuthAccessControlFactory
controller.admin.access.control.principals=admin,guest,clerk
controller.admin.access.control.principals.clerk.password=paper
controller.admin.access.control.principals.clerk.tables=trips
controller.admin.access.control.principals.admin.password=verysecret
controller.admin.access.control.principals.guest.password=secret
controller.admin.access.control.principals.guest.tables=trips
controller.admin.access.control.principals.guest.permissions=READ
pinot.broker.access.control.class=BasicAuthAccessControlFactory
pinot.broker.access.control.principals=admin,guest
pinot.broker.access.control.principals.admin.password=verysecret
pinot.broker.access.control.principals.guest.password=secret
pinot.broker.access.control.principals.guest.tables=trips
pinot.server.admin.access.control.factory.class=BasicAuthAccessControlFactory
pinot.server.admin.access.control.principals=admin
pinot.server.admin.access.control.principals.admin.password=verysecret
"""
STAFF = {
    "schemaName": "staff",
    "primaryKeyColumns": ["n"],
    "dimensionFieldSpecs": [{"name": "n", "dataType": "LONG"}, {"name": "name", "dataType": "STRING"}],
}
ADMIN = {"Authorization": basic_token("admin", "verysecret")}
GUEST = {"Authorization": basic_token("guest", "secret")}
CLERK = {"Authorization": basic_token("clerk", "paper")}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    folder: Path = tmp_path_factory.mktemp("access")
    with gamay.connect(folder / "data") as db:
        db.create_table("trips", pa.table({"n": [1, 2, 3]}))
        db.create_table("pay", pa.table({"n": [4, 5]}))
        db.create_table(
            "staff", pa.table({"n": [1, 2], "name": ["Ada", "Bo"]}), schema=STAFF, config=dimension_config("staff")
        )
    (folder / "access.properties").write_text(FILE)
    with EmbeddedCluster(
        folder / "data", 0, 0, 0, threads=1, warm_up=False, access=read_access(folder / "access.properties")
    ) as found:
        yield found


def ask(cluster: EmbeddedCluster, sql: str, headers: dict[str, str], field: str = "sql", path: str = "/query/sql") -> Any:
    return httpx.post(f"{cluster.broker_url}{path}", json={field: sql}, headers=headers)


def test_queries_need_a_log_in_and_the_table(cluster: EmbeddedCluster) -> None:
    for _ in range(3):  # soon answered on the fast path, which does not ask for names
        assert ask(cluster, "SELECT count(*) FROM trips", ADMIN).json()["resultTable"]["rows"] == [[3]]
        assert ask(cluster, "SELECT count(*) FROM trips", GUEST).json()["resultTable"]["rows"] == [[3]]
        nobody = ask(cluster, "SELECT count(*) FROM trips", {})
        assert (nobody.status_code, nobody.json()["code"]) == (401, 401)
        assert nobody.headers["www-authenticate"].startswith("Basic")
    refused = ask(cluster, "SELECT count(*) FROM pay", GUEST)
    assert refused.status_code == 403
    assert refused.json() == {"code": 403, "error": "Permission denied.Reason: guest may not use table pay"}
    assert ask(cluster, "SELECT count(*) FROM pay_OFFLINE", GUEST).status_code == 403
    looked_up = "SELECT n, lookUp('staff', 'name', 'n', n) FROM trips ORDER BY n"
    assert ask(cluster, looked_up, ADMIN).json()["resultTable"]["rows"] == [[1, "Ada"], [2, "Bo"], [3, "null"]]
    answer = ask(cluster, looked_up, GUEST)
    assert answer.status_code == 403
    assert "guest may not use table staff" in answer.text
    assert ask(cluster, "SELECT 1 + 1", GUEST).json()["resultTable"]["rows"] == [[2]]
    assert ask(cluster, "SELECT count(*) FROM pay", {"Authorization": "Basic zzz"}).status_code == 401


def test_what_a_subquery_reads_counts_too(cluster: EmbeddedCluster) -> None:
    sql = "SELECT count(*) FROM trips WHERE IN_SUBQUERY(n, 'SELECT ID_SET(n) FROM {}') = 1"
    assert ask(cluster, sql.format("trips"), GUEST).json()["resultTable"]["rows"] == [[3]]
    hidden = ask(cluster, sql.format("pay"), GUEST)
    assert "rows" not in hidden.text
    assert "guest may not use table pay" in hidden.text


def test_pql_and_get_are_no_way_around(cluster: EmbeddedCluster) -> None:
    assert ask(cluster, "SELECT count(*) FROM pay", GUEST, "pql", "/query").status_code == 403
    assert ask(cluster, "SELECT count(*) FROM trips", GUEST, "pql", "/query").status_code == 200
    for path in ("/query/sql", "/query"):
        url = f"{cluster.broker_url}{path}"
        assert httpx.get(url, params={"sql": "SELECT count(*) FROM pay"}, headers=GUEST).status_code == 403
        assert httpx.get(url, params={"sql": "SELECT count(*) FROM trips"}).status_code == 401
    assert httpx.get(f"{cluster.broker_url}/debug/routingTable/pay", headers=GUEST).status_code == 403
    assert httpx.get(f"{cluster.broker_url}/health").status_code == 200


def test_answers_kept_for_a_cursor_are_for_those_who_asked(cluster: EmbeddedCluster) -> None:
    url = f"{cluster.broker_url}/responseStore"
    of_admin, of_guest = (
        ask(cluster, "SET getCursor = true; SELECT n FROM trips", who).json()["requestId"] for who in (ADMIN, GUEST)
    )
    for who, request_id, status in (
        (ADMIN, of_admin, 200),
        (ADMIN, of_guest, 200),
        (GUEST, of_guest, 200),
        (GUEST, of_admin, 404),
        ({}, of_guest, 401),
    ):
        assert httpx.get(f"{url}/{request_id}/results?offset=0", headers=who).status_code == status
    assert [one["requestId"] for one in httpx.get(url, headers=GUEST).json()] == [of_guest]


def test_the_controller_tells_reading_from_changing(cluster: EmbeddedCluster) -> None:
    url = cluster.controller_url
    assert httpx.get(f"{url}/tables").status_code == 401
    assert httpx.get(f"{url}/tables", headers=GUEST).status_code == 200
    assert httpx.get(f"{url}/tables/trips", headers=GUEST).status_code == 200
    assert httpx.get(f"{url}/tables/pay", headers=GUEST).status_code == 403
    assert httpx.get(f"{url}/segments/pay", headers=GUEST).status_code == 403
    for path in ("/tables/pay/", "/tables/pay//", "/segments/pay/"):
        assert httpx.get(f"{url}{path}", headers=GUEST).status_code == 403
        assert httpx.get(f"{url}{path}", headers=ADMIN).status_code == 200
    assert httpx.delete(f"{url}/tables/trips", headers=GUEST).status_code == 403
    assert httpx.post(f"{url}/segments/trips_OFFLINE/reload", headers=GUEST).status_code == 403
    assert httpx.post(f"{url}/segments/trips_OFFLINE/reload", headers=ADMIN).status_code == 200
    asked = httpx.post(f"{url}/sql", json={"sql": "SELECT count(*) FROM trips"}, headers=GUEST)
    assert asked.json()["resultTable"]["rows"] == [[3]]
    document = httpx.get(f"{cluster.controller_url}/swagger.json").json()
    assert document["components"]["securitySchemes"] == {"basic": {"type": "http", "scheme": "basic"}}
    assert document["security"] == [{"basic": []}]
    assert document["paths"]["/health"]["get"]["security"] == []
    assert "security" not in document["paths"]["/tables"]["get"]
    of_broker = httpx.get(f"{cluster.broker_url}/swagger.json").json()
    assert of_broker["security"] == [{"basic": []}]
    for path in ("/health", "/auth/info", "/help", "/swagger.json"):
        assert httpx.get(f"{url}{path}", follow_redirects=True).status_code == 200, path


def test_a_segment_that_names_its_table_is_no_way_around(cluster: EmbeddedCluster) -> None:
    for table, status in (("pay", 403), ("trips", 200)):
        (listed,) = httpx.get(f"{cluster.controller_url}/segments/{table}", headers=ADMIN).json()
        archive = httpx.get(f"{cluster.controller_url}/segments/{table}/{listed['OFFLINE'][0]}", headers=ADMIN)
        files = {"segment": ("segment.tar.gz", archive.content)}
        answer = httpx.post(f"{cluster.controller_url}/v2/segments", files=files, headers=CLERK)
        assert answer.status_code == status, answer.text


def test_who_may_do_what_can_be_asked(cluster: EmbeddedCluster) -> None:
    url = cluster.controller_url
    assert httpx.get(f"{url}/auth/info").json() == {"workflow": "BASIC"}

    def verified(headers: dict[str, str], **params: str) -> Any:
        return httpx.get(f"{url}/auth/verify", params=params, headers=headers).json()

    assert verified(ADMIN) is True
    assert verified(GUEST, tableName="trips", accessType="READ") is True
    assert verified(GUEST, tableName="pay", accessType="READ") is False
    assert verified(GUEST, tableName="trips", accessType="DELETE") is False
    assert verified({}) is False
    assert verified(ADMIN, accessType="x")["code"] == 400


def test_a_server_tells_only_its_own_administrators(cluster: EmbeddedCluster) -> None:
    assert httpx.get(f"{cluster.server_url}/tables", headers=GUEST).status_code == 401
    assert httpx.get(f"{cluster.server_url}/tables", headers=ADMIN).status_code == 200
    assert httpx.get(f"{cluster.server_url}/health").status_code == 200


def test_the_client_logs_in(cluster: EmbeddedCluster) -> None:
    from gamay.client import Connection

    with Connection.from_host_list(cluster.broker_url, user="guest", password="secret") as connection:
        assert connection.execute("SELECT count(*) FROM trips")[0].wire_rows == [[3]]


def test_files_are_inserted_by_those_who_may_make_tasks(cluster: EmbeddedCluster) -> None:
    insert = "INSERT INTO trips FROM FILE '/nowhere/'"
    assert ask(cluster, insert, {}).status_code == 401
    refused = ask(cluster, insert, GUEST)
    assert (refused.status_code, "Permission denied" in refused.text) == (403, True), refused.text
    allowed = ask(cluster, insert, ADMIN).json()["exceptions"]
    assert "gamay.ingest.allowed_uris" in allowed[0]["message"]  # which the controller checks after authorisation
