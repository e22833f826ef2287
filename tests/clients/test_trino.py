"""Trino itself, unmodified: `python tools/get_clients.py --trino` fetches it with its connector, and it needs Java 23."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from benchmarks.cluster.ports import free_port
from tests.broker.flight.conftest import TRIPS
from tests.embedded.test_access import FILE
from tests.waiting import PATIENCE_S, eventually
from tools.get_clients import FOLDER, TRINO

import gamay
from gamay.embedded import EmbeddedCluster
from gamay.roles.settings import read_access

SERVER = FOLDER / f"trino-server-{TRINO}"
OPTIONS = [
    "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djdk.attach.allowAttachSelf=true",
    "--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow", "--add-modules=jdk.incubator.vector",
]  # fmt: skip
GROUPS = pa.table({"k": range(20_000), "g": [f"g{i % 50}" for i in range(20_000)], "v": [i / 2 for i in range(20_000)]})


def java() -> str:
    """Return a Java that can run it; skips where there is none, or no Trino."""
    if not SERVER.exists():
        pytest.skip(f"build/clients/{SERVER.name} is not there: python tools/get_clients.py --trino")
    for program in ("java", *map(str, Path("/usr/lib/jvm").glob("*/bin/java"))):
        try:
            told = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
        except FileNotFoundError:
            continue
        if (version := re.search(r'version "(\d+)', told)) and int(version[1]) >= 23:
            return program
    pytest.skip(f"Trino {TRINO} needs Java 23 or newer")


class Trino:
    """A server of one node, with a catalogue for each of some clusters."""

    def __init__(self, program: str, folder: Path, catalogues: dict[str, dict[str, Any]]) -> None:
        self._url, self._log = f"http://127.0.0.1:{(port := free_port())}", folder / "log"
        (folder / "catalog").mkdir()
        for name, settings in catalogues.items():
            lines = {"connector.name": "pinot", "pinot.metadata-expiry": "1s", **settings}
            (folder / "catalog" / f"{name}.properties").write_text("\n".join(f"{k}={v}" for k, v in lines.items()))
        config = folder / "config.properties"
        config.write_text(
            f"coordinator=true\nnode-scheduler.include-coordinator=true\nhttp-server.http.port={port}\n"
            f"discovery.uri={self._url}\ncatalog.management=static\nquery.max-memory=200MB\n"
            "query.max-memory-per-node=200MB\nmemory.heap-headroom-per-node=100MB\n"
        )
        properties = {
            "node.environment": "test", "node.id": "one", "node.data-dir": folder / "data", "config": config,
            "catalog.config-dir": folder / "catalog", "plugin.dir": SERVER / "plugin",
        }  # fmt: skip
        command = [program, *OPTIONS, *(f"-D{key}={value}" for key, value in properties.items())]
        environment = {key: value for key, value in os.environ.items() if key != "JAVA_TOOL_OPTIONS"}
        with self._log.open("wb") as log:
            command += ["-cp", f"{SERVER / 'lib'}/*", "io.trino.server.TrinoServer"]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)

    def wait_ready(self) -> None:
        def is_ready() -> bool:
            assert self._process.poll() is None, self._log.read_text()
            return "SERVER STARTED" in self._log.read_text()

        eventually(is_ready, self._log.read_text)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def rows(self, sql: str, catalogue: str = "open") -> Any:
        """Return the rows of an answer, or the message of its error."""
        headers = {"X-Trino-User": "somebody", "X-Trino-Catalog": catalogue, "X-Trino-Schema": "default"}
        answer = httpx.post(f"{self._url}/v1/statement", content=sql, headers=headers, timeout=PATIENCE_S).json()
        found: list[list[Any]] = list(answer.get("data") or ())
        while "nextUri" in answer:
            answer = httpx.get(answer["nextUri"], timeout=PATIENCE_S).json()
            found += answer.get("data") or ()
        return answer["error"]["message"] if "error" in answer else found


@pytest.fixture(scope="module")
def trino(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trino]:
    program, folder = java(), tmp_path_factory.mktemp("trino")
    with gamay.connect(folder / "open") as db:
        db.create_table("trips", TRIPS.drop_columns(["price"]))
        db.create_table("priced", TRIPS.select(["n", "price"]))
        db.create_table("many", GROUPS)
        db.create_table("cities", {"name": ["Oslo", "Bern", "Lima"], "country": ["NO", "CH", "PE"]})
    with gamay.connect(folder / "guarded") as db:
        db.create_table("trips", TRIPS.drop_columns(["price"]))
    (folder / "access.properties").write_text(FILE)
    access = read_access(folder / "access.properties")
    common: dict[str, Any] = {"threads": 1, "warm_up": False}
    with (
        EmbeddedCluster(folder / "open", 0, 0, 0, grpc_port=0, **common) as opened,
        EmbeddedCluster(folder / "guarded", 0, 0, 0, grpc_port=0, access=access, **common) as guarded,
    ):
        logins = {
            f"pinot.{role}.authentication.{key}": value
            for role in ("controller", "broker")
            for key, value in (("type", "PASSWORD"), ("user", "admin"), ("password", "verysecret"))
        }
        catalogues = {
            name: {"pinot.controller-urls": cluster.controller_url.partition("//")[2], "pinot.grpc.port": cluster.grpc_port}
            for name, cluster in (("open", opened), ("guarded", guarded), ("stranger", guarded))
        }
        catalogues["guarded"] |= {**logins, "pinot.prefer-broker-queries": "true"}
        server = Trino(program, folder, catalogues)
        try:
            server.wait_ready()
            yield server
        finally:
            server.stop()


def test_tables_and_their_types(trino: Trino) -> None:
    assert trino.rows("SHOW TABLES") == [["cities"], ["many"], ["priced"], ["trips"]]
    assert [row[:2] for row in trino.rows("DESCRIBE trips")] == [
        ["at", "timestamp(3)"], ["city", "varchar"], ["counts", "array(bigint)"], ["good", "boolean"], ["n", "bigint"],
        ["raw", "varbinary"], ["real", "real"], ["small", "integer"], ["tags", "array(varchar)"], ["x", "double"],
    ]  # fmt: skip
    assert trino.rows("SELECT * FROM trips ORDER BY 1") == [
        ["2024-01-01 00:00:00.000", "Oslo", [1, 2], True, 1, "AP8=", 0.5, 1, ["a", "b"], 1.5],
        ["2024-01-02 00:00:00.000", "Bern", [3], False, 2, "Mg==", 1.5, 2, ["c"], None],
        ["2024-01-03 00:00:00.000", None, None, True, 3, None, 2.5, 3, None, 3.0],
        ["2024-01-04 00:00:00.000", "Lima", [4], None, None, "", 3.5, 4, ["d"], 0.0],
    ]
    assert "BIG_DECIMAL" in trino.rows("SELECT n FROM priced")  # of any cluster: the connector does not know the type


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT city, n FROM trips WHERE n > 1 ORDER BY n", [["Bern", 2], [None, 3]]),
        ("SELECT n FROM trips WHERE city IS NULL", [[3]]),
        ("SELECT n FROM trips WHERE city LIKE 'O%'", [[1]]),
        ("SELECT city FROM trips WHERE at >= TIMESTAMP '2024-01-03 00:00:00' ORDER BY at", [[None], ["Lima"]]),
        ("SELECT k, g FROM many WHERE k = 7777", [[7777, "g27"]]),
        ("SELECT count(*), sum(n) FROM trips", [[4, 6]]),
        ("SELECT count(distinct g), approx_distinct(g) FROM many", [[50, 50]]),
        ("SELECT g, count(*), sum(v), min(k), max(k) FROM many GROUP BY g ORDER BY g LIMIT 2",
         [["g0", 400, 1995000.0, 0, 19950], ["g1", 400, 1995200.0, 1, 19951]]),
        ("SELECT sum(k) FROM (SELECT k FROM many)", [[199990000]]),  # every row of every segment
        ("SELECT sum(k), count(*) FROM many WHERE g IN ('g1', 'g2') AND k BETWEEN 1000 AND 15000", [[4466840, 560]]),
        ("SELECT country, n FROM trips JOIN cities ON city = name ORDER BY 1", [["CH", 2], ["NO", 1], ["PE", None]]),
        ('SELECT * FROM "SELECT g, COUNT(*) AS c FROM many GROUP BY g ORDER BY g LIMIT 2"', [["g0", 400], ["g1", 400]]),
    ],
)  # fmt: skip
def test_answers(trino: Trino, sql: str, rows: list[list[Any]]) -> None:
    assert trino.rows(sql) == rows


def test_mistakes_are_told(trino: Trino) -> None:
    assert "'nope' cannot be resolved" in trino.rows("SELECT nope FROM trips")
    assert "does not exist" in trino.rows("SELECT * FROM nope")


def test_with_access_control_brokers_are_asked(trino: Trino) -> None:
    """The connector sends servers no credentials, so they refuse it, whatever its rights at brokers."""
    assert trino.rows("SELECT city, n FROM trips WHERE n > 1 AND city = 'Bern' LIMIT 5", "guarded") == [["Bern", 2]]
    assert trino.rows("SELECT count(*), sum(n) FROM trips", "guarded") == [[4, 6]]
    assert isinstance(trino.rows("SHOW TABLES", "stranger"), str)
