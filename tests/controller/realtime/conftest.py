from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from tests.waiting import PATIENCE_S

from gamay.base.clock import ManualClock
from gamay.base.errors import NotFoundError
from gamay.base.ids import CountingIds
from gamay.cluster.records.records import Assignment, Instance, SegmentRecord
from gamay.cluster.records.registry import Registry
from gamay.cluster.store.embedded_store import EmbeddedStore
from gamay.controller.api.app import create_app
from gamay.ingest.stream.log.topic import TopicConfig, create_topic
from gamay.ingest.stream.spi import StreamContext
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.roles.controller_role import ControllerRole
from gamay.segment.write.builder import SegmentBuilder
from gamay.storage.archive import pack
from gamay.storage.local_store import LocalStore
from gamay.web.serving import HttpServer

TABLE = "t_REALTIME"
T0 = 1_700_000_000_000
SCHEMA: dict[str, Any] = {
    "schemaName": "t",
    "dimensionFieldSpecs": [{"name": "s", "dataType": "STRING"}],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP", "granularity": "1:MILLISECONDS"}
    ],
}


class FakeServers:
    """Servers with responses set by a test. archives: (instance, segment) to the archive.

    disks: instance to bytes of its disk, and those in use.
    """

    def __init__(self) -> None:
        self.archives: dict[tuple[str, str], Path] = {}
        self.disks: dict[str, tuple[int, int]] = {}

    def __getattr__(self, name: str) -> Any:
        def silent(instance: str, *_: object) -> Any:
            raise NotFoundError(instance)

        return silent

    def disk_usage(self, instance: str) -> tuple[int, int]:
        if instance not in self.disks:
            raise NotFoundError(instance)
        return self.disks[instance]

    def fetch_segment(self, instance: str, table: str, segment: str, target: Path) -> None:
        if (instance, segment) not in self.archives:
            raise NotFoundError(segment)
        target.write_bytes(self.archives[instance, segment].read_bytes())


