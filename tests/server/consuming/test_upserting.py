"""A table with primary keys on a server that consumes a real stream, across commits and restarts."""

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest

from gamay.base.clock import SYSTEM_CLOCK
from gamay.cluster.records.completion import Call, CompletionRequest, CompletionResponse, Status
from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import COMMITTING, IN_PROGRESS, ONLINE
from gamay.query.bind.binder import bind
from gamay.query.execute.matching_rows import matching_rows
from gamay.query.limits.deadline import Deadline
from gamay.server.consuming.consumer import SegmentConsumer
from gamay.server.instance.instance import ServerInstance
from gamay.server.metrics.gauges import measure_server
from gamay.sql.parser import parse_query
from gamay.upsert.index.key_index import NO_TEXT, KeyIndex, Keys, Rules
from gamay.upsert.persist.snapshots import SnapshotFolder


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compile the kernels of key lookups, so that no test waits for the compiler."""
    index, numbers = KeyIndex(3), np.zeros(1, np.uint64)
    keys = Keys(3, numbers, numbers, *NO_TEXT)
    index.put(
        keys, np.zeros((1, 1), np.int64), np.full(1, -1, np.int8), np.zeros(1, np.uint8), np.ones(1, np.uint8), Rules(0)
    )
    index.find(keys)


def payload(key: int, value: int | None, ts: int) -> bytes:
    return orjson.dumps({"s": f"k{key}", "n": value, "ts": ts})


def sections(**upsert: Any) -> dict[str, Any]:
    return {
        "routing": {"instanceSelectorType": "strictReplicaGroup"},
        "tableIndexConfig": {"nullHandlingEnabled": True, "sortedColumn": ["s"]},
        "upsertConfig": upsert,
    }


def totals(world: Any) -> list[Any]:
    rows, _ = world.ask("SELECT s, n, ts FROM t ORDER BY s LIMIT 1000")
    return [list(row) for row in rows]


@pytest.mark.parametrize("mode", ["FULL", "PARTIAL"])
def test_rows_of_a_key_become_one(make_world: Any, eventually: Any, mode: str) -> None:
    strategies = {"partialUpsertStrategies": {"n": "INCREMENT"}} if mode == "PARTIAL" else {}
    world = make_world(20, ["s"], sections(mode=mode, **strategies))
    world.start()
    world.controller.create(0, "0", 0)
    expected: dict[str, list[Any]] = {}
    sent = num_late = 0

    def send(rows: int) -> None:
        nonlocal sent, num_late
        payloads = []
        for i in range(sent, sent + rows):
            key, late = (i * 7) % 5, i % 11 == 3
            ts = 1_700_000_000_000 + (i - 6 if late else i)
            payloads.append(payload(key, i, ts))
            old = expected.get(f"k{key}")
            num_late += old is not None and ts < old[2]
            if old is None or ts >= old[2]:
                value = i + old[1] if mode == "PARTIAL" and old is not None else i
                expected[f"k{key}"] = [f"k{key}", value, ts]
        sent += rows
        world.send(*payloads)

    send(7)
    eventually(lambda: totals(world) == sorted(expected.values()))
    send(60)
    eventually(lambda: len(world.segments()) >= 4 and totals(world) == sorted(expected.values()))
    world.stop()
    send(3)
    world.start()
    eventually(lambda: totals(world) == sorted(expected.values()))
    rows, _ = world.ask("SET skipUpsert = true; SELECT COUNT(*) FROM t")
    assert rows == [[70 - num_late if mode == "PARTIAL" else 70]]  # which does not index late rows
    (keys,) = world.server.upserts.upsert("t_REALTIME").partitions().values()
    assert keys.num_keys == 5
    not_replaced = "partialUpsertKeysNotReplaced" if mode == "PARTIAL" else "realtimeUpsertInconsistentRows"
    assert measured(world)[not_replaced] == 0
    keys.counters.keys_not_replaced = 3  # as for a copy of another replica that lacks keys
    assert measured(world)[not_replaced] == 3


def bound_scan(world: Any) -> Any:
    return bind(parse_query("SELECT s, n, ts FROM t"), world.layout.schema)


def found(world: Any, *names: str) -> tuple[Any, Any]:
    """Return segments as they are read, and the names of those that are not there."""
    segments, missing = world.executor.scan("t_REALTIME", bound_scan(world), names, Deadline.after_ms(10_000, SYSTEM_CLOCK))
    return segments, missing


def scanned(world: Any, *names: str) -> list[tuple[Any, ...]]:
    """Read segments as readers of whole tables do, each of which requests some of them."""
    segments, missing = found(world, *names)
    assert not missing
    batches = [batch for segment in segments for batch in matching_rows(bound_scan(world), segment)]
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def test_scans_have_the_valid_rows_of_the_segments_they_name_and_no_others(make_world: Any, eventually: Any) -> None:
    world = make_world(20, ["s"], sections(mode="FULL", newSegmentTrackingTimeMs=600_000))
    world.start()
    world.controller.create(0, "0", 0)
    world.send(*(payload(i % 30, i, 1_700_000_000_000 + i) for i in range(50)))
    eventually(lambda: list(world.segments().values()) == ["ONLINE", "ONLINE", "CONSUMING"])
    names = list(world.segments())
    eventually(lambda: not found(world, *names)[1])

    def agree() -> bool:
        """Segments are still being sealed and loaded at first; then nothing changes any more."""
        parts = [scanned(world, name) for name in names]
        rows = list(map(tuple, totals(world)))
        return 49 in {row[1] for row in rows} and sorted(row for part in parts for row in part) == rows

    eventually(agree)
    parts = [scanned(world, name) for name in names]
    assert sum(map(bool, parts)) >= 2
    assert sorted(scanned(world, *names[:2])) == sorted(parts[0] + parts[1])
    rows, _ = world.ask("SELECT COUNT(*) FROM t")
    assert rows == [[30]]


@pytest.mark.parametrize("mode", ["SYNC", "SNAPSHOT"])
def test_queries_see_every_key_once_while_rows_come(make_world: Any, eventually: Any, mode: str) -> None:
    world = make_world(4000, ["s"], sections(mode="FULL", consistencyMode=mode, upsertViewRefreshIntervalMs=5))
    world.start()
    world.controller.create(0, "0", 0)
    num_keys, rounds = 50, 200
    world.send(*(payload(key, 0, 1_700_000_000_000) for key in range(num_keys)))
    eventually(lambda: len(totals(world)) == num_keys)
    counts: set[tuple[Any, ...]] = set()
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            rows, _ = world.ask("SELECT COUNT(*), DISTINCTCOUNT(s) FROM t")
            counts.add(tuple(rows[0]))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        for i in range(1, rounds):
            world.send(*(payload(key, i, 1_700_000_000_000 + i) for key in range(num_keys)))
        eventually(lambda: {row[1] for row in totals(world)} == {rounds - 1})
    finally:
        done.set()
        thread.join()
    assert counts == {(num_keys, num_keys)}
    assert len(world.segments()) >= 2


def test_what_nobody_stored_is_consumed_again_before_what_follows(
    make_world: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = sections(mode="PARTIAL", partialUpsertStrategies={"n": "IGNORE"})
    world = make_world(10, ["s"], given)
    stream = replace(world.layout.config.ingestion.stream, pauseless_consumption_enabled=True)
    config = replace(world.layout.config, ingestion=replace(world.layout.config.ingestion, stream=stream))
    world.layout = replace(world.layout, config=config)
    world.controller.script = lambda *_: CompletionResponse(Status.HOLD)
    first, second = world.controller.create(0, "0", 0), world.controller.create(0, "10", 1)
    world.registry.update_segment(
        "t_REALTIME", first, lambda old: old.with_changes(status=COMMITTING, end_offset="10", end_decided_ms=1)
    )
    world.registry.update_ideal_state("t_REALTIME", lambda ideal: ideal.with_segments({first: {"Server_a_1": ONLINE}}))
    world.send(*(payload(i % 2, i, 1_700_000_000_000) for i in range(15)))
    begin = SegmentConsumer.start

    def late(consumer: SegmentConsumer) -> None:
        if consumer.segment == first:
            threading.Timer(0.3, begin, [consumer]).start()
        else:
            begin(consumer)

    monkeypatch.setattr(SegmentConsumer, "start", late)
    world.start()
    eventually(lambda: second in world.server.consumers.consumers("t_REALTIME"))
    eventually(lambda: len(totals(world)) == 2)
    assert [row[1] for row in totals(world)] == [0, 1]


def test_rows_of_a_segment_that_nobody_stored_find_what_they_found_before(make_world: Any, eventually: Any) -> None:
    world = make_world(10, ["s"], sections(mode="PARTIAL", partialUpsertStrategies={"n": "INCREMENT"}))
    stream = replace(world.layout.config.ingestion.stream, pauseless_consumption_enabled=True)
    config = replace(world.layout.config, ingestion=replace(world.layout.config.ingestion, stream=stream))
    world.layout = replace(world.layout, config=config)
    controller, registry = world.controller, world.registry

    def second_is_never_stored(call: Call, request: CompletionRequest) -> CompletionResponse | None:
        name = LlcName.must_parse(request.segment)
        if name.sequence == 0 or call is Call.CONSUMED:
            return None
        if call is Call.COMMIT_START and registry.get_segment("t_REALTIME", request.segment).status == IN_PROGRESS:
            registry.update_segment(
                "t_REALTIME", request.segment,
                lambda old: old.with_changes(status=COMMITTING, end_offset=request.offset, end_decided_ms=1),
            )  # fmt: skip
            controller.create(0, request.offset, name.sequence + 1)
            registry.update_ideal_state(
                "t_REALTIME", lambda ideal: ideal.with_segments({request.segment: {"Server_a_1": ONLINE}})
            )
        return None if call is Call.COMMIT_START else CompletionResponse(Status.FAILED)

    controller.script = second_is_never_stored
    world.start()
    controller.create(0, "0", 0)
    world.send(*(payload(i % 2, 1, 1_700_000_000_000 + i) for i in range(25)))
    whole = [["k0", 13, 1_700_000_000_024], ["k1", 12, 1_700_000_000_023]]
    eventually(lambda: len(world.segments()) == 3 and totals(world) == whole)
    world.stop()
    controller.script, controller.paused = lambda *_: None, True
    world.start()
    eventually(lambda: world.ask("SET skipUpsert = true; SELECT COUNT(*) FROM t")[0] == [[25]])
    eventually(lambda: totals(world) == whole)


@pytest.mark.parametrize("kind", ["PARTIAL", "dedup"])
def test_rows_that_depend_on_others_wait_for_segments_that_other_replicas_committed(
    make_world: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """These enter the ideal state between the load at startup and the start of the consumer after them."""
    given = sections(mode="PARTIAL", partialUpsertStrategies={"n": "INCREMENT"}, snapshot="ENABLE")
    if kind == "dedup":
        given = {"routing": given["routing"], "dedupConfig": {"dedupEnabled": True}}
    world = make_world(10, ["s"], given)
    world.start()
    world.controller.create(0, "0", 0)
    num_keys = 20
    world.send(*(payload(i % num_keys, 1, 1_700_000_000_000 + i) for i in range(25)))
    eventually(lambda: len(world.segments()) >= 3 and len(totals(world)) == num_keys)
    world.stop()
    world.send(*(payload(i % num_keys, 1, 1_700_000_000_000 + i) for i in range(25, 28)))
    load = ServerInstance._reconcile

    def too_early(server: ServerInstance, table: str, changed: set[str] | None) -> None:
        if changed is not None:
            load(server, table, changed)

    monkeypatch.setattr(ServerInstance, "_reconcile", too_early)
    world.start()
    consumers = world.server.consumers
    eventually(lambda: any(one.lacks_keys for one in consumers.consumers("t_REALTIME").values()))
    assert totals(world) == []
    world.server._on_ideal_state("/IDEALSTATES/t_REALTIME")
    eventually(lambda: world.ask("SELECT COUNT(*), SUM(n) FROM t")[0] == [[num_keys, 28 if kind == "PARTIAL" else 20]])
    eventually(lambda: all(one.status().lag == 0 for one in consumers.consumers("t_REALTIME").values()))
    assert world.ask("SELECT COUNT(*), SUM(n) FROM t")[0] == [[num_keys, 28 if kind == "PARTIAL" else 20]]


def test_repeated_rows_are_dropped(make_world: Any, eventually: Any) -> None:
    dedup = {"routing": {"instanceSelectorType": "strictReplicaGroup"}, "dedupConfig": {"metadataTTL": 100}}
    world = make_world(12, ["s"], dedup)
    world.start()
    world.controller.create(0, "0", 0)
    start = 1_700_000_000_000
    world.send(*(payload(i % 10, i, start + i) for i in range(40)))
    eventually(lambda: world.count() == 10 and world.server.consumers.consumers("t_REALTIME"))
    world.send(*(payload(i % 20, i, start + i) for i in range(40, 80)))
    eventually(lambda: world.count() == 20)
    eventually(lambda: len(world.segments()) == 2)
    world.stop()
    world.start()
    world.send(*(payload(i % 20, i, start + i) for i in range(40, 80)))
    world.send(payload(99, 1, start + 90))
    eventually(lambda: world.count() == 21)
    rows, _ = world.ask("SELECT n FROM t ORDER BY n LIMIT 100")
    assert [row[0] for row in rows] == sorted([*range(10), *range(50, 60), 1])
    world.send(payload(3, 500, start + 500))
    eventually(lambda: world.count() == 22)
    found = measured(world)
    assert found["realtimeDedupDropped"] > 0
    assert found["dedupPrimaryKeysCount"] >= 1


def measured(world: Any) -> dict[str, float]:
    return {one.name.removeprefix("pinot_server_"): one.value for one in measure_server(world.server)}


def test_rows_that_cannot_be_compared_are_listed_and_all_is_measured(make_world: Any, eventually: Any) -> None:
    world = make_world(5, ["s"], sections(mode="FULL", comparisonColumns=["ts", "n"], dropOutOfOrderRecord=True))
    world.start()
    world.controller.create(0, "0", 0)
    rows = [
        (1, None, 5),
        (1, 7, 9),
        (None, None, None),
        (1, None, 3),
        (1, 8, None),
        (2, None, 4),
        (1, None, 6),
        (2, None, 5),
    ]
    world.send(*(payload(key, n, ts) for key, n, ts in rows))
    eventually(lambda: len(world.segments()) == 2 and world.server.consumers.consumers("t_REALTIME"))
    letters = world.server.consumers.dead_letters("t_REALTIME").entries(10)
    assert [(entry["offset"], entry["kind"]) for entry in letters] == [("1", "REJECTED"), ("2", "REJECTED")]
    assert "exactly one" in letters[0]["reason"]
    assert letters[0]["payload"] is not None
    eventually(lambda: measured(world)["upsertValidDocIdSnapshotCount"] == 1)
    found = measured(world)
    expected = {
        "upsertPrimaryKeysCount": 2, "upsertPrimaryKeysInSnapshotCount": 2, "upsertOutOfOrder": 1, "upsertRowsRejected": 2,
        "realtimeUpsertInconsistentRows": 0, "upsertMissedValidDocIdSnapshotCount": 0, "upsertPreloadFailure": 0,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    assert found["primaryKeysMemoryBytes"] > 0
    world.stop()
    world.start()
    assert measured(world)["upsertPreloadTimeMs"] > 0
    (snapshot,) = world.folder.rglob("validdocids.bitmap.snapshot")
    world.stop()
    snapshot.write_bytes(b"damaged")
    world.start()
    assert measured(world)["upsertPreloadFailure"] == 1
    assert totals(world) == [["k1", 8, 6], ["k2", 0, 5]]


def test_a_full_disk_costs_snapshots_and_no_rows(make_world: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(SnapshotFolder, "write", full)
    world = make_world(4, ["s"], sections(mode="FULL"))
    world.start()
    world.controller.create(0, "0", 0)
    world.send(*(payload(i % 3, i, i) for i in range(10)))
    eventually(lambda: totals(world) == [["k0", 9, 9], ["k1", 7, 7], ["k2", 8, 8]])
    found = measured(world)
    assert found["upsertMissedValidDocIdSnapshotCount"] >= 1
    assert found["upsertValidDocIdSnapshotCount"] == 0
