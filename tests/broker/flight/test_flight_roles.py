"""Flight SQL at a broker in a separate process, with servers in other processes."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.embedded.conftest import make_segment  # noqa: F401 - a fixture
from tests.embedded.test_tls import SCHEMA, TABLE, Certificates
from tests.waiting import PATIENCE_S, eventually

from gamay.cluster.records.records import Role
from gamay.roles.broker_process import BrokerProcess
from gamay.roles.process import RoleProcess
from gamay.roles.processes import role_process
from gamay.roles.settings import load_settings

adbc = pytest.importorskip("adbc_driver_flightsql.dbapi")


@pytest.fixture
def start(zookeeper_hosts: str) -> Iterator[Callable[..., RoleProcess]]:
    running: list[RoleProcess] = []

    def run(role: Role, file: Path | None = None, **given: Any) -> RoleProcess:
        more = {"warm_up": False, "query_port": 0} if role is Role.SERVER else {}
        settings = load_settings(role, file, {"zk": zookeeper_hosts, "port": 0, "drain_s": 0, **more, **given})
        process = role_process(settings)
        process.start()
        running.append(process)
        return process

    yield run
    for process in reversed(running):
        process.stop()


def test_answers_of_servers_in_other_processes(
    start: Callable[..., RoleProcess],
    tmp_path: Path,
    make_segment: Callable[..., Path],  # noqa: F811
) -> None:
    pem = Certificates(tmp_path)
    controller = start(Role.CONTROLLER, data_dir=tmp_path / "deep")
    config = tmp_path / "broker.properties"
    config.write_text("gamay.broker.flight.port=0\n")
    plain = start(Role.BROKER, config)
    encrypted = start(Role.BROKER, flight_port=0, tls_cert=pem.cert, tls_key=pem.key, query_tls=False)
    start(Role.SERVER, data_dir=tmp_path / "server")
    assert isinstance(plain, BrokerProcess)
    assert isinstance(encrypted, BrokerProcess)
    with httpx.Client(base_url=controller.url, timeout=PATIENCE_S) as http:
        assert http.post("/schemas", json=SCHEMA).status_code == 200
        assert http.post("/tables", json=TABLE).status_code == 200
        archive = make_segment("trips_0", list(range(100)))
        with archive.open("rb") as file:
            answer = http.post("/v2/segments", params={"tableName": "trips"}, files={"file": (archive.name, file)})
        assert answer.status_code == 200, answer.text
    trusted = {"adbc.flight.sql.client_option.tls_root_certs": pem.ca.read_text()}
    with adbc.connect(plain.flight_url, autocommit=True) as connection, connection.cursor() as cursor:

        def ask(sql: str) -> list[tuple[Any, ...]]:
            cursor.execute(sql)
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found

        eventually(lambda: ask("SELECT COUNT(*) FROM trips") == [(100,)])
        for _ in range(3):  # soon as a query of known shape
            assert ask("SELECT city, COUNT(*), SUM(n) FROM trips WHERE n < 50 GROUP BY city ORDER BY city") == [
                ("city0", 17, 408), ("city1", 17, 425), ("city2", 16, 392),
            ]  # fmt: skip
        assert ask("SELECT COUNT(*) FROM trips a JOIN trips b ON a.n = b.n + 1") == [(99,)]
    assert encrypted.flight_url is not None
    assert encrypted.flight_url.startswith("grpc+tls://")
    with adbc.connect(encrypted.flight_url, db_kwargs=trusted, autocommit=True) as connection:
        assert connection.adbc_get_table_schema("trips").names == ["city", "n", "ts"]