class RealtimeController:
    """A controller with its REST interface over a folder, and two servers that do not run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock()
        folder.mkdir()
        self.registry = Registry(EmbeddedStore.open(folder / "metadata.db", self.clock))
        for name in "ab":
            self.registry.create_instance(Instance(f"Server_{name}_1", name, 1, ("DefaultTenant_REALTIME",)))
        self.servers = FakeServers()
        self.role = ControllerRole(
            self.registry, self.registry, LocalStore(folder / "deepstore"), folder / "work", self.servers,
            "Controller_a_1", "http://a:1", self.clock, CountingIds(), StreamContext(folder / "streams", clock=self.clock),
        )  # fmt: skip
        self.role.prepare(alone=True)
        self.role.realtime.lead()
        services = self.role.services(self.role.periodic_tasks(), lambda: True, lambda seconds: True)
        self._server = HttpServer("controller", 0, "127.0.0.1")
        self._server.start(create_app(services))
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self._server.port}", timeout=PATIENCE_S)
        self.role.schemas.add(SCHEMA)

    def close(self) -> None:
        self.http.close()
        self._server.stop()
        self.role.stop()
        self.registry.store.close()

    def topic(self, partitions: int = 2) -> None:
        create_topic(self.folder / "streams", "events", TopicConfig(partitions))

    def config(self, replication: int = 2, pauseless: bool = False, **keys: str) -> dict[str, Any]:
        stream = {
            "streamType": "log",
            "stream.log.topic.name": "events",
            "stream.log.decoder.class.name": "json",
            "stream.log.consumer.prop.auto.offset.reset": "smallest",
            **keys,
        }
        peers = {"peerSegmentDownloadScheme": "http"} if pauseless and replication > 1 else {}
        return {
            "tableName": "t",
            "tableType": "REALTIME",
            "segmentsConfig": {"timeColumnName": "ts", "replication": str(replication), **peers},
            "tenants": {},
            "tableIndexConfig": {},
            "ingestionConfig": {
                "streamIngestionConfig": {"streamConfigMaps": [stream], "pauselessConsumptionEnabled": pauseless}
            },
            "metadata": {},
        }

    def create(self, replication: int = 2, pauseless: bool = False, **keys: str) -> None:
        answer = self.http.post("/tables", json=self.config(replication, pauseless, **keys))
        assert answer.status_code == 200, answer.text

    def ideal(self) -> Assignment:
        return self.registry.must_get_ideal_state(TABLE)

    def records(self) -> dict[str, SegmentRecord]:
        return {record.name: record for record in self.registry.segments(TABLE)}

    def consuming(self, partition: int = 0) -> str:
        """Return the name of the segment of a partition that is consumed."""
        return next(
            name
            for name, states in self.ideal().states.items()
            if "CONSUMING" in states.values() and name.split("__")[1] == str(partition)
        )

    def ask(self, call: str, segment: str, offset: int, server: str = "a", **params: object) -> dict[str, Any]:
        query = {"instance": f"Server_{server}_1", "name": segment, "streamPartitionMsgOffset": str(offset), **params}
        answer = self.http.get(f"/{call}", params={k: str(v) for k, v in query.items()})
        assert answer.status_code == 200
        document: dict[str, Any] = answer.json()
        return document

    def send(self, call: str, segment: str, offset: int, file: Path | None, **params: object) -> dict[str, Any]:
        query = {"instance": "Server_a_1", "name": segment, "streamPartitionMsgOffset": str(offset), **params}
        files = None if file is None else {"file": (file.name, file.read_bytes())}
        answer = self.http.post(f"/{call}", params={k: str(v) for k, v in query.items()}, files=files)
        assert answer.status_code == 200
        document: dict[str, Any] = answer.json()
        return document

    def build(self, segment: str, rows: int, schema: Mapping[str, Any] = SCHEMA, name: str = "") -> Path:
        """Build a segment as a server would, and return its folder."""
        parsed, config = Schema.from_json(schema).value, TableConfig.from_json(self.config()).value
        out = self.folder / "built" / f"{name or segment}-{rows}-{len(list((self.folder / 'built').glob('*')))}"
        out.parent.mkdir(exist_ok=True)
        builder = SegmentBuilder(parsed, config, segment, out, clock=self.clock)
        columns: dict[str, Sequence[object] | pa.Array] = {
            field: [f"v{i}" for i in range(rows)]
            if field == "s"
            else pa.array(range(1_700_000_000_000, 1_700_000_000_000 + rows))
            for field in parsed.column_names
        }
        builder.append(Pipeline(parsed, config).apply(pa.record_batch(columns)))
        return builder.build()

    def archive(self, segment: str, rows: int) -> Path:
        folder = self.build(segment, rows)
        return pack(folder, folder.with_suffix(".tar.gz"))

    def commit(self, segment: str, offset: int, rows: int) -> None:
        """Complete a segment by all steps of a split commit."""
        folder = self.build(segment, rows)
        archive = pack(folder, folder.with_suffix(".tar.gz"))
        assert self.ask("segmentConsumed", segment, offset, reason="rowLimit")["status"] == "COMMIT"
        assert self.ask("segmentCommitStart", segment, offset)["status"] == "COMMIT_CONTINUE"
        location = self.send("segmentUpload", segment, offset, archive)["segmentLocation"]
        ended = self.send(
            "segmentCommitEndWithMetadata", segment, offset, folder / "metadata.json", location=location, rowCount=rows
        )
        assert ended["status"] == "COMMIT_SUCCESS"

    def commit_at_a_peer(self) -> str:
        """Complete a segment of 5 rows of a new table without a copy in the deep store, and return its name."""
        self.topic(1)
        config = self.config()
        config["segmentsConfig"]["peerSegmentDownloadScheme"] = "http"
        assert self.http.post("/tables", json=config).status_code == 200
        segment = self.consuming()
        metadata = self.build(segment, 5) / "metadata.json"
        self.ask("segmentConsumed", segment, 5, reason="rowLimit")
        self.ask("segmentCommitStart", segment, 5)
        ended = self.send("segmentCommitEndWithMetadata", segment, 5, metadata, location=f"peer:///{segment}")
        assert ended["status"] == "COMMIT_SUCCESS"
        return segment

    def copies(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "deepstore" / TABLE).glob("*"))


@pytest.fixture
def realtime(tmp_path: Path) -> Iterator[RealtimeController]:
    controller = RealtimeController(tmp_path / "data")
    yield controller
    controller.close()


@pytest.fixture
def table(realtime: RealtimeController) -> RealtimeController:
    """The controller with a table of two partitions and two replicas, 100 rows a segment."""
    realtime.topic()
    realtime.create(**{"realtime.segment.flush.threshold.segment.rows": "100"})
    return realtime
