"""A server that consumes a topic of the embedded log, and a controller of one replica that commits what it reports."""

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from tests import waiting

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.ids import RANDOM_IDS
from gamay.cluster.records.completion import Call, CompletionRequest, CompletionResponse, Status
from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import CONSUMING, DONE, IN_PROGRESS, ONLINE, Assignment, SegmentRecord
from gamay.cluster.records.registry import Registry
from gamay.cluster.store.embedded_store import EmbeddedStore
from gamay.ingest.stream.log.producer import Producer
from gamay.ingest.stream.log.topic import TopicConfig, create_topic
from gamay.ingest.stream.spi import StreamContext
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.query.bind.binder import bind
from gamay.query.layout.rebuild import TableLayout
from gamay.query.limits.deadline import Deadline
from gamay.query.reduce.merge import reduce
from gamay.segment.encode.metadata import read_metadata
from gamay.server.answering.executor import QueryExecutor
from gamay.server.consuming.builds import BuildPermits
from gamay.server.consuming.host import Resources
from gamay.server.instance.instance import ServerInstance
from gamay.server.loading.loader import SegmentLoader
from gamay.server.loading.sources import SegmentSources
from gamay.sql.parser import parse_query

ME = "Server_a_1"
TABLE = "t_REALTIME"
SCHEMA = {
    "schemaName": "t",
    "dimensionFieldSpecs": [{"name": "s", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
}


def table_config(rows: int, **stream: str) -> dict[str, Any]:
    return {
        "tableName": "t",
        "tableType": "REALTIME",
        "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
        "tenants": {},
        "tableIndexConfig": {},
        "ingestionConfig": {
            "streamIngestionConfig": {
                "streamConfigMaps": [
                    {
                        "streamType": "log",
                        "stream.log.topic.name": "events",
                        "stream.log.decoder.class.name": "JSONMessageDecoder",
                        "realtime.segment.flush.threshold.segment.rows": str(rows),
                        **stream,
                    }
                ]
            }
        },
    }


class Controller:
    """Answers as a controller would that has one server; `script` may answer first."""

    def __init__(self, registry: Registry, deep_store: Path) -> None:
        self._registry = registry
        self._deep_store = deep_store
        self._lock = threading.Lock()
        self.asked: list[tuple[Call, CompletionRequest]] = []
        self.script: Callable[[Call, CompletionRequest], CompletionResponse | None] = lambda *_: None
        self.paused = False

    def create(self, partition: int, offset: str, sequence: int = 0) -> str:
        name = str(LlcName("t", partition, sequence, "20260101T0000Z"))
        record = SegmentRecord(
            name, status=IN_PROGRESS, start_offset=offset, creation_time_ms=SYSTEM_CLOCK.now_ms(), num_replicas=1
        )
        self._registry.create_segment(TABLE, record)
        self._registry.update_ideal_state(TABLE, lambda ideal: ideal.with_segments({name: {ME: CONSUMING}}))
        return name

    def ask(
        self, call: Call, request: CompletionRequest, file: Path | None = None, controller_url: str | None = None
    ) -> CompletionResponse:
        with self._lock:
            self.asked.append((call, request))
            return self.script(call, request) or self._answer(call, request, file)

    def _answer(self, call: Call, request: CompletionRequest, file: Path | None) -> CompletionResponse:
        if call is Call.CONSUMED:
            return CompletionResponse(Status.COMMIT, request.offset, 126)
        if call is Call.COMMIT_START:
            return CompletionResponse(Status.COMMIT_CONTINUE, request.offset)
        if call is Call.UPLOAD:
            assert file is not None
            stored = shutil.copy(file, self._deep_store / file.name)
            return CompletionResponse(Status.UPLOAD_SUCCESS, request.offset, segment_location=str(stored))
        if call is Call.COMMIT_END_WITH_METADATA:
            assert file is not None
            self._commit(request, file)
            return CompletionResponse(Status.COMMIT_SUCCESS, request.offset)
        return CompletionResponse(Status.PROCESSED)

    def _commit(self, request: CompletionRequest, metadata: Path) -> None:
        built = read_metadata(metadata.parent)
        self._registry.update_segment(
            TABLE,
            request.segment,
            lambda old: old.with_changes(
                status=DONE,
                crc=built.crc,
                total_docs=built.num_docs,
                end_offset=request.offset,
                download_url=request.location,
            ),
        )
        name = LlcName.must_parse(request.segment)
        if not self.paused:
            self.create(name.partition, request.offset, name.sequence + 1)
        self._registry.update_ideal_state(TABLE, lambda ideal: ideal.with_segments({request.segment: {ME: ONLINE}}))


class World:
    """A data folder with a topic, a store, a controller, and a server that can be restarted."""

    def __init__(self, folder: Path, config: dict[str, Any], keys: list[str] | None = None) -> None:
        self.folder = folder
        self.topic = create_topic(folder / "streams", "events", TopicConfig(partitions=1))
        self.producer = Producer(self.topic, SYSTEM_CLOCK)
        self.produced = 0
        self.store = EmbeddedStore.open(folder / "metadata.db", SYSTEM_CLOCK)
        self.registry = Registry(self.store)
        self.registry.create_ideal_state(Assignment.new_table(TABLE, 1))
        (folder / "deepstore").mkdir()
        self.controller = Controller(self.registry, folder / "deepstore")
        self.layout = TableLayout(
            Schema.from_json({**SCHEMA, "primaryKeyColumns": keys}).value, TableConfig.from_json(config).value
        )
        self.server: ServerInstance | None = None

    def start(self) -> ServerInstance:
        loader = SegmentLoader(self.folder / "server", SegmentSources(), lambda _: self.layout, SYSTEM_CLOCK, RANDOM_IDS)
        resources = Resources(
            ME, self.folder / "consuming", self.folder / "kept", StreamContext(self.folder / "streams"),
            self.controller, BuildPermits(), SYSTEM_CLOCK, RANDOM_IDS,
        )  # fmt: skip
        self.session = self.store.new_session()
        self.server = ServerInstance(ME, Registry(self.session), loader, SYSTEM_CLOCK, consuming=lambda: resources)
        self.executor = QueryExecutor(self.server, 1)
        self.server.start()
        return self.server

    def stop(self) -> None:
        if self.server is not None:
            self.server.stop()
            self.session.close()
            self.executor.close()
            self.server = None

    def produce(self, rows: int) -> None:
        first = self.produced
        lines = [orjson.dumps({"s": f"v{i % 7}", "n": i, "ts": 1_700_000_000_000 + i}) for i in range(first, first + rows)]
        self.producer.send(pa.array(lines, pa.binary()), partition=0)
        self.produced += rows

    def send(self, *payloads: bytes) -> None:
        self.producer.send(pa.array(payloads, pa.binary()), partition=0)

    def segments(self) -> dict[str, str]:
        ideal = self.registry.must_get_ideal_state(TABLE)
        return {name: states[ME] for name, states in sorted(ideal.states.items())}

    def ask(
        self, sql: str = "SELECT COUNT(*), SUM(n), MIN(n), MAX(n) FROM t", *, follow: bool = False
    ) -> tuple[list[Any], Any]:
        """`follow`: as a broker asks, which knows of no segment behind the last one."""
        bound = bind(parse_query(sql), self.layout.schema)
        names = [name for name, state in self.segments().items() if state in (ONLINE, CONSUMING)]
        deadline, latest = Deadline.after_ms(10_000, SYSTEM_CLOCK), names[-1:] if follow else ()
        result, missing = self.executor.execute(TABLE, bound, names, deadline, latest)
        answer = reduce(bound, [result])
        assert answer.table is not None
        return [list(row) for row in answer.table.rows()], (answer.stats, missing)

    def count(self) -> int:
        rows, _ = self.ask("SELECT COUNT(*) FROM t")
        return int(rows[0][0])


@pytest.fixture
def eventually() -> Callable[..., None]:
    return waiting.eventually


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def make(
        rows: int = 1000, keys: list[str] | None = None, sections: dict[str, Any] | None = None, **stream: str
    ) -> World:
        made.append(World(tmp_path, {**table_config(rows, **stream), **(sections or {})}, keys))
        return made[-1]

    yield make
    for world in made:
        world.stop()
        world.store.close()
