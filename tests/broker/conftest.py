"""A broker and servers connected by real sockets, in one process."""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from gamay.base.clock import SYSTEM_CLOCK
from gamay.broker.answer.runner import QueryRunner
from gamay.broker.http.app import BrokerApp
from gamay.broker.routes.routing import RoutingTables
from gamay.broker.scatter.remote import QueryConnections
from gamay.cluster.records.records import ONLINE, Assignment, SegmentRecord
from gamay.cluster.records.registry import Registry, announce
from gamay.cluster.store.embedded_store import EmbeddedStore
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import raw_table_name
from gamay.query.bind.binder import BoundQuery
from gamay.query.execute.server_result import ServerResult
from gamay.query.layout.rebuild import TableLayout
from gamay.query.limits.deadline import Deadline
from gamay.query.limits.queue import QueryQueue
from gamay.rpc.peer import ConnectionLimits
from gamay.segment.read.reader import ImmutableSegment, open_segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.server.answering.executor import QueryExecutor
from gamay.server.answering.listener import QueryListener
from gamay.server.answering.running import RunningQueries
from gamay.server.loading.table import LoadedSegment, TableData
from gamay.server.query_counts import ServerCounts

# a server that works may still be silent for long where others keep the processor busy
PATIENT = ConnectionLimits(connect_s=10, silence_s=60)
DAY_MS = 86_400_000
SCHEMA: dict[str, Any] = {
    "schemaName": "t",
    "dimensionFieldSpecs": [{"name": "k", "dataType": "STRING"}, {"name": "n", "dataType": "INT"}],
    "metricFieldSpecs": [{"name": "x", "dataType": "DOUBLE"}],
    "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
}


class Hosted:
    """The segments hosted by a server; a fake `ServerInstance`."""

    def __init__(self, name: str, schema: Schema, config: TableConfig) -> None:
        self.id = name
        self.host_name = "localhost"
        self.tables: dict[str, TableData] = {}
        self._layout = TableLayout(schema, config)
        self.counts = ServerCounts()
        self.upserts = SimpleNamespace(upsert=lambda table: None)

    def table(self, table: str) -> TableData | None:
        return self.tables.get(table)

    def layout_of(self, table: str) -> TableLayout | None:
        return self._layout

    def recheck(self, table: str) -> None:
        return

    def store_as(self, layout: TableLayout) -> None:
        self._layout = layout

    def failures(self, table: str) -> dict[str, Any]:
        return {}

    def hidden_segments(self, table: str) -> frozenset[str]:
        return frozenset()


class SlowExecutor(QueryExecutor):
    """Executes when it may. released: not set holds queries up, until their deadlines; cancelled: those that were ended."""

    def __init__(self, instance: Any) -> None:
        super().__init__(instance, 1)
        self.released = threading.Event()
        self.released.set()
        self.running = threading.Event()
        self.ended: list[str] = []

    def execute(
        self, table: str, query: BoundQuery, segments: Sequence[str], deadline: Deadline, latest: Collection[str] = ()
    ) -> tuple[ServerResult, Sequence[str]]:
        self.running.set()
        while not self.released.wait(0.005):
            try:
                deadline.check()
            except Exception as error:
                self.ended.append(str(error))
                raise
        return super().execute(table, query, segments, deadline, latest)


class TestServer:
    """One server; `port` stays the same when it is started again."""

    __test__ = False

    def __init__(self, name: str, schema: Schema, config: TableConfig) -> None:
        self.name = name
        self.hosted = Hosted(name, schema, config)
        self.executor = SlowExecutor(self.hosted)
        self.listener: QueryListener | None = None
        self.running = RunningQueries()
        self.port = 0
        self.start()

    def start(self) -> None:
        self.listener = QueryListener(self.name, self.executor, SYSTEM_CLOCK, port=self.port, running=self.running)
        self.port = self.listener.port
        self.listener.start()

    def stop(self) -> None:
        if self.listener is not None:
            self.listener.stop()
            self.listener = None

    def host(self, table: str, segments: Mapping[str, ImmutableSegment]) -> None:
        loaded = {name: LoadedSegment(s, 1, Path("."), False, 0, 0) for name, s in segments.items()}
        self.hosted.tables.setdefault(table, TableData(table)).swap(loaded)


