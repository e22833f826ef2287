"""Roles with a deep store on S3 that becomes available, unavailable, and available again."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa
import pytest
from tests.waiting import PATIENCE_S, eventually

from gamay.base.clock import SYSTEM_CLOCK
from gamay.cluster.records.records import Role
from gamay.ingest.stream.log.producer import Producer
from gamay.ingest.stream.log.topic import TopicConfig, create_topic
from gamay.roles.process import RoleProcess
from gamay.roles.processes import role_process
from gamay.roles.settings import load_settings

pytestmark = pytest.mark.filterwarnings("ignore")

SCHEMA: dict[str, Any] = {
    "schemaName": "trips",
    "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP", "granularity": "1:MILLISECONDS"}
    ],
}
SEGMENTS = {"timeColumnName": "ts", "replication": "2", "segmentPushType": "APPEND", "peerSegmentDownloadScheme": "http"}
TABLE: dict[str, Any] = {
    "tableName": "trips", "tableType": "OFFLINE", "segmentsConfig": SEGMENTS, "tenants": {}, "tableIndexConfig": {},
    "metadata": {},
}  # fmt: skip


class Team:
    """A controller, a broker and two servers, each as a process would be, in this one."""

    def __init__(self, folder: Path, zk: str, s3: Any) -> None:
        self.folder, self._zk, self._s3 = folder, zk, s3
        self.url = f"s3://{s3.bucket}/{folder.name}"
        self.controller = self._start(Role.CONTROLLER, self._file("controller"), deep_store=self.url, data_dir=folder / "c")
        self.broker = self._start(Role.BROKER)
        self.servers = [self.server("s0", direct=True), self.server("s1", direct=False)]
        self.http = httpx.Client(base_url=self.controller.url, timeout=PATIENCE_S)

    def server(self, name: str, *, direct: bool, port: int = 0) -> RoleProcess:
        more = {"deep_store": self.url} if direct else {}
        file = self._file("server") if direct else None
        return self._start(Role.SERVER, file, data_dir=self.folder / name, warm_up=False, query_port=0, port=port, **more)

    def restart(self, number: int, *, empty: bool) -> RoleProcess:
        old = self.servers[number]
        old.stop()
        if empty:
            shutil.rmtree(old.settings.data_dir)  # type: ignore[arg-type]
        settings = replace(old.settings, port=old._http.port, instance_id=old.id)
        self.servers[number] = role_process(settings)
        self.servers[number].start()
        return self.servers[number]

    def push(self, archive: Path) -> httpx.Response:
        with archive.open("rb") as file:
            return self.http.post("/v2/segments", params={"tableName": "trips"}, files={"file": (archive.name, file)})

    def count(self) -> Any:
        with httpx.Client(base_url=self.broker.url, timeout=PATIENCE_S) as http:
            answer = http.post("/query/sql", json={"sql": "SELECT COUNT(*) FROM trips"}).json()
        rows = answer.get("resultTable", {}).get("rows")
        return rows[0][0] if rows and not answer["exceptions"] else answer

    def states(self, kind: str = "OFFLINE") -> list[str]:
        view = self.http.get("/tables/trips/externalview").json()[kind] or {}
        return sorted(state for states in view.values() for state in states.values())

    def stop(self) -> None:
        self.http.close()
        for process in (*self.servers, self.broker, self.controller):
            process.stop()

    def _start(self, role: Role, file: Path | None = None, **given: Any) -> RoleProcess:
        settings = load_settings(role, file, {"zk": self._zk, "port": 0, "drain_s": 0, **given})
        process = role_process(settings)
        process.start()
        return process

    def _file(self, role: str) -> Path:
        keys = {
            "class.s3": "org.apache.pinot.plugin.filesystem.S3PinotFS", "s3.accessKey": self._s3.key,
            "s3.secretKey": self._s3.secret, "s3.region": "us-east-1", "s3.endpoint": self._s3.endpoint,
        }  # fmt: skip
        path = self.folder / f"{role}.conf"
        lines = [f"pinot.{role}.storage.factory.{key}={value}" for key, value in keys.items()]
        lines += [f"gamay.ingest.allowed_uris=file://{self.folder}/streams/"] if role == "controller" else []
        path.write_text("\n".join(lines))
        return path


@pytest.fixture
def team(tmp_path: Path, zookeeper_hosts: str, s3: Any) -> Iterator[Team]:
    made = Team(tmp_path, zookeeper_hosts, s3)
    yield made
    made.stop()


def test_segments_come_from_s3_and_from_peers_while_it_is_away(
    team: Team, s3: Any, make_segment: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    assert team.http.post("/schemas", json=SCHEMA).status_code == 200
    assert team.http.post("/tables", json=TABLE).status_code == 200
    for i in range(2):
        answer = team.push(make_segment(f"trips_{i}", list(range(100 * i, 100 * i + 100))))
        assert answer.status_code == 200, answer.text
    eventually(lambda: team.count() == 200, team.count)
    eventually(lambda: team.states() == ["ONLINE"] * 4, team.states)
    assert sorted(team.controller._role.context.deep_store.names("trips_OFFLINE"))[0].startswith("trips_0__")  # type: ignore[attr-defined]
    assert len(team.http.get("/segments/trips/trips_0").content) > 100  # through the controller, for clients
    # both ways: directly, and through the controller
    team.restart(0, empty=True)
    team.restart(1, empty=True)
    eventually(lambda: team.count() == 200, team.count)
    # unavailable: a push is refused and leaves nothing; a server without copies asks the other; one with copies needs none
    s3.stop()
    third = make_segment("trips_2", list(range(50)))
    refused = team.push(third)
    assert refused.status_code >= 500
    assert "very-secret" not in refused.text
    assert team.http.get("/segments/trips").json()[0]["OFFLINE"] == ["trips_0", "trips_1"]
    team.restart(0, empty=True)
    eventually(lambda: team.count() == 200, team.count)
    eventually(lambda: team.states() == ["ONLINE"] * 4, team.states)
    team.restart(1, empty=False)
    eventually(lambda: team.count() == 200, team.count)
    s3.start()
    assert team.push(third).status_code == 200
    eventually(lambda: team.count() == 250, team.count)
    # deleted archives are set aside, and do not reappear
    assert team.http.delete("/segments/trips_OFFLINE/trips_2", params={"retention": "1d"}).status_code == 200
    eventually(lambda: team.count() == 200, team.count)
    store = team.controller._role.context.deep_store  # type: ignore[attr-defined]
    assert [name.partition("__")[0] for name in store.names("Deleted_Segments/trips_OFFLINE")] == ["trips_2"]
    assert "very-secret" not in caplog.text


def test_consuming_segments_are_committed_while_the_store_is_away(team: Team, s3: Any) -> None:
    streams = team.folder / "streams"
    producer = Producer(create_topic(streams, "trips", TopicConfig(1)), SYSTEM_CLOCK)
    stream = {
        "streamType": "log", "stream.log.topic.name": "trips", "stream.log.folder": str(streams),
        "stream.log.decoder.class.name": "JSONMessageDecoder", "stream.log.consumer.prop.auto.offset.reset": "smallest",
        "realtime.segment.flush.threshold.segment.rows": "200",
    }  # fmt: skip
    ingestion = {"streamIngestionConfig": {"streamConfigMaps": [stream]}}
    assert team.http.post("/schemas", json=SCHEMA).status_code == 200
    made = team.http.post("/tables", json={**TABLE, "tableType": "REALTIME", "ingestionConfig": ingestion})
    assert made.status_code == 200, made.text

    def produce(rows: int) -> None:
        lines = [orjson.dumps({"city": "Oslo", "n": i, "ts": 1_700_000_000_000}) for i in range(rows)]
        producer.send(pa.array(lines, pa.binary()), partition=0)

    def urls() -> list[str]:
        records = team.controller.registry.segments("trips_REALTIME")
        return [record.download_url for record in sorted(records, key=lambda r: r.name) if record.status == "DONE"]

    produce(200)
    eventually(lambda: len(urls()) == 1, urls)
    assert urls()[0].startswith("deepstore:trips_REALTIME/")
    s3.stop()
    produce(200)
    eventually(lambda: len(urls()) == 2, urls)
    assert urls()[1] == ""
    eventually(lambda: team.count() == 400, team.count)
    eventually(lambda: team.states("REALTIME").count("ONLINE") == 4, lambda: team.states("REALTIME"))
    team.restart(0, empty=True)  # gets both from the other server
    eventually(lambda: team.states("REALTIME").count("ONLINE") == 4, lambda: team.states("REALTIME"))
    eventually(lambda: team.count() == 400, team.count)
    s3.start()
    realtime = team.controller._role.realtime  # type: ignore[attr-defined]
    realtime._copies.repair("trips_REALTIME", 0)
    assert urls()[1].startswith("deepstore:trips_REALTIME/")
    producer.close()
