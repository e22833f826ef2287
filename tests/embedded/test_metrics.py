"""The metrics of a cluster's roles, in Prometheus format."""

import time
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from gamay.base.metrics import BOUNDS_S, Histogram
from gamay.cluster.records.records import CONSUMING, DONE, IN_PROGRESS, ONLINE, Assignment, SegmentRecord
from gamay.cluster.store import paths
from gamay.controller.metrics.streams import measure_consumption, newest_two
from gamay.controller.realtime.ideal_steps import PauseState, with_pause_state

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scraped(url: str) -> Samples:
    answer = httpx.get(f"{url}/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_each_role_measures_what_it_does(trips: Any, make_segment: Any) -> None:
    trips.push(make_segment("trips_0", [1, 2, 3]))
    trips.push(make_segment("trips_1", [4, 5]))
    cluster, table = trips.cluster, (("table", "trips_OFFLINE"),)
    before = scraped(cluster.broker_url)
    for sql in ("SELECT count(*) FROM trips WHERE n > 1", "SELECT nothing FROM trips", "SELECT count(*) FROM nowhere"):
        trips.broker.post("/query/sql", json={"sql": sql})
    broker, controller, server = (scraped(url) for url in (cluster.broker_url, cluster.controller_url, cluster.server_url))

    def grown(name: str, of: str = "trips") -> float:
        key = (f"pinot_broker_{name}_total", (("table", of),))
        return broker[key] - before.get(key, 0.0)

    assert grown("queries") == 2
    assert grown("queries", "none") == 1
    assert grown("documentsScanned") == 4
    assert grown("queryExceptions") == 1
    assert grown("queryExceptions", "none") == 1
    assert grown("queryQuotaExceeded") == 0
    for phase in ("requestCompilation", "queryRouting", "scatterGather", "reduce", "queryExecution"):
        assert grown(phase) > 0
    assert grown("queryExecution") > grown("scatterGather") + grown("reduce")
    assert grown("authorization") == 0  # everybody may
    assert broker["pinot_broker_unavailableSegments", table] == 0
    assert broker["pinot_broker_routedSegments", table] == 2
    assert controller["pinot_controller_percentSegmentsAvailable", table] == 100
    assert controller["pinot_controller_segmentCount", table] == 2
    assert controller["pinot_controller_numberOfReplicas", table] == 1
    assert controller["pinot_controller_segmentsInErrorState", table] == 0
    assert controller["pinot_controller_tableDisabled", table] == 0
    assert controller["pinot_controller_pinotControllerLeader", ()] == 1
    assert (controller["pinot_controller_serversUp", ()], controller["pinot_controller_serversDown", ()]) == (1, 0)
    assert broker["pinot_broker_unhealthyServers", ()] == 0
    assert broker["pinot_broker_queriesRunning", ()] == 0
    assert controller["pinot_controller_controllerPeriodicTaskError_total", (("task", "RetentionManager"),)] == 0
    assert server["pinot_server_queries_total", table] == 1
    assert server["pinot_server_queryExecutionExceptions_total", table] == 0
    took = server["pinot_server_totalQueryTimeMs_total", table]
    assert took == server["pinot_server_queryProcessing_total", table] > 0
    parts = [server[f"pinot_server_{phase}_total", table] for phase in ("segmentPruning", "queryPlanExecution")]
    assert min(parts) > 0
    assert sum(parts) == pytest.approx(took)
    for role, name in ((broker, "broker"), (controller, "controller"), (server, "server")):
        assert role[f"pinot_{name}_helixZookeeperReconnects_total", ()] == 0
    assert all(role["process_resident_memory_bytes", ()] > 1e7 for role in (broker, controller, server))
    assert server["pinot_server_segmentCount", table] == 2
    assert server["pinot_server_documentCount", table] == 5
    assert server["pinot_server_segmentSizeBytes", table] > 0


def test_latencies_are_histograms(trips: Any, make_segment: Any) -> None:
    trips.push(make_segment("trips_0", [1, 2, 3]))
    for _ in range(20):
        assert trips.rows("SELECT count(*) FROM trips WHERE n > 1") == [[2]]
    cluster = trips.cluster
    for url, name, table in (
        (cluster.broker_url, "pinot_broker_queryExecution", "trips"),
        (cluster.server_url, "pinot_server_queryProcessing", "trips_OFFLINE"),
    ):
        samples = scraped(url)
        own = {
            labels: v for (n, labels), v in samples.items() if n == f"{name}Seconds_bucket" and ("table", table) in labels
        }
        counts = [v for _, v in sorted((float(dict(labels)["le"]), v) for labels, v in own.items())]
        assert counts == sorted(counts)
        labels = (("table", table),)
        assert counts[-1] == samples[f"{name}Seconds_count", labels] >= 20
        assert samples[f"{name}Seconds_sum", labels] == pytest.approx(samples[f"{name}_total", labels] / 1000)


@given(st.lists(st.floats(0, 100)), st.lists(st.floats(0, 100)))
def test_a_histogram_counts_what_is_at_most_its_bounds(some: list[float], others: list[float]) -> None:
    parts = []
    for values in (some, others):
        parts.append(Histogram())
        for value in values:
            parts[-1].observe(value)
    measured = (parts[0] + parts[1]).measured("name", "help", {})
    every = some + others
    assert measured.buckets == (*(sum(v <= bound for v in every) for bound in BOUNDS_S), len(every))
    assert measured.value == pytest.approx(sum(every))


def test_only_tables_that_are_there_are_counted(trips: Any, make_segment: Any) -> None:
    trips.push(make_segment("trips_0", [1, 2, 3]))
    assert trips.rows("SELECT count(*) FROM trips") == [[3]]
    server, core = trips.cluster.core.server, trips.cluster.core

    def tables(url: str, name: str) -> set[str]:
        return {dict(labels)["table"] for (n, labels) in scraped(url) if n == name}

    server._on_segment_record(paths.SEGMENTS)  # as after a lost connection
    core.routing._on_segment_change(paths.SEGMENTS)
    server._reconcile("PROPERTYSTORE", {"SEGMENTS"})  # anything else interpreted as a table
    assert tables(trips.cluster.server_url, "pinot_server_queries_total") == {"trips_OFFLINE"}
    assert tables(trips.cluster.broker_url, "pinot_broker_queries_total") == {"trips"}
    assert trips.controller.delete("/tables/trips").status_code == 200
    core.wait_until_gone("trips_OFFLINE")
    deadline_s = time.monotonic() + 60
    while server.tables():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    assert tables(trips.cluster.server_url, "pinot_server_queries_total") == set()
    assert tables(trips.cluster.broker_url, "pinot_broker_queries_total") <= {"none"}


def test_partitions_that_nobody_consumes_are_counted() -> None:
    names = [f"t__{partition}__{sequence}__20240101T0000Z" for partition in range(2) for sequence in range(2)]
    states = {name: {"Server_a_1": ONLINE} for name in names} | {names[1]: {"Server_a_1": CONSUMING}}
    ideal = Assignment("t_REALTIME", states)

    def measured(ideal: Assignment) -> dict[str, float]:
        assert sorted(newest_two(ideal)) == sorted(names)
        records = {
            name: SegmentRecord(name, status=IN_PROGRESS, flush_threshold_rows=70, creation_time_ms=0)
            if name == names[1]
            else SegmentRecord(name, status=DONE, size_bytes=i, creation_time_ms=0, end_decided_ms=60_000)
            for i, name in enumerate(names)
        }
        found = measure_consumption("t_REALTIME", ideal, records, 240_000)
        return {"".join((one.name.rpartition("_")[2], *map(str, list(one.labels.values())[1:]))): one.value for one in found}

    assert measured(ideal) == {
        "tableConsumptionPaused": 0, "missingConsumingSegmentTotalCount": 1, "numRowsThreshold0": 70,
        "missingConsumingSegmentMaxDurationMinutes": 3, "committingSegmentSize0": 0, "committingSegmentSize1": 3,
    }  # fmt: skip
    paused = measured(with_pause_state(ideal, PauseState(paused=True)))
    assert paused["tableConsumptionPaused"] == 1
    assert paused["missingConsumingSegmentTotalCount"] == paused["missingConsumingSegmentMaxDurationMinutes"] == 0


def test_what_servers_and_queues_know_is_measured_by_the_controller(trips: Any, make_segment: Any) -> None:
    config = trips.controller.get("/tables/trips").json()["OFFLINE"]
    config["quota"] = {"storage": "1M"}
    assert trips.controller.put("/tables/trips", json=config).status_code == 200
    trips.push(make_segment("trips_0", [1, 2, 3]))
    table = (("table", "trips_OFFLINE"),)
    assert trips.controller.get("/periodictask/run", params={"taskname": "SegmentStatusChecker"}).json()["isSuccessful"]
    found = scraped(trips.cluster.controller_url)
    assert found["pinot_controller_tableQuota", table] == 1024 * 1024
    assert 0 < found["pinot_controller_tableStorageQuotaUtilization", table] < 100
    on_disk = scraped(trips.cluster.server_url)["pinot_server_segmentSizeBytes", table]
    assert found["pinot_controller_tableTotalSizeOnServer", table] == on_disk
    assert found["pinot_controller_idealstateZnodeSize", table] > 50
    assert not [key for key in found if key[0] == "pinot_controller_tableRebalanceInProgress"]


def test_openmetrics_is_given_to_who_accepts_it(trips: Any) -> None:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    cluster = trips.cluster
    for url in (cluster.controller_url, cluster.broker_url, cluster.server_url):
        plain = httpx.get(f"{url}/metrics")
        assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
        answer = httpx.get(
            f"{url}/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}
        )
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        names = {family.name for family in text_string_to_metric_families(answer.text)}
        assert "process_cpu_seconds" in names
        assert any(name.startswith("pinot_") for name in names)