class Cluster:
    """A broker, and servers that host the given segments."""

    def __init__(self, folder: Path, num_servers: int, limits: ConnectionLimits = PATIENT) -> None:
        self.folder = folder
        self.schema = Schema.from_json(SCHEMA).value
        self.config = TableConfig.offline("t")
        folder.mkdir(parents=True)
        self.store = EmbeddedStore.open(folder / "metadata.db", SYSTEM_CLOCK)
        self.registry = Registry(self.store)
        self.registry.put_schema("t", SCHEMA)
        self.servers = [TestServer(f"Server_s{i}_1", self.schema, self.config) for i in range(num_servers)]
        self.by_name = {server.name: server for server in self.servers}
        for server in self.servers:
            announce(self.store, server.name)
        self.routing = RoutingTables(self.registry)
        self.routing.start()
        self.remote = QueryConnections(
            "Broker_x_1", lambda name: ("127.0.0.1", self.by_name[name].port), SYSTEM_CLOCK, limits=limits
        )
        self.runner = QueryRunner("Broker_x_1", self.routing, self.remote, SYSTEM_CLOCK)
        self.queue = QueryQueue(4)
        self.http = TestClient(BrokerApp(self.runner, self.queue, lambda: True).asgi())
        self.http.__enter__()

    def close(self) -> None:
        self.runner.close()
        self.http.__exit__(None, None, None)
        self.routing.stop()
        for server in self.servers:
            server.executor.released.set()
            server.stop()
            server.executor.close()
        self.store.close()
        self.queue.shutdown()

    def build(self, name: str, rows: dict[str, Any]) -> ImmutableSegment:
        builder = SegmentBuilder(self.schema, self.config, name, self.folder / "segments")
        builder.append(Pipeline(self.schema, self.config).apply(pa.record_batch(rows)))
        return open_segment(builder.build())

    def create(
        self,
        table: str,
        segments: Mapping[str, dict[str, Any]],
        placed: Mapping[str, Sequence[int]],
        config: dict[str, Any] | None = None,
        state_of: Callable[[str, str], str] = lambda segment, server: ONLINE,
    ) -> None:
        """Make a table of segments (columns), each on the servers with these numbers."""
        self.registry.create_ideal_state(Assignment.new_table(table, 1))
        states: dict[str, dict[str, str]] = {}
        for name, rows in segments.items():
            built = self.build(name, rows)
            end_ms = max(rows["day"]) * DAY_MS
            record = SegmentRecord(name, 1, built.num_docs, 0, end_ms, push_time_ms=1, download_url="u")
            self.registry.create_segment(table, record)
            for number in placed[name]:
                server = self.servers[number]
                server.host(table, {name: built})
                states.setdefault(name, {})[server.name] = state_of(name, server.name)
        self.registry.update_ideal_state(table, lambda ideal: ideal.with_segments(states))
        self.registry.put_external_view(Assignment(table, states))
        kind = table.rpartition("_")[2]
        document = {
            **TableConfig.offline(
                "t",
            ).to_json(),
            "tableName": table,
            "tableType": kind,
            "segmentsConfig": {"timeColumnName": "day", "replication": "1"},
            **(config or {}),
        }
        if kind == "REALTIME":
            document["tableIndexConfig"] = {"streamConfigs": {"streamType": "log", "stream.log.topic.name": "t"}}
        self.registry.create_table_config(table, document)
        assert self.routing.wait_until(
            lambda: any(
                r.table == table and len(r.segments) == len(segments) for r in self.routing.find(raw_table_name(table))
            ),
            5,
        )

    def ask(self, sql: str, **options: str) -> Any:
        text = ";".join(f"{name}={value}" for name, value in options.items())
        return self.http.post("/query/sql", json={"sql": sql, "queryOptions": text}).json()


def rows_of(first: int, count: int, day: int = 100) -> dict[str, Any]:
    """Return `count` rows with n from `first`."""
    numbers = range(first, first + count)
    return {
        "k": [f"key{n % 7}" for n in numbers],
        "n": list(numbers),
        "x": [n / 4 for n in numbers],
        "day": [day + n % 3 for n in numbers],
    }


NewCluster: TypeAlias = Callable[..., Cluster]
"""Takes how many servers there are, and the limits of the connections to them."""


@pytest.fixture
def new_cluster(tmp_path: Path) -> Iterator[NewCluster]:
    made: list[Cluster] = []

    def new(num_servers: int, limits: ConnectionLimits = PATIENT) -> Cluster:
        made.append(Cluster(tmp_path / str(len(made)), num_servers, limits))
        return made[-1]

    yield new
    for cluster in made:
        cluster.close()


@pytest.fixture
def replicated(new_cluster: NewCluster) -> Cluster:
    """Return three servers with six segments of 50 rows, each on two of them."""
    return replicate(new_cluster(3))


def replicate(cluster: Cluster) -> Cluster:
    """Give three servers six segments of 50 rows, each to two of them."""
    segments = {f"s{i}": rows_of(50 * i, 50) for i in range(6)}
    cluster.create("t_OFFLINE", segments, {f"s{i}": (i % 3, (i + 1) % 3) for i in range(6)})
    return cluster
