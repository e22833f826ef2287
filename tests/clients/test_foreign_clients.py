"""Unmodified third-party clients, and the calls of those that cannot be obtained.

`python tools/get_clients.py` fetches them; tests of missing clients are skipped, and nothing is fetched here.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from tests.broker.flight.conftest import TRIPS
from tests.embedded.test_access import ADMIN, FILE
from tests.waiting import PATIENCE_S

import gamay
from gamay.embedded import EmbeddedCluster
from gamay.roles.settings import read_access

HERE = Path(__file__).parent
FETCHED = HERE.parent.parent / "build" / "clients"
ROWS = {"city": ["city1", "city0", "city1"], "n": [1, 2, 3], "ts": pa.array([1, 2, 3], pa.timestamp("ms"))}
CONFIG = {"segmentsConfig": {"timeColumnName": "ts"}}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    folder = tmp_path_factory.mktemp("clients") / "data"
    with gamay.connect(folder) as db:
        db.create_table("trips", pa.table(ROWS))
    with EmbeddedCluster(folder, 0, 0, 0, flight_port=0, grpc_port=0, threads=1, warm_up=False) as found:
        yield found


def needed(program: str, *fetched: str) -> None:
    """Skip unless a program and files of `tools/get_clients.py` are there."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    for name in fetched:
        if not list(FETCHED.glob(name)):
            pytest.skip(f"build/clients/{name} is not there: python tools/get_clients.py")


