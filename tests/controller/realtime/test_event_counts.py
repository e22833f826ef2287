"""A controller's counters of consumption events, as Prometheus metrics."""

import shutil
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gamay.cluster.store.store import StoreUnavailableError, VersionConflictError
from gamay.ingest.stream.log.plugin import LogMetadata
from gamay.ingest.stream.log.topic import TopicConfig, open_topic
from gamay.ingest.stream.offsets import IntegerOffset

TABLE = "t_REALTIME"
COUNTERS = (
    "llcStateMachineAborts", "llcStreamDataLoss", "llcZookeeperFetchFailures", "llcZookeeperUpdateFailures",
    "segmentMissingDeepStoreLink", "segmentSizeAutoReduction", "idealStateUpdateFailure", "partitionGroupMetadataFetchError",
)  # fmt: skip


def measured(controller: Any) -> dict[str, float]:
    """Return the metrics of the table by their names in the reference, without counters that are 0."""
    answer = controller.http.get("/metrics")
    assert answer.status_code == 200
    found = {
        sample.name.removeprefix("pinot_controller_").removesuffix("_total"): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if sample.labels == {"table": TABLE}
    }
    assert set(COUNTERS) <= found.keys(), "counters are there before anything was counted"
    return {name: value for name, value in found.items() if name not in COUNTERS or value}


def counted(controller: Any) -> dict[str, float]:
    return {name: value for name, value in measured(controller).items() if name in COUNTERS}


def test_commits_that_are_given_up_are_counted_once(table: Any) -> None:
    segment = table.consuming()
    assert table.ask("segmentConsumed", segment, 100, reason="rowLimit")["status"] == "COMMIT"
    assert counted(table) == {}
    assert table.ask("segmentCommitStart", segment, 90)["status"] == "HOLD"  # the winner has other rows: it starts again
    assert table.ask("segmentConsumed", segment, 100, reason="rowLimit")["status"] == "COMMIT"
    assert counted(table) == {"llcStateMachineAborts": 1}
    table.ask("segmentStoppedConsuming", segment, 100, reason="boom")  # no other replica would commit
    assert counted(table) == {"llcStateMachineAborts": 2}
    table.commit(table.consuming(1), 10, 10)
    assert counted(table) == {"llcStateMachineAborts": 2}


def test_segments_without_a_copy_and_segments_too_large_to_be_built_are_counted(realtime: Any) -> None:
    realtime.commit_at_a_peer()
    assert counted(realtime) == {"segmentMissingDeepStoreLink": 1}
    failure = {"instance": "Server_a_1", "name": realtime.consuming(), "rowCount": "100"}
    assert realtime.http.get("/segmentBuildDeterministicFailure", params=failure).json()["status"] == "PROCESSED"
    realtime.commit(realtime.consuming(), 15, 10)
    assert counted(realtime) == {"segmentMissingDeepStoreLink": 1, "segmentSizeAutoReduction": 1}


def test_rows_that_the_stream_no_longer_has_are_counted(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = table.consuming(0)
    for server in "ab":
        table.ask("segmentStoppedConsuming", segment, 25, server, reason="boom")
    monkeypatch.setattr(LogMetadata, "offset", lambda self, partition, criteria: IntegerOffset(40))
    table.role.realtime.validate(TABLE)
    assert counted(table) == {"llcStreamDataLoss": 1}
    table.role.realtime.validate(TABLE)
    assert counted(table) == {"llcStreamDataLoss": 1}


def test_partitions_that_were_never_consumed_are_counted_until_they_are(table: Any) -> None:
    def new_partitions() -> float | None:
        assert table.http.get("/periodictask/run", params={"taskname": "SegmentStatusChecker"}).status_code == 200
        return measured(table).get("missingConsumingSegmentNewPartitionCount")

    assert new_partitions() == 0
    open_topic(table.folder / "streams", "events").alter(TopicConfig(5))
    assert new_partitions() == 3
    table.http.post("/tables/t/pauseConsumption")
    assert new_partitions() == 0  # they are not expected to be consumed
    table.http.post("/tables/t/resumeConsumption")
    table.role.realtime.validate(TABLE)
    assert new_partitions() == 0
    shutil.rmtree(table.folder / "streams")
    assert new_partitions() is None  # unknown
    assert counted(table) == {"partitionGroupMetadataFetchError": 1}


@pytest.mark.parametrize("error", [StoreUnavailableError, VersionConflictError])
def test_records_that_cannot_be_read_or_written_are_counted(
    table: Any, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise error("no")

    def failing(operation: str, call: Callable[[], object]) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(table.registry.store, operation, fail)
            with pytest.raises(error):
                call()

    registry, segment = table.registry, table.consuming()
    failing("get", lambda: registry.get_segment(TABLE, segment))
    failing("get_many", lambda: registry.get_segments(TABLE, [segment]))
    failing("get", lambda: registry.must_get_ideal_state(TABLE))
    failing("get", lambda: registry.get_table_config(TABLE))
    assert counted(table) == {"llcZookeeperFetchFailures": 4}
    # a node that is changed by others each time never comes to rest
    failing("set", lambda: registry.update_segment(TABLE, segment, lambda one: one.with_changes(abandoned_ms=1)))
    failing("set", lambda: registry.update_ideal_state(TABLE, lambda ideal: ideal.with_segments({"new": {"a": "ONLINE"}})))
    assert counted(table) == {
        "llcZookeeperFetchFailures": 4, "llcZookeeperUpdateFailures": 1, "idealStateUpdateFailure": 1,
    }  # fmt: skip


def test_a_controller_tells_what_it_can_while_the_store_is_away(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = type(table.registry.store)

    def away(*_: object, **__: object) -> Any:
        raise StoreUnavailableError("away")

    monkeypatch.setattr(store, "connected", False)
    for name in ("get", "get_many", "children"):
        monkeypatch.setattr(store, name, away)
    answer = table.http.get("/metrics")
    assert answer.status_code == 200
    assert "pinot_controller_helixZookeeperReconnects_total 0.0" in answer.text
    assert "process_resident_memory_bytes" in answer.text
