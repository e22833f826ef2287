"""Routes whose handlers determine their tables, and tables with the names of routes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa
import pytest

import gamay
from gamay.cluster.access.passwords import basic_token
from gamay.embedded import EmbeddedCluster
from gamay.roles.settings import read_access

P, B, S = "controller.admin.access.control", "pinot.broker.access.control", "pinot.server.admin.access.control"
FILE = "\n".join(
    f"{p}.{switch}=BasicAuthAccessControlFactory\n{p}.principals=root,clerk,temp\n{p}.principals.root.password=r\n"
    f"{p}.principals.clerk.password=c\n{p}.principals.clerk.tables=trips,tables\n"
    f"{p}.principals.temp.password=t\n{p}.principals.temp.excludeTables=salaries,segments"
    for p, switch in ((P, "factory.class"), (B, "class"), (S, "factory.class"))
)
ROOT, CLERK, TEMP = ({"Authorization": basic_token(*who)} for who in (("root", "r"), ("clerk", "c"), ("temp", "t")))
TABLES = ("trips", "salaries", "tables", "segments")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    folder: Path = tmp_path_factory.mktemp("found")
    with gamay.connect(folder / "data") as db:
        for table in TABLES:
            db.create_table(table, pa.table({"n": [1, 2]}))
    (folder / "access.properties").write_text(FILE)
    with EmbeddedCluster(
        folder / "data", 0, 0, 0, threads=1, warm_up=False, access=read_access(folder / "access.properties")
    ) as found:
        yield found


def status(url: str, headers: dict[str, str], method: str = "GET", **options: Any) -> int:
    return httpx.request(method, url, headers=headers, **options).status_code


def test_jobs_are_those_of_their_tables(cluster: EmbeddedCluster) -> None:
    url = cluster.controller_url
    for table, expected in (("trips", 200), ("salaries", 403)):
        reloaded = httpx.post(f"{url}/segments/{table}_OFFLINE/reload", headers=ROOT).json()["status"]
        job = orjson.loads(reloaded)[f"{table}_OFFLINE"]["reloadJobId"]
        assert status(f"{url}/segments/segmentReloadStatus/{job}", CLERK) == expected
        assert status(f"{url}/segments/segmentReloadStatus/{job}", ROOT) == 200
    assert status(f"{url}/segments/segmentReloadStatus/none", CLERK) == 404


def test_tables_with_the_names_of_routes_are_tables(cluster: EmbeddedCluster) -> None:
    for base, path in (
        (cluster.controller_url, "/tables/{}"), (cluster.controller_url, "/segments/{}"),
        (cluster.controller_url, "/tables/{}/size"), (cluster.controller_url, "/schemas/{}"),
        (cluster.server_url, "/tables/{}_OFFLINE/segments"), (cluster.broker_url, "/debug/routingTable/{}"),
    ):  # fmt: skip
        for table, clerk, temp in (
            ("tables", 200, 200),
            ("segments", 403, 403),
            ("trips", 200, 200),
            ("salaries", 403, 403),
        ):
            url = base + path.format(table)
            assert (status(url, CLERK), status(url, TEMP), status(url, ROOT)) == (clerk, temp, 200), url


def test_the_broker_refreshes_the_routing_of_the_table_that_is_named(cluster: EmbeddedCluster) -> None:
    for table, expected in (("trips", 200), ("salaries", 403)):
        for path in (f"/routing/refresh/{table}_OFFLINE/segment_0", f"/routing/{table}_OFFLINE"):
            assert status(f"{cluster.broker_url}{path}", CLERK, "PUT") == expected
        for path in ("/debug/routingTable/sql", "/debug/routingTableWithOptionalSegments/sql"):
            asked = {"query": f"SELECT n FROM {table}"}
            assert status(f"{cluster.broker_url}{path}", CLERK, params=asked) == expected
    twice = "/debug/routingTable/sql?query=SELECT n FROM trips&query=SELECT n FROM salaries"
    assert status(f"{cluster.broker_url}{twice}", CLERK) == 400


def test_lists_of_names_leave_out_what_is_kept_away(cluster: EmbeddedCluster) -> None:
    for path in ("/tables", "/schemas", "/tableConfigs", "/leader/tables", "/brokers", "/v2/brokers/tables"):
        for headers, told in ((CLERK, False), (TEMP, False), (ROOT, True)):
            assert ("salaries" in httpx.get(f"{cluster.controller_url}{path}", headers=headers).text) is told, path
    listed = httpx.get(f"{cluster.controller_url}/tables", headers=CLERK).json()["tables"]
    assert sorted(listed) == ["tables", "trips"]
    assert status(f"{cluster.controller_url}/tables/livebrokers?tables=salaries", CLERK) == 403
    assert httpx.get(f"{cluster.server_url}/tables", headers=TEMP).json()["tables"] == ["tables_OFFLINE", "trips_OFFLINE"]


def test_databases_are_deleted_by_who_may_use_all_that_is_in_them(cluster: EmbeddedCluster) -> None:
    url = f"{cluster.controller_url}/databases/default?dryRun=true"
    assert [status(url, who, "DELETE") for who in (CLERK, TEMP, ROOT)] == [403, 403, 200]


def test_an_upload_names_its_table_once(cluster: EmbeddedCluster) -> None:
    (listed,) = httpx.get(f"{cluster.controller_url}/segments/trips", headers=ROOT).json()
    archive = httpx.get(f"{cluster.controller_url}/segments/trips/{listed['OFFLINE'][0]}", headers=ROOT).content
    for query, expected in (
        ("tableName=salaries", 403),
        ("tableName=salaries_OFFLINE", 403),
        ("tableName=trips&tableName=salaries", 400),
        ("tableName=salaries&tableName=trips", 400),
        ("tableNameWithType=trips_OFFLINE&tableName=salaries", 403),
        ("tableName=trips", 200),
    ):
        for path in ("/v2/segments", "/segments"):
            files = {"segment": ("segment.tar.gz", archive)}
            assert status(f"{cluster.controller_url}{path}?{query}", CLERK, "POST", files=files) == expected, query
    assert len(httpx.get(f"{cluster.controller_url}/segments/salaries", headers=ROOT).json()[0]["OFFLINE"]) == 1


def test_the_scheme_of_a_log_in_is_of_any_case(cluster: EmbeddedCluster) -> None:
    token = CLERK["Authorization"].removeprefix("Basic ")
    for scheme in ("Basic", "basic", "BASIC"):
        for url in (cluster.controller_url, cluster.broker_url, cluster.server_url):
            path = "/queries" if url == cluster.broker_url else "/tables"
            assert status(f"{url}{path}", {"Authorization": f"{scheme} {token}"}) == 200


def test_asking_who_one_is_is_no_way_to_guess_passwords(cluster: EmbeddedCluster) -> None:
    wrong, right = ({"Authorization": basic_token("clerk", password)} for password in ("wrong", "c"))
    url = f"{cluster.controller_url}/auth/verify"
    assert [httpx.get(url, headers=who).json() for who in (right, {})] == [True, False]
    begun = [httpx.get(url, headers=wrong) for _ in range(6)]
    assert [answer.json() for answer in begun] == [False] * 6
    assert begun[5].elapsed.total_seconds() > 0.2
    assert httpx.get(url, headers=right).json() is True
    assert httpx.get(url, headers=right).elapsed.total_seconds() < 0.2


def test_only_the_guarded_router_has_routes() -> None:
    folder = Path(gamay.__file__).parent / "controller" / "api"
    for path in folder.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert path.name == "guarded_router.py" or "APIRouter" not in text, path
        assert not any(f"app.{word}(" in text for word in ("get", "post", "put", "delete", "add_route", "mount")), path