def run(command: list[str], **environment: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, env={**os.environ, **environment}, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def address(url: str) -> str:
    return url.partition("//")[2]


def test_npm_pinot_client(cluster: EmbeddedCluster) -> None:
    needed("node", "node_modules/pinot-client")
    script = str(HERE / "pinot_client.js")
    told = run(
        ["node", script, address(cluster.controller_url), address(cluster.broker_url)],
        NODE_PATH=str(FETCHED / "node_modules"),
    )
    found = json.loads(told)
    assert (found["columns"], found["rows"]) == (["city", "total"], [["city0", 2], ["city1", 4]])
    assert found["count"] == [[2]]
    assert "Unknown columnName 'nope'" in found["error"]


def test_flight_sql_jdbc(cluster: EmbeddedCluster) -> None:
    needed("java", "flight-sql-jdbc-driver-*.jar")
    (jar,) = FETCHED.glob("flight-sql-jdbc-driver-*.jar")
    port = str(cluster.flight_url).rpartition(":")[2]
    url = f"jdbc:arrow-flight-sql://localhost:{port}/?useEncryption=false"
    options = ["--add-opens=java.base/java.nio=ALL-UNNAMED", "-cp", str(jar)]
    lines = run(["java", *options, str(HERE / "FlightJdbc.java"), url], TZ="UTC").splitlines()
    assert lines[:5] == [
        "Gamay read-only=true", "table default.trips", "column city STRING", "column n LONG", "column ts TIMESTAMP",
    ]  # fmt: skip
    rows = [line for line in lines if line.startswith("row ")]
    assert rows == ["row city0 2.0 2.0", "row city1 4.0 3.0", "row 3", "row 1", "row 3"]
    (refused,) = [line for line in lines if line.startswith("refused ")]
    assert "Unknown columnName 'nope'" in refused


def test_pinot_jdbc(cluster: EmbeddedCluster) -> None:
    assert jdbc(cluster.controller_url) == JDBC_TOLD


def test_pinot_jdbc_with_a_login(tmp_path: Path) -> None:
    with gamay.connect(tmp_path / "data") as db:
        db.create_table("trips", pa.table(ROWS))
    (tmp_path / "access.properties").write_text(FILE)
    access = read_access(tmp_path / "access.properties")
    with EmbeddedCluster(tmp_path / "data", 0, 0, 0, threads=1, warm_up=False, access=access) as guarded:
        assert jdbc(guarded.controller_url, ADMIN["Authorization"]) == JDBC_TOLD


JDBC_TOLD = [
    "table trips", "column city STRING", "column n LONG", "column ts TIMESTAMP",
    "row city1 1 0", "row city0 2 0", "row city1 3 0",  # its timestamps are of whole seconds
    "counted 2 4.0", "refused Failed to execute query : SELECT nope FROM trips LIMIT 1000000",
]  # fmt: skip


def jdbc(controller: str, *login: str) -> list[str]:
    """Return the output of Pinot's driver."""
    needed("java", "pinot-jdbc/pinot-jdbc-client-*.jar")
    options = ["-Duser.timezone=UTC", "-cp", f"{FETCHED / 'pinot-jdbc'}/*", str(HERE / "PinotJdbc.java")]
    return run(["java", *options, address(controller), *login]).splitlines()


def test_pinot_client_go(cluster: EmbeddedCluster) -> None:
    needed(sys.executable, "pinot_go")
    told = run([str(FETCHED / "pinot_go"), cluster.controller_url, address(cluster.broker_url)]).splitlines()
    assert told[:-1] == [
        "controller [city total] [STRING DOUBLE]", " city0 2.0", " city1 4.0",
        "broker [count(*) max(n)] [LONG DOUBLE]", " 3 3.0",
    ]  # fmt: skip
    assert told[-1].startswith("mistake exception 710 UnknownColumnError: Unknown columnName 'nope'")


def test_pinots_client_of_servers(tmp_path: Path) -> None:
    """Pinot's own client and its decoder of DataTables, which Trino's connector reads tables with."""
    needed("java", "pinot/pinot-common-*.jar")
    with gamay.connect(tmp_path / "data") as db:
        db.create_table("trips", TRIPS)
    with EmbeddedCluster(tmp_path / "data", 0, 0, 0, grpc_port=0, threads=1, warm_up=False) as cluster:
        ((_, segments),) = get(f"{cluster.broker_url}/debug/routingTable/trips")["trips_OFFLINE"].items()
        asked = [
            "true", "SET enableNullHandling = true;\nSELECT * FROM trips_OFFLINE  LIMIT 2147483647",
            "false", "SELECT \"n\" FROM trips_OFFLINE  WHERE (\"n\" > '1') LIMIT 9",
            "true", "SELECT nope FROM trips_OFFLINE",
            "true", "SELECT n FROM trips",
        ]  # fmt: skip
        program = ["java", "-cp", f"{FETCHED / 'pinot'}/*", str(HERE / "PinotGrpc.java")]
        lines = run([*program, str(cluster.grpc_port), ",".join(segments), *asked]).splitlines()
    assert lines == [
        "asked 0",
        "data version 4 rows 4 scanned null exceptions {}",
        "row|1704067200000|Oslo|[1, 2]|1|1|1.1|00ff|0.5|1|[a, b]|1.5",
        "row|1704153600000|Bern|[3]|0|2|12345678901234567890.5|32|1.5|2|[c]|null",
        "row|1704240000000|null|null|1|3|null|null|2.5|3|null|3.0",
        "row|1704326400000|Lima|[4]|null|null|-2||3.5|4|[d]|0.0",
        "schema [at(TIMESTAMP),city(STRING),counts(LONG_ARRAY),good(BOOLEAN),n(LONG),price(BIG_DECIMAL),raw(BYTES),"
        "real(FLOAT),small(INT),tags(STRING_ARRAY),x(DOUBLE)]",
        "metadata version 4 rows 0 scanned 4 exceptions {}",
        "asked 1",
        "nonStreaming version 4 rows 2 scanned 2 exceptions {}",
        "row|2",
        "row|3",
        "schema [n(LONG)]",
        "asked 2",
        "data version 4 rows 0 scanned null exceptions {710=UnknownColumnError: Unknown columnName 'nope' found in the "
        "query. Columns of trips_OFFLINE: at, city, counts, good, n, price, raw, real, small, tags, x}",
        "asked 3",
        "refused NOT_FOUND: Table not found: trips; its name must end in _OFFLINE or _REALTIME",
    ]


def test_pinot_connect(cluster: EmbeddedCluster) -> None:
    needed(sys.executable, "python/pinot_connect")
    script = (
        "import json, sys, pinot_connect\n"
        "with pinot_connect.connect(host='localhost', port=int(sys.argv[1])) as connection:\n"
        "    with connection.cursor() as cursor:\n"
        "        cursor.execute('SELECT city, n, ts FROM trips ORDER BY n LIMIT 2')\n"
        "        print(json.dumps([list(row) for row in cursor], default=str))\n"
    )
    port = cluster.broker_url.rpartition(":")[2]
    assert json.loads(run([sys.executable, "-c", script, port], PYTHONPATH=str(FETCHED / "python"))) == [
        ["city1", 1, "1970-01-01 00:00:00.001000"],
        ["city0", 2, "1970-01-01 00:00:00.002000"],
    ]


def get(url: str, **parameters: Any) -> Any:
    answer = httpx.get(url, params=parameters, headers={"Accept": "application/json"})
    assert answer.status_code == 200, (url, answer.text)
    return answer.json()


def test_the_calls_of_trinos_connector(cluster: EmbeddedCluster) -> None:
    """Those of its HTTP client: tables and schemas from the controller, routes and queries from the broker it names."""
    controller = cluster.controller_url
    assert get(f"{controller}/tables")["tables"] == ["trips"]
    schema = get(f"{controller}/tables/trips/schema")
    assert {each["name"] for each in schema["dimensionFieldSpecs"]} >= {"city"}
    brokers = [name for each in get(f"{controller}/tables/trips/instances")["brokers"] for name in each["instances"]]
    matched = re.fullmatch(r"Broker_(.*)_(\d+)", brokers[0])
    assert matched is not None
    broker = f"http://{matched[1]}:{matched[2]}"
    routes = get(f"{broker}/debug/routingTable/trips")
    (table,) = routes
    assert table == "trips_OFFLINE"
    assert all(server.startswith("Server_") and segments for server, segments in routes[table].items())
    assert httpx.get(f"{broker}/debug/timeBoundary/trips").status_code == 404  # which it takes for none
    (server,) = routes[table]  # Spark's connector requests the port, Trino's has it in its configuration
    assert get(f"{controller}/instances/{server}")["grpcPort"] == cluster.grpc_port
    by_query = get(f"{broker}/debug/routingTable/sql", query="SELECT city FROM trips_OFFLINE LIMIT 1")
    assert by_query == routes[table]
    body = '{"sql" : "SELECT city, COUNT(*) FROM trips GROUP BY city LIMIT 10" }'
    answer = httpx.post(f"{broker}/query/sql", content=body, headers={"Content-Type": "application/json"}).json()
    assert sorted(answer["resultTable"]["rows"]) == [["city0", 1], ["city1", 2]]
    assert answer["numServersQueried"] == answer["numServersResponded"] > 0
    assert answer["exceptions"] == []


def test_the_calls_of_grafanas_plug_in(cluster: EmbeddedCluster) -> None:
    """Those of its back end: tables, schemas and configs from the controller; queries with options from the broker."""
    controller = cluster.controller_url
    assert httpx.head(f"{controller}/mytables").status_code == 404  # else it would ask there
    assert get(f"{controller}/tables")["tables"] == ["trips"]
    assert get(f"{controller}/tables/trips/schema")["schemaName"] == "trips"
    assert "OFFLINE" in get(f"{controller}/tables/trips")
    assert "default" in get(f"{controller}/databases")
    assert get(f"{controller}/tables/trips/metadata")["numRows"] == 3
    sql = (
        "SELECT DATETIMECONVERT(ts, '1:MILLISECONDS:EPOCH', '1:MILLISECONDS:EPOCH', '1:MILLISECONDS') AS \"time\", "
        'SUM(n) AS "metric" FROM "trips" WHERE ts >= 0 AND ts < 1000 '
        'GROUP BY "time" ORDER BY "time" DESC LIMIT 100000'
    )
    answer = httpx.post(
        f"{cluster.broker_url}/query/sql", json={"sql": f"SET timeoutMs=5000; {sql}", "trace": False, "queryOptions": ""}
    ).json()
    assert answer["exceptions"] == []
    assert answer["resultTable"]["rows"] == [[3, 3], [2, 2], [1, 1]]
    for distinct in ("SELECT DISTINCT city FROM \"trips\" ORDER BY city LIMIT 100", "SELECT 1"):  # fmt: skip
        assert not httpx.post(f"{cluster.broker_url}/query/sql", json={"sql": distinct}).json()["exceptions"]
