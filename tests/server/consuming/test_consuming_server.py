"""A server that consumes a real stream, end to end except for the controller: rows, commits, restarts, errors."""

import threading
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from tests.waiting import PATIENCE_S

from gamay.base.clock import SYSTEM_CLOCK, ManualClock
from gamay.cluster.records.completion import Call, CompletionResponse, Status
from gamay.cluster.records.records import CONSUMING, ONLINE
from gamay.segment.spi import INVERTED
from gamay.server.consuming.machine import ConsumerState
from gamay.server.metrics.gauges import measure_server

TABLE = "t_REALTIME"
MakeWorld = Callable[..., Any]
Eventually = Callable[..., None]


def sums(rows: int) -> list[list[Any]]:
    """The answer to the sample query when the first rows have been consumed, each once."""
    return [[rows, float(rows * (rows - 1) // 2), 0.0, float(rows - 1)]]


def test_rows_are_seen_while_they_are_consumed(make_world: MakeWorld, eventually: Eventually) -> None:
    world = make_world()
    segment = world.controller.create(0, "0")
    world.start()
    for _ in range(5):
        world.produce(100)
        eventually(lambda: world.count() == world.produced)
    rows, (stats, missing) = world.ask()
    assert (rows, missing) == (sums(500), [])
    assert (stats.num_consuming_segments_queried, stats.num_consuming_segments_processed) == (1, 1)
    assert stats.num_consuming_segments_matched == 1
    _, (none, _) = world.ask("SELECT COUNT(*) FROM t WHERE n < 0")
    assert (none.num_consuming_segments_queried, none.num_consuming_segments_matched) == (1, 0)
    [status] = world.server.consumers.status(TABLE)["consumers"]
    assert (status["segmentName"], status["currentOffset"], status["recordsLag"]) == (segment, "500", 0)
    assert abs(stats.min_consuming_freshness_time_ms - status["lastMessageTimestampMs"]) < 2000
    assert status["memoryBytes"] > 0
    assert world.registry.store.get(f"/PinotCluster/INSTANCES/Server_a_1/CURRENTSTATES/{TABLE}") is not None


def test_segments_are_committed_one_after_the_other(make_world: MakeWorld, eventually: Eventually) -> None:
    world = make_world(rows=300)
    world.controller.create(0, "0")
    world.start()
    for _ in range(10):
        world.produce(100)
    eventually(lambda: world.count() == 1000 and list(world.segments().values()) == [ONLINE] * 3 + [CONSUMING])
    assert world.ask()[0] == sums(1000)
    records = [world.registry.get_segment(TABLE, name) for name in world.segments()]
    assert [(r.start_offset, r.end_offset) for r in records] == [("0", "300"), ("300", "600"), ("600", "900"), ("900", "")]
    assert [r.total_docs for r in records[:3]] == [300] * 3
    eventually(lambda: list(world.server.consumers.consumers(TABLE)) == [records[3].name])
    assert len(world.server.consumers.status(TABLE)["builds"]) == 3
    measured = {one.name: one.value for one in measure_server(world.server) if one.labels.get("partition") == "0"}
    assert measured["pinot_server_realtimeRowsConsumed"] == measured["pinot_server_realtimeRowsFetched"] == 1000
    assert measured["pinot_server_llcPartitionConsuming"] == 1
    assert measured["pinot_server_llcControllerResponseCommitSuccess"] == 3
    assert measured["pinot_server_segmentBuildFailure"] == measured["pinot_server_segmentUploadFailure"] == 0
    built_s = measured["pinot_server_lastRealtimeSegmentCreationDurationSeconds"]
    assert 0 < built_s <= measured["pinot_server_lastRealtimeSegmentCompletionDurationSeconds"]
    whole = {one.name: one.value for one in measure_server(world.server) if "partition" not in one.labels}
    assert whole["pinot_server_llcSimultaneousSegmentBuilds"] == 0
    assert whole["pinot_server_freshnessLagMs"] >= 0


def test_overwrites_of_consuming_segments_end_with_the_commit(make_world: MakeWorld, eventually: Eventually) -> None:
    overwrites = {"consuming": {"invertedIndexColumns": ["s"], "noDictionaryColumns": ["n"]}}
    world = make_world(rows=300, sections={"tableIndexConfig": {"tierOverwrites": overwrites}})
    segment = world.controller.create(0, "0")
    world.start()
    world.produce(100)
    eventually(lambda: world.count() == 100)
    rows, _ = world.server.table(TABLE).contents().consuming[segment].freeze()
    assert rows.column("s").index(INVERTED) is not None
    assert rows.column("n").dictionary is None
    world.produce(250)
    eventually(lambda: world.count() == 350 and segment in world.server.table(TABLE).snapshot())
    assert world.ask()[0] == sums(350)
    sealed = world.server.table(TABLE).snapshot()[segment].segment
    assert sealed.column("s").index(INVERTED) is None
    assert sealed.column("n").dictionary is not None
    assert world.server.stale_segments(TABLE) == []


def test_a_restart_consumes_again_from_the_start_of_the_segment(make_world: MakeWorld, eventually: Eventually) -> None:
    world = make_world(rows=300)
    world.controller.create(0, "0")
    world.start()
    world.produce(500)
    eventually(lambda: world.count() == 500)
    world.stop()
    world.produce(70)
    world.start()
    eventually(lambda: world.count() == 570)
    assert world.ask()[0] == sums(570)


def test_a_force_commit(make_world: MakeWorld, eventually: Eventually) -> None:
    world = make_world()
    segment = world.controller.create(0, "0")
    world.start()
    world.produce(10)
    eventually(lambda: world.count() == 10)
    world.server.consumers.force_commit(TABLE, [segment])
    eventually(lambda: world.segments()[segment] == ONLINE)
    assert world.registry.get_segment(TABLE, segment).total_docs == 10
    assert world.ask()[0] == sums(10)


def test_what_is_no_row_is_listed_and_nothing_waits_for_it(make_world: MakeWorld, eventually: Eventually) -> None:
    world = make_world()
    world.controller.create(0, "0")
    world.start()
    world.produce(5)
    world.send(b"{not json", b'{"s": "a", "n": "much", "ts": 1700000000000}')
    world.produce(5)
    eventually(lambda: world.count() == 10)
    letters = world.server.consumers.dead_letters(TABLE)
    assert [(entry["offset"], entry["kind"]) for entry in letters.entries(10)] == [
        ("5", "UNDECODABLE"), ("6", "UNCONVERTIBLE"),
    ]  # fmt: skip
    measured = {one.name: one.value for one in measure_server(world.server)}
    assert measured["pinot_server_invalidRealtimeRowsDropped"] == measured["pinot_server_rowsWithErrors"] == 1
    assert measured["pinot_server_streamDataLoss"] == 0
    world.stop()
    world.start()
    eventually(lambda: world.count() == 10)
    assert world.server.consumers.dead_letters(TABLE).counts() == {
        "UNDECODABLE": 1,
        "UNCONVERTIBLE": 1,
        "REJECTED": 0,
        "GAP": 0,
    }


def test_a_permanent_error_is_reported(make_world: MakeWorld, eventually: Eventually) -> None:
    world = make_world(**{"stream.log.decoder.prop.stopOnDecodeError": "true"})
    segment = world.controller.create(0, "0")
    world.start()
    world.produce(3)
    eventually(lambda: world.count() == 3)
    world.send(b"{")
    eventually(lambda: Call.STOPPED_CONSUMING in [call for call, _ in world.controller.asked])
    _, request = world.controller.asked[-1]
    assert "the message at offset 3 cannot become a row" in request.reason
    assert world.server.consumers.consumers(TABLE)[segment].state is ConsumerState.ERROR
    assert world.count() == 3  # until the controller responds otherwise
    assert world.server.consumers.status(TABLE)["numPermanentErrors"] == 1
    world.registry.update_ideal_state(TABLE, lambda ideal: ideal.with_segments({segment: {"Server_a_1": "OFFLINE"}}))
    eventually(lambda: not world.server.consumers.consumers(TABLE))


def test_a_replica_that_lost_the_race_downloads(make_world: MakeWorld, eventually: Eventually) -> None:
    """Another replica commits more rows than this one has, so it must discard its rows and download the segment."""
    world = make_world(rows=100)
    segment = world.controller.create(0, "0")
    world.controller.script = lambda call, _: CompletionResponse(Status.HOLD) if call is Call.CONSUMED else None
    world.start()
    world.produce(130)
    eventually(lambda: world.server.consumers.consumers(TABLE)[segment].state is ConsumerState.HOLDING)
    assert world.count() == 100
    committed = _commit_elsewhere(world, segment, 80)
    eventually(lambda: world.server.table(TABLE).snapshot().keys() == {segment})
    assert world.server.table(TABLE).snapshot()[segment].crc == committed
    eventually(lambda: world.count() == 130)
    assert world.ask()[0] == sums(130)


def test_a_replica_that_is_behind_catches_up(make_world: MakeWorld, eventually: Eventually) -> None:
    world = make_world(rows=100)
    segment = world.controller.create(0, "0")
    answers = [CompletionResponse(Status.CATCH_UP, "120"), CompletionResponse(Status.KEEP, "120")]
    world.controller.script = lambda call, _: answers.pop(0) if call is Call.CONSUMED and answers else None
    world.start()
    world.produce(130)
    eventually(lambda: world.server.table(TABLE).snapshot().keys() == {segment})
    assert world.count() == 120
    assert world.server.consumers.consumers(TABLE)[segment].state is ConsumerState.RETAINED


def test_a_replica_beyond_the_decided_end_begins_anew(make_world: MakeWorld, eventually: Eventually) -> None:
    """Without pauses: it was restarted, had more rows than before when the end was decided, and nobody else has them."""
    world = make_world(rows=100)
    segment = world.controller.create(0, "0")
    world.start()
    world.produce(70)
    eventually(lambda: world.count() == 70)
    first = world.server.consumers.consumers(TABLE)[segment]
    world.registry.update_segment(
        TABLE, segment, lambda record: record.with_changes(status="COMMITTING", end_offset="50", end_decided_ms=1)
    )
    world.registry.update_ideal_state(TABLE, lambda ideal: ideal.with_segments({segment: {"Server_a_1": "ONLINE"}}))
    eventually(lambda: world.server.table(TABLE).snapshot().keys() == {segment})
    assert first.is_beyond
    asked = [request.offset for call, request in world.controller.asked if call is Call.COMMIT_START]
    assert asked == ["50"]
    eventually(lambda: world.count() == 70)
    assert world.ask()[0] == sums(70)


def _commit_elsewhere(world: Any, segment: str, rows: int) -> int:
    """Commit a segment of the first rows as another replica; return its CRC."""
    from gamay.base.clock import SYSTEM_CLOCK
    from gamay.ingest.stream.config import stream_configs
    from gamay.ingest.stream.offsets import IntegerOffset
    from gamay.ingest.stream.plugins import open_decoder, open_stream
    from gamay.ingest.stream.spi import StreamContext
    from gamay.ingest.transform.pipeline import Pipeline
    from gamay.segment.encode.metadata import read_metadata
    from gamay.segment.write.builder import SegmentBuilder
    from gamay.storage.archive import pack

    [topic] = stream_configs(world.layout.config)
    reader = open_stream(topic, StreamContext(world.folder / "streams")).partition_consumer(0)
    messages = reader.fetch(IntegerOffset(0), rows, 1 << 20, 1000)
    conformed = Pipeline(world.layout.schema, world.layout.config).apply(open_decoder(topic).decode(messages).rows)
    builder = SegmentBuilder(world.layout.schema, world.layout.config, segment, world.folder / "other", clock=SYSTEM_CLOCK)
    builder.append(conformed)
    folder = builder.build()
    crc = read_metadata(folder).crc
    archive = pack(folder, world.folder / "deepstore" / f"{segment}.tar.zst")
    done = {"status": "DONE", "crc": crc, "total_docs": rows, "end_offset": str(rows), "download_url": str(archive)}
    world.registry.update_segment(TABLE, segment, lambda old: old.with_changes(**done))
    world.controller.create(0, str(rows), 1)
    world.registry.update_ideal_state(TABLE, lambda ideal: ideal.with_segments({segment: {"Server_a_1": ONLINE}}))
    return crc


def measured(world: Any) -> dict[str, float]:
    """Return the metrics of the partition."""
    return {
        one.name.removeprefix("pinot_server_"): one.value
        for one in measure_server(world.server)
        if one.labels == {"table": TABLE, "partition": "0"}
    }


def test_rows_whose_text_was_cut_are_counted(make_world: MakeWorld, eventually: Eventually) -> None:
    world = make_world()
    world.controller.create(0, "0")
    world.start()
    rows = [{"s": text, "n": 1, "ts": 1_700_000_000_000} for text in ("a", "b" * 600, "c\0d", "\0" + "e" * 600)]
    world.send(*map(orjson.dumps, rows))
    eventually(lambda: world.count() == 4)
    assert measured(world)["realtimeRowsSanitized"] == 3
    _, (stats, _) = world.ask("SELECT COUNT(*) FROM t WHERE s IN ('a', 'c', '')")
    assert stats.num_docs_scanned == 3


def test_rows_that_a_segment_cannot_take_are_counted_and_go_to_the_next(
    make_world: MakeWorld, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gamay.segment.mutable.column._VALUES_MAX", 60)
    world = make_world()
    world.controller.create(0, "0")
    world.start()
    world.produce(10)
    eventually(lambda: world.count() == 10)
    assert measured(world)["indexingFailures"] == 0
    world.produce(55)
    eventually(lambda: world.count() == 65)
    assert world.ask()[0] == sums(65)
    assert world.registry.get_segment(TABLE, min(world.segments())).total_docs == 10
    assert measured(world)["indexingFailures"] == 1


def test_the_delay_grows_while_the_stream_is_not_read(
    make_world: MakeWorld, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world()
    world.controller.create(0, "0")
    world.start()
    world.produce(5)
    eventually(lambda: world.count() == 5)
    consumer = next(iter(world.server.consumers.consumers(TABLE).values()))
    assert measured(world)["realtimeIngestionDelayMs"] < 60_000
    stuck, free, read_on = threading.Event(), threading.Event(), consumer._consumption._reading.next

    def hang(*args: Any) -> Any:
        stuck.set()
        free.wait(PATIENCE_S)
        return read_on(*args)

    monkeypatch.setattr(consumer._consumption._reading, "next", hang)
    assert stuck.wait(PATIENCE_S)
    before = consumer.status()
    monkeypatch.setattr(consumer._consumption, "_clock", ManualClock(SYSTEM_CLOCK.now_ms() + 3_600_000))
    assert consumer.status().ingestion_delay_ms >= 3_600_000
    assert measured(world)["realtimeIngestionDelayMs"] >= 3_600_000
    assert consumer.status().availability_lag_ms == before.availability_lag_ms
    free.set()
