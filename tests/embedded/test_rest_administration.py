"""REST: users, databases, quotas, and changes of the metadata store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from tests.waiting import eventually

import gamay
from gamay.cluster.access.passwords import basic_token
from gamay.cluster.access.principals import StoredUsers
from gamay.cluster.records.records import Role
from gamay.embedded import EmbeddedCluster

ADMIN = {"Authorization": basic_token("root", "toor")}
SCHEMA = {"schemaName": "trips", "dimensionFieldSpecs": [{"name": "n", "dataType": "INT"}]}
TABLE = {
    "tableName": "trips",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "1"},
    "tenants": {},
    "tableIndexConfig": {},
}


def start(folder: Path, access: Any = None) -> EmbeddedCluster:
    with gamay.connect(folder / "data") as db:
        db.create_table("trips", pa.table({"n": [1, 2, 3]}))
        db.create_table("pay", pa.table({"n": [4, 5]}))
    return EmbeddedCluster(folder / "data", 0, 0, 0, threads=1, warm_up=False, access=access)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    first = StoredUsers("root", "toor")
    with start(tmp_path_factory.mktemp("users"), dict.fromkeys((Role.CONTROLLER, Role.BROKER, Role.SERVER), first)) as found:
        yield found


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with start(tmp_path_factory.mktemp("plain")) as found:
        yield found


def test_users_are_managed_and_their_rights_hold_everywhere(guarded: EmbeddedCluster) -> None:
    url = guarded.controller_url
    api = httpx.Client(base_url=url, headers=ADMIN)
    assert sorted(api.get("/users").json()["users"]) == ["root_BROKER", "root_CONTROLLER", "root_SERVER"]
    for component in ("BROKER", "CONTROLLER"):
        user = {"username": "bob", "password": "pw", "component": component, "tables": ["trips"], "permissions": ["READ"]}
        answer = api.post("/users", json=user)
        assert answer.json() == {"status": f"User bob_{component} has been successfully added!"}
    assert api.post("/users", json=user).status_code == 409
    bob = {"Authorization": basic_token("bob", "pw")}

    def count(table: str, headers: dict[str, str]) -> int:
        body = {"sql": f"SELECT count(*) FROM {table}"}
        return httpx.post(f"{guarded.broker_url}/query/sql", json=body, headers=headers).status_code

    eventually(lambda: count("trips", bob) == 200)
    assert (count("pay", bob), count("trips", {}), count("pay", ADMIN)) == (403, 401, 200)
    assert httpx.get(f"{url}/tables/trips", headers=bob).status_code == 200
    assert httpx.get(f"{url}/tables/pay", headers=bob).status_code == 403
    assert httpx.get(f"{url}/schemas/pay", headers=bob).status_code == 403
    for path in ("/users", "/users/root?component=BROKER", "/zk/get?path=/PinotCluster/IDEALSTATES/pay_OFFLINE"):
        assert httpx.get(f"{url}{path}", headers=bob).status_code == 403, path
    assert httpx.get(f"{url}/zk/ls?path=/PinotCluster/LIVEINSTANCES", headers=bob).status_code == 200
    shown = api.get("/users/bob", params={"component": "BROKER"}).json()["bob_BROKER"]
    assert (shown["password"], shown["tables"], shown["role"]) == ("*****", ["trips"], "USER")
    changed = api.put("/users/bob", params={"component": "BROKER"}, json={**shown, "tables": ["pay"]})
    assert changed.json() == {"status": "User config update for bob_BROKER"}
    eventually(lambda: count("pay", bob) == 200)
    assert count("trips", bob) == 403
    api.put("/users/bob", params={"component": "BROKER", "passwordChanged": True}, json={**shown, "password": "new"})
    eventually(lambda: count("trips", bob) == 401)
    gone = api.delete("/users/bob", params={"component": "BROKER"})
    assert gone.json() == {"status": "User: bob_BROKER has been successfully deleted"}
    assert api.delete("/users/bob", params={"component": "BROKER"}).status_code == 404


def test_the_metadata_store_is_changed_by_administrators(guarded: EmbeddedCluster) -> None:
    api = httpx.Client(base_url=guarded.controller_url, headers=ADMIN)
    path = "/PinotCluster/PROPERTYSTORE/NOTES/one"
    record = {"id": "one", "simpleFields": {"a": "1"}, "mapFields": {"m": {"k": "v"}}, "listFields": {"l": ["x"]}}
    made = api.post("/zk/create", params={"path": path}, json=record)
    assert made.json() == {"status": f"Successfully created node at path: {path}"}
    assert api.get("/zk/get", params={"path": path}).json() == record
    assert api.post("/zk/create", params={"path": path}, json=record).status_code == 409
    changed = {**record, "simpleFields": {"a": "2"}}
    put = api.put("/zk/put", params={"path": path, "expectedVersion": 0}, json=changed)
    assert put.json() == {"status": f"Successfully updated path: {path}"}
    assert api.get("/zk/stat", params={"path": path}).json()["version"] == 1
    assert api.put("/zk/put", params={"path": path, "expectedVersion": 0}, json=record).status_code == 409
    in_url = api.put("/zk/put", params={"path": path, "data": '{"id": "one"}'})
    assert in_url.status_code == 200
    assert api.get("/zk/get", params={"path": path}).json()["simpleFields"] == {}
    parent = path.rpartition("/")[0]
    assert api.put("/zk/putChildren", params={"path": parent}, json=[record]).status_code == 200
    assert api.get("/zk/getChildren", params={"path": parent}).json() == [record]
    assert api.put("/zk/putChildren", params={"path": parent}, json=[{**record, "id": "two"}]).status_code == 404
    bads: tuple[Any, ...] = ({"id": "one", "simpleFields": {"a": 1}}, {"simpleFields": {}}, [1], {"id": "a/b"})
    for bad in bads:
        refused = api.put("/zk/put", params={"path": path}, json=bad)
        assert (refused.status_code, "must be a record" in refused.json()["error"]) == (400, True)
    assert api.delete("/zk/delete", params={"path": path}).json() == {"status": f"Successfully deleted path: {path}"}
    assert api.delete("/zk/delete", params={"path": path}).status_code == 404
    for wrong in ("/", "/PinotCluster", "no", "/PinotCluster/"):
        assert api.delete("/zk/delete", params={"path": wrong}).status_code == 400, wrong
    assert api.post("/zk/create", params={"path": path, "accessOption": 2}, json=record).status_code == 400


def test_the_header_names_the_database(plain: EmbeddedCluster) -> None:
    api = httpx.Client(base_url=plain.controller_url)
    sales = {"database": "sales"}
    assert api.get("/databases").json() == ["default"]
    assert api.post("/schemas", json=SCHEMA, headers=sales).json()["status"] == "sales.trips successfully added"
    assert api.post("/tables", json=TABLE, headers=sales).json()["status"] == "Table sales.trips_OFFLINE successfully added"
    assert api.get("/databases").json() == ["default", "sales"]
    assert api.get("/tables", headers=sales).json() == {"tables": ["sales.trips"]}
    assert api.get("/tables", headers={"database": "default"}).json() == {"tables": ["pay", "trips"]}
    assert api.get("/tables").json() == {"tables": ["pay", "sales.trips", "trips"]}
    assert api.get("/schemas", headers=sales).json() == api.get("/tableConfigs", headers=sales).json() == ["sales.trips"]
    for name in ("trips", "sales.trips"):
        assert api.get(f"/tables/{name}", headers=sales).json()["OFFLINE"]["tableName"] == "sales.trips_OFFLINE"
    assert api.get("/tables/trips/schema", headers=sales).json()["schemaName"] == "sales.trips"
    assert api.get("/segments/trips", headers=sales).json() == [{"OFFLINE": []}]
    assert list(api.get("/tables/livebrokers", params={"tables": "trips"}, headers=sales).json()) == ["sales.trips_OFFLINE"]
    conflict = api.get("/tables/other.trips", headers=sales)
    assert (conflict.status_code, "not in the database 'sales'" in conflict.json()["error"]) == (400, True)
    assert api.post("/tables", json={**TABLE, "tableName": "other.trips"}, headers=sales).status_code == 400
    tried = api.delete("/databases/sales", params={"dryRun": True}).json()
    assert tried == {"deletedTables": ["sales.trips_OFFLINE"], "failedTables": [], "dryRun": True}
    assert api.delete("/databases/sales", params={"dryRun": False}).json()["deletedTables"] == ["sales.trips_OFFLINE"]
    assert api.get("/tables", headers=sales).json() == {"tables": []}
    assert api.delete("/databases/nowhere", params={"dryRun": True}).status_code == 404
    assert api.delete("/databases/sales").status_code == 400  # dryRun is required
    api.delete("/schemas/sales.trips")


def test_quotas_of_databases_and_applications_hold(plain: EmbeddedCluster) -> None:
    api = httpx.Client(base_url=plain.controller_url)

    def ask(**options: str) -> int:
        given = ";".join(f"{key}={value}" for key, value in options.items())
        body = {"sql": "SELECT n FROM trips", "queryOptions": given}
        answer = httpx.post(f"{plain.broker_url}/query/sql", json=body).json()
        return answer["exceptions"][0]["errorCode"] if answer["exceptions"] else 200

    def broker_says(path: str, text: str) -> bool:
        return httpx.get(f"{plain.broker_url}/debug/{path}").text == text

    api.post("/applicationQuotas/slow", params={"maxQueriesPerSecond": "0.001"})
    eventually(lambda: broker_says("applicationQuotas/slow", "0.001"))
    assert [ask(applicationName="slow"), ask(applicationName="slow")] == [200, 429]
    assert [ask(applicationName="fast"), ask()] == [200, 200]
    assert api.get("/applicationQuotas").json() == {"slow": 0.001}
    assert api.get("/applicationQuotas/slow").json() == 0.001
    api.post("/databases/default/quotas", params={"maxQueriesPerSecond": "0.001"})
    eventually(lambda: broker_says("databases/queryQuota/default", "0.001"))
    assert [ask(), ask()] == [200, 429]
    assert api.get("/databases/default/quotas").json() == {"maxQueriesPerSecond": "0.001"}
    broker = next(name for name in api.get("/instances").json()["instances"] if name.startswith("Broker"))
    assert api.post(f"/brokers/instances/{broker}/qps", params={"state": "DISABLE"}).status_code == 200
    eventually(lambda: ask() == 200)
    assert api.post(f"/brokers/instances/{broker}/qps", params={"state": "ENABLE"}).status_code == 200
    eventually(lambda: ask() == 429)
    api.post("/databases/default/quotas")
    api.post("/applicationQuotas/slow")
    eventually(lambda: broker_says("databases/queryQuota/default", "0.0"))
    assert [ask(), ask(applicationName="slow")] == [200, 200]
    for bad in ("0", "-1", "x", "nan", "inf"):
        assert api.post("/databases/default/quotas", params={"maxQueriesPerSecond": bad}).status_code == 400, bad
    assert api.post(f"/brokers/instances/{broker}/qps", params={"state": "x"}).status_code == 400


def test_a_periodic_task_runs_for_one_table(plain: EmbeddedCluster) -> None:
    api = httpx.Client(base_url=plain.controller_url)

    def run(**params: str) -> httpx.Response:
        return api.post("/periodictask/run", params=params)

    assert run(taskname="RetentionManager", tableName="trips").json()["isSuccessful"] is True
    assert run(taskname="RetentionManager", tableName="nowhere").status_code == 404
    assert run(taskname="RebalanceChecker", tableName="trips").status_code == 400
    assert "consumes no stream" in run(taskname="RealtimeSegmentValidationManager", tableName="trips").json()["error"]


def test_a_server_tells_of_its_tables(plain: EmbeddedCluster) -> None:
    server = httpx.Client(base_url=plain.server_url)
    metadata = server.get("/tables/trips_OFFLINE/metadata", params={"columns": "n"}).json()
    assert (metadata["numSegments"], metadata["numRows"], metadata["columnCardinalityMap"]) == (1, 3, {"n": 3})
    assert metadata["diskSizeInBytes"] == server.get("/tables/trips_OFFLINE/size").json()["diskSizeInBytes"]
    shown = server.get("/tables/trips_OFFLINE/segments/metadata").json()
    (name,) = shown
    assert shown[name] == server.get(f"/tables/trips_OFFLINE/segments/{name}/metadata").json()
    assert server.get("/tables/trips_OFFLINE/indexes").json()["totalOnlineSegments"] == 1
    loaded = server.get("/tables/trips_OFFLINE/allSegmentsLoaded").json()
    assert (loaded["valid"], loaded["invalidReason"]) == (True, None)
    assert server.get("/tables/trips_OFFLINE/segments/needReload").json()["needReload"] is False
    assert server.get("/tables/trips_OFFLINE/segments/isStale").json() == []
    assert server.get("/tables/nowhere/metadata").status_code == 404
    assert server.get("/instance/pools").json() == {}
    disk = server.get("/instance/diskUtilization").json()
    assert 0 < disk["usedSpaceBytes"] < disk["totalSpaceBytes"]


def test_what_is_not_offered_says_why(plain: EmbeddedCluster) -> None:
    api = httpx.Client(base_url=plain.controller_url)
    for path in ("/logicalTables", "/materializedViews", "/timeseries/languages"):
        assert api.get(path).json() == []
    for method, path in (("POST", "/sql/ddl"), ("GET", "/logicalTables/x"), ("PUT", "/dataresources")):
        refused = api.request(method, path, json={})
        assert (refused.status_code, refused.json()["error"].startswith("This is not offered: ")) == (501, True), path


def test_indexes_are_recommended(plain: EmbeddedCluster) -> None:
    api = httpx.Client(base_url=plain.controller_url)
    schema = {"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": "INT"}, {"name": "b", "dataType": "INT"}]}
    queries = {"SELECT COUNT(*) FROM t WHERE a = 1": 2, "SELECT COUNT(*) FROM t WHERE b > 1": 1}
    answer = api.put("/tables/recommender", json={"schema": schema, "queriesWithWeights": queries})
    assert answer.status_code == 200
    assert answer.json()["indexConfig"]["sortedColumn"] == "a"
    assert answer.json()["indexConfig"]["rangeIndexColumns"] == ["b"]
    refused = api.put("/tables/recommender", json={"queriesWithWeights": queries})
    assert (refused.status_code, "has no schema" in refused.json()["error"]) == (400, True)
