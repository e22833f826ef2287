"""Damaged records of segments from a stream are restored, or the missing information is reported."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest
from benchmarks.attack.records import mutants, nodes, overwrite
from tests.realtime.conftest import Realtime
from tests.waiting import eventually

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import GamayError
from gamay.client.controller import ControllerClient
from gamay.cluster.records.records import COMMITTING, SegmentRecord
from gamay.cluster.store.embedded_store import EmbeddedStore
from gamay.cluster.store.znrecord import decode
from gamay.controller.health.damage import RecordRepair
from gamay.embedded import EmbeddedCluster
from gamay.embedded.core import LocalCluster
from gamay.ingest.stream.log.producer import Producer
from gamay.ingest.stream.log.topic import open_topic

SEGMENTS = "/PinotCluster/PROPERTYSTORE/SEGMENTS/t_REALTIME/"
# reset, or recomputed, if they cannot be read
OF_NO_CONSEQUENCE = ("push_time_ms", "creation_time_ms", "end_decided_ms", "flush_threshold_rows", "stop_reason", "custom")


@pytest.fixture
def stored(make_realtime: Callable[..., Realtime], tmp_path: Path) -> tuple[Path, dict[str, bytes]]:
    """A folder with a table of three sealed segments and a consuming one, and their records by path, in order."""
    realtime = make_realtime(segment_rows=10)
    for _ in range(3):
        realtime.produce(10)
        eventually(realtime.all_there)
    realtime.produce(5)
    eventually(lambda: realtime.all_there() and list(realtime.segments().values()) == ["ONLINE"] * 3 + ["CONSUMING"])
    realtime.stop()
    store = EmbeddedStore.open(tmp_path / "metadata.db", SYSTEM_CLOCK)
    found = {path: value for path, value in nodes(store) if path.startswith(SEGMENTS)}
    store.close()
    return tmp_path, dict(sorted(found.items()))


@contextmanager
def offline(folder: Path) -> Iterator[tuple[LocalCluster, RecordRepair]]:
    """A cluster with no running roles."""
    cluster = LocalCluster(folder)
    try:
        role = cluster.controller
        yield cluster, RecordRepair(role.context, role.tables, role.uploads)
    finally:
        cluster.stop()


def repaired(cluster: LocalCluster, repair: RecordRepair, path: str, value: bytes) -> SegmentRecord | None:
    """Return the repair of a record with these contents; None if it can be read."""
    cluster.registry.store.set(path, value, None)
    if not repair.damaged():
        return None
    assert [damage.path for damage in repair.damaged()] == [path]
    repair.repair(path)
    assert repair.damaged() == []
    node = cluster.registry.store.get(path)
    assert node is not None
    return SegmentRecord.from_record(decode(node.value))


def comparable(record: SegmentRecord) -> SegmentRecord:
    blank = SegmentRecord("")
    return record.with_changes(**{field: getattr(blank, field) for field in OF_NO_CONSEQUENCE}, extra={})


def test_each_field_is_made_anew_as_it_was(stored: tuple[Path, dict[str, bytes]]) -> None:
    folder, records = stored
    undecided, damaged = [], 0
    with offline(folder) as (cluster, repair):
        for number, (path, value) in enumerate(records.items()):
            before = SegmentRecord.from_record(decode(value))
            for what, mutant in mutants(value):
                try:
                    found = repaired(cluster, repair, path, mutant)
                except GamayError as error:
                    undecided.append((number, what, str(error)))
                    continue
                if found is not None:
                    assert comparable(found) == comparable(before), (path, what)
                    damaged += 1
            cluster.registry.store.set(path, value, None)
    assert {number for number, _, _ in undecided} == {0}  # whose start no earlier segment determines
    for _, what, told in undecided:
        assert "simpleFields" in what or what.startswith("b"), what
        assert "its start offset is neither in it" in told, what
    assert damaged > 200


def is_whole(realtime: Realtime) -> bool:
    """Whether all rows are there: repaired segments come back in any order, so that not each count is one of first rows."""
    answer = realtime.ask("SELECT COUNT(*), SUM(n) FROM t")
    return bool(answer.get("resultTable", {}).get("rows") == [[35, 35 * 34 / 2]])


def test_a_cluster_goes_on_with_repaired_records(stored: tuple[Path, dict[str, bytes]]) -> None:
    folder, records = stored
    paths = list(records)
    for path, key in ((paths[1], b"segment.crc"), (paths[3], b"segment.flush.threshold.size")):
        assert key in records[path]
        overwrite(folder / "metadata.db", path, records[path].replace(b'"%s":"' % key, b'"%s":"x' % key))
    overwrite(folder / "metadata.db", paths[2], b"garbage")
    document = orjson.loads(records[paths[0]])
    overwrite(folder / "metadata.db", paths[0], b"{}")
    realtime = Realtime.__new__(Realtime)  # over the folder that is there
    with EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False) as cluster:
        client = ControllerClient(cluster.controller_url)
        assert sorted(one["path"] for one in client.damaged_records()) == paths
        with pytest.raises(GamayError, match=r"its start offset is neither .* Give the record \(--file\)"):
            client.repair_record(paths[0])
        with pytest.raises(GamayError, match="its id is 'x'"):
            client.repair_record(paths[0], {**document, "id": "x"})
        fields = {**document["simpleFields"], "segment.crc": "NaN"}
        with pytest.raises(GamayError, match="invalid literal"):
            client.repair_record(paths[0], {**document, "simpleFields": fields})
        assert "was replaced by the record that you give" in client.repair_record(paths[0], document)
        for path in (paths[1], paths[3], paths[2]):
            client.repair_record(path)
        assert client.damaged_records() == []
        realtime.cluster = cluster
        eventually(lambda: is_whole(realtime))
        realtime.sent = [35]
    with EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False) as realtime.cluster:
        assert ControllerClient(realtime.cluster.controller_url).damaged_records() == []
        realtime.topic = open_topic(folder / "streams", "t")
        realtime.producer, realtime._kafka = Producer(realtime.topic, SYSTEM_CLOCK), None
        realtime.produce(20)
        eventually(lambda: realtime.all_there() and len(realtime.segments()) == 6)


def test_what_only_servers_have_is_committed_again_or_not_decided(stored: tuple[Path, dict[str, bytes]]) -> None:
    folder, records = stored
    path = list(records)[1]
    fields = orjson.loads(records[path])
    del fields["simpleFields"]["segment.realtime.status"]
    fields["simpleFields"]["segment.crc"] = "NaN"
    shutil.rmtree(folder / "deepstore" / "t_REALTIME")
    with offline(folder) as (cluster, repair):
        with pytest.raises(GamayError, match="the deep store has no intact copy of it"):
            repaired(cluster, repair, path, orjson.dumps(fields))
        config = cluster.tables.document("t_REALTIME")
        config["ingestionConfig"]["streamIngestionConfig"]["pauselessConsumptionEnabled"] = True
        cluster.registry.put_table_config("t_REALTIME", config)
        found = repaired(cluster, repair, path, orjson.dumps(fields))
    assert found is not None
    assert (found.status, found.start_offset, found.end_offset) == (COMMITTING, "10", "20")


def test_a_cluster_starts_when_nobody_can_tell_where_segments_should_be(stored: tuple[Path, dict[str, bytes]]) -> None:
    folder, _ = stored
    ideal = "/PinotCluster/IDEALSTATES/t_REALTIME"
    overwrite(folder / "metadata.db", ideal, b"{}")
    kept = sorted((folder / "server" / "t_REALTIME").iterdir())
    realtime = Realtime.__new__(Realtime)
    with EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False) as cluster:
        assert sorted((folder / "server" / "t_REALTIME").iterdir()) == kept
        client = ControllerClient(cluster.controller_url)
        assert [one["path"] for one in client.damaged_records()] == [ideal]
        client.repair_record(ideal)
        realtime.cluster = cluster
        realtime.rest("POST", "/tables/t/resumeConsumption")
        eventually(lambda: is_whole(realtime))
