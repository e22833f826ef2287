"""The attacked cluster: a process for each role, with access control, and a bystander's table next to the others."""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pyarrow as pa
from tests.fuzz import fuzz_world

from benchmarks.attack.requests import TABLE
from benchmarks.cluster import facts
from benchmarks.cluster.ports import free_port
from benchmarks.cluster.processes import RoleProcess, until
from gamay.cluster.access.passwords import basic_token
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.segment.write.builder import SegmentBuilder
from gamay.storage.archive import pack

ROWS = 2_000
"""Of each of the bystander's parts."""

SECRET = "what only brokers and servers know"
_ONLINE_S = 90
_LINES_SHOWN = 12
_RECORD = re.compile(r"^(?=\d{4}-\d\d-\d\d \d\d:)", re.MULTILINE)
_UNEXPECTED = ("defect of Gamay", "Fatal Python error")
_PRINCIPALS = {
    "admin": "",
    "owner": f"tables={TABLE},made",  # an operator, of tables without worth
    "guest": f"tables={','.join(fuzz_world.TABLES)}\npermissions=READ",
}
_ACCESS = {
    "controller": ("controller.admin.access.control", "factory.class"),
    "broker": ("pinot.broker.access.control", "class"),
    "server": ("pinot.server.admin.access.control", "factory.class"),
    "minion": ("pinot.minion.admin.access.control", "factory.class"),
}
_TOKENS = {
    "controller": ("controller.server.admin.auth.token",),
    "server": ("pinot.server.instance.auth.token", "pinot.server.segment.fetcher.auth.token"),
    "minion": ("task.auth.token",),
}
_REST: dict[str, Any] = {"segmentsConfig": {"replication": "1"}, "tenants": {}, "metadata": {}}
_TRIPS_SCHEMA: dict[str, Any] = {
    "schemaName": TABLE,
    "dimensionFieldSpecs": [
        {"name": "city", "dataType": "STRING"},
        {"name": "tags", "dataType": "STRING", "singleValueField": False},
    ],
    "metricFieldSpecs": [{"name": "fare", "dataType": "DOUBLE"}],
}
_TRIPS_CONFIG: dict[str, Any] = {
    "tableName": TABLE,
    "tableType": "OFFLINE",
    "tableIndexConfig": {"invertedIndexColumns": ["city", "tags"]},
    **_REST,
}


def token(name: str) -> str:
    """Return the Authorization header of a principal."""
    return basic_token(name, f"password of {name}")


@dataclass(frozen=True)
class Doors:
    """The addresses of the cluster. urls: of the roles, by name. query_port: of the server; flight_port: of the broker."""

    urls: dict[str, str]
    query_port: int
    flight_port: int


def trips_archive(folder: Path, rows: int = 500) -> Path:
    """Write an archive with a segment of the attacked table."""
    data = pa.table(
        {
            "city": [f"city {i % 40}" for i in range(rows)],
            "tags": [[f"tag {i % 7}", f"tag {i % 11}"] for i in range(rows)],
            "fare": [i * 0.5 for i in range(rows)],
        }
    )
    return _archive(folder, _TRIPS_SCHEMA, _TRIPS_CONFIG, f"{TABLE}_0", data)


def odd_segment(folder: Path, name: str) -> Path:
    """Build a segment with columns of every type and the indexes of a table of `fuzz_world`; return its folder."""
    data = fuzz_world.rows(random.Random(7), 400, 0.1)
    return _segment(folder, fuzz_world.schema(name), {**fuzz_world.config(name), **_REST}, f"{name}_0", data)


def _segment(folder: Path, schema: dict[str, Any], config: dict[str, Any], name: str, data: pa.Table) -> Path:
    parsed, table = Schema.from_json(schema).value, TableConfig.from_json(config).value
    builder, pipeline = SegmentBuilder(parsed, table, name, folder), Pipeline(parsed, table)
    for batch in data.to_batches():
        builder.append(pipeline.apply(batch))
    return builder.build()


def _archive(folder: Path, schema: dict[str, Any], config: dict[str, Any], name: str, data: pa.Table) -> Path:
    return pack(_segment(folder / name, schema, config, name, data), folder / f"{name}.tar.gz")


