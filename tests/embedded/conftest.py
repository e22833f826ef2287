import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from benchmarks.cluster.ports import free_port
from tests.waiting import PATIENCE_S

from gamay.embedded import EmbeddedCluster
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.segment.write.builder import SegmentBuilder
from gamay.storage.archive import pack
from gamay.storage.settings import StorageSettings

SCHEMA: dict[str, Any] = {
    "schemaName": "trips",
    "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP", "granularity": "1:MILLISECONDS"}
    ],
}
TABLE: dict[str, Any] = {
    "tableName": "trips",
    "tableType": "OFFLINE",
    "segmentsConfig": {"timeColumnName": "ts", "replication": "1", "segmentPushType": "APPEND"},
    "tenants": {},
    "tableIndexConfig": {},
    "metadata": {},
}
T0 = 1_700_000_000_000

SegmentMaker = Callable[..., Path]


@pytest.fixture
def make_segment(tmp_path: Path) -> SegmentMaker:
    """Return a function that builds a segment of table trips and returns its archive (or folder)."""

    made = count()

    def make(
        name: str, values: list[int], *, suffix: str = ".tar.gz", first_ms: int = T0, schema: dict[str, Any] = SCHEMA
    ) -> Path:
        parsed, config = Schema.from_json(schema).value, TableConfig.from_json(TABLE).value
        out = tmp_path / f"built-{name}-{next(made)}"
        builder = SegmentBuilder(parsed, config, name, out)
        rows = pa.table(
            {
                "city": [f"city{value % 3}" for value in values],
                "n": pa.array(values, pa.int64()),
                "ts": pa.array([first_ms + i for i in range(len(values))], pa.int64()),
            }
        )
        pipeline = Pipeline(parsed, config)
        for batch in rows.to_batches():
            builder.append(pipeline.apply(batch))
        folder = builder.build()
        return pack(folder, out / f"{name}{suffix}") if suffix else folder

    return make


class Api:
    """A cluster with clients for its HTTP interfaces.

    Its users may name files beside its data, and those of the web servers at `web_port` and port 1, if there are any,
    and those in memory.
    """

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.web_port = free_port()
        allowed = (f"file://{data_dir.parent}/", f"http://127.0.0.1:{self.web_port}/", "http://localhost:1/", "memory")
        storage = StorageSettings(allowed_uris=allowed)
        self.cluster = EmbeddedCluster(data_dir, 0, 0, 0, threads=2, warm_up=False, storage=storage).start()
        self.controller = httpx.Client(base_url=self.cluster.controller_url, timeout=PATIENCE_S)
        self.broker = httpx.Client(base_url=self.cluster.broker_url, timeout=PATIENCE_S)
        self.server = httpx.Client(base_url=self.cluster.server_url, timeout=PATIENCE_S)
        self.minion = httpx.Client(base_url=self.cluster.minion_url, timeout=PATIENCE_S)

    def stop(self) -> None:
        for client in (self.controller, self.broker, self.server, self.minion):
            client.close()
        self.cluster.stop()

    def create(self, schema: dict[str, Any] = SCHEMA, table: dict[str, Any] = TABLE) -> None:
        assert self.controller.post("/schemas", json=schema).status_code == 200
        answer = self.controller.post("/tables", json=table)
        assert answer.status_code == 200, answer.text
        self.cluster.core.wait_until_routed(f"{table['tableName']}_OFFLINE")

    def push(self, archive: Path, wait: bool = True, **headers: str) -> httpx.Response:
        with archive.open("rb") as file:
            answer = self.controller.post(
                "/v2/segments", params={"tableName": "trips"}, files={"file": (archive.name, file)}, headers=headers
            )
        if wait and answer.status_code == 200:
            name = answer.json()["status"].split("segment: ")[1].split(" of table: ")[0]
            self.cluster.core.wait_until_visible("trips_OFFLINE", [name], 60)
        return answer

    def query(self, sql: str) -> dict[str, Any]:
        answer: dict[str, Any] = self.broker.post("/query/sql", json={"sql": sql}).json()
        return answer

    def rows(self, sql: str) -> list[list[Any]]:
        answer = self.query(sql)
        assert answer["exceptions"] == [], answer["exceptions"]
        rows: list[list[Any]] = answer["resultTable"]["rows"]
        return rows


@contextmanager
def polled(ask: Callable[[], Any]) -> Iterator[list[Any]]:
    """Ask again and again while the body runs; the list holds the different answers, in order."""
    seen: list[Any] = []
    over = threading.Event()

    def poll() -> None:
        while not over.wait(0.01):
            answer = ask()
            if not seen or seen[-1] != answer:
                seen.append(answer)

    with ThreadPoolExecutor(1) as pool:
        polling = pool.submit(poll)
        try:
            yield seen
        finally:
            over.set()
            polling.result()


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """Return a running cluster, empty."""
    running = Api(tmp_path / "data")
    yield running
    running.stop()


@pytest.fixture
def trips(api: Api) -> Api:
    """Return a running cluster with the empty table trips."""
    api.create()
    return api


@pytest.fixture
def open_api() -> Iterator[Callable[[Path], Api]]:
    """Return a function that starts a cluster over a folder."""
    running: list[Api] = []

    def start(data_dir: Path) -> Api:
        running.append(Api(data_dir))
        return running[-1]

    yield start
    for one in running:
        one.stop()