class Target:
    """A controller, a broker, a server and a minion on one ZooKeeper. folder: for their files; zk: where ZooKeeper is."""

    def __init__(self, folder: Path, zk: str) -> None:
        self._folder = folder
        self._processes: list[RoleProcess] = []
        shared, port, flight_port = str(folder / "deepstore"), free_port(), free_port()
        options = {
            "controller": ("--data-dir", shared),
            "broker": (),
            "server": ("--data-dir", str(folder / "server"), "--query-port", str(port), "--deep-store", shared),
            "minion": ("--data-dir", str(folder / "minion")),
        }
        for role, more in options.items():
            config = folder / f"{role}.properties"
            speaks = [f"gamay.broker.flight.port={flight_port}"] if role == "broker" else []
            config.write_text("\n".join([*_settings(role), *speaks]))
            self._processes.append(RoleProcess(role, 0, folder, zk, "--config-file", str(config), *more))
        urls = {process.role: f"http://127.0.0.1:{process.port}" for process in self._processes}
        self.doors = Doors(urls, port, flight_port)
        self._admin = httpx.Client(base_url=urls["controller"], headers={"authorization": token("admin")}, timeout=60)

    def start(self) -> None:
        """Start the processes and create the tables. Raises WaitedInVainError."""
        for process in self._processes:
            process.start()
        for process in self._processes:
            process.wait_ready()
        built = self._folder / "built"
        self._create(facts.SCHEMA, {**facts.CONFIG, **_REST})
        for part in range(facts.PARTS):
            self._push(facts.TABLE, facts.build(built, part, 0, ROWS))
        for name in fuzz_world.TABLES:
            schema, config = fuzz_world.schema(name), {**fuzz_world.config(name), **_REST}
            self._create(schema, config)
            if name != "empty":
                rows = fuzz_world.rows(random.Random(42), 60, 1.0 if name == "nulls" else 0.1)
                self._push(name, _archive(built, schema, config, f"{name}_0", rows))
        self.restore()
        self._push(TABLE, trips_archive(built))
        until(self._is_online, _ONLINE_S, "the segments are online")

    def restore(self) -> None:
        """Create the attacked table again, if an attack has deleted it."""
        if "OFFLINE" not in self._admin.get(f"/tables/{TABLE}").json():
            self._admin.post("/schemas", json=_TRIPS_SCHEMA)
            self._admin.post("/tables", json=_TRIPS_CONFIG)

    def stop(self) -> None:
        """End the processes."""
        self._admin.close()
        for process in self._processes:
            process.kill()
            process.http.close()

    def resident_bytes(self) -> dict[str, int]:
        """Return the memory of each process, by role. Raises WaitedInVainError if one has ended."""
        found = {}
        for process in self._processes:
            process.is_ready()  # raises when it has ended
            found[process.role] = psutil.Process(process.pid).memory_info().rss
        return found

    def logged(self) -> Iterator[str]:
        """Yield unexpected errors in the logs of the processes, with the lines that follow."""
        for process in self._processes:
            for record in _RECORD.split(process.log.read_text(errors="replace")):
                if "Traceback " in record or any(text in record for text in _UNEXPECTED):
                    lines = record.splitlines()
                    yield f"{process.role}: " + "\n".join([*lines[:1], *lines[1:][-_LINES_SHOWN:]])

    def _create(self, schema: dict[str, Any], config: dict[str, Any]) -> None:
        for path, document in (("/schemas", schema), ("/tables", config)):
            answer = self._admin.post(path, json=document)
            if not answer.is_success:
                raise ValueError(f"{path}: {answer.text}")

    def _push(self, table: str, archive: Path) -> None:
        files = {"file": (archive.name, archive.read_bytes())}
        params = {"tableName": table, "tableType": "OFFLINE"}
        self._admin.post("/v2/segments", params=params, files=files).raise_for_status()

    def _is_online(self) -> bool:
        sql = f"SELECT COUNT(*) FROM {facts.TABLE}"
        url, headers = f"{self.doors.urls['broker']}/query/sql", {"authorization": token("admin")}
        answer = httpx.post(url, json={"sql": sql}, headers=headers, timeout=60).json()
        return not answer["exceptions"] and bool(answer["resultTable"]["rows"] == [[facts.PARTS * ROWS]])


def _settings(role: str) -> Iterator[str]:
    prefix, switch = _ACCESS[role]
    yield f"{prefix}.{switch}=BasicAuthAccessControlFactory"
    yield f"{prefix}.principals={','.join(_PRINCIPALS)}"
    for name, rights in _PRINCIPALS.items():
        yield f"{prefix}.principals.{name}.password=password of {name}"
        yield from (f"{prefix}.principals.{name}.{right}" for right in rights.splitlines())
    yield from (f"{key}={token('admin')}" for key in _TOKENS.get(role, ()))
    if role in ("broker", "server"):
        yield f"gamay.cluster.secret={SECRET}"
