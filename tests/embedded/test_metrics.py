"""What the roles of a cluster measure, as Prometheus reads it."""

from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

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
    assert broker["pinot_broker_unavailableSegments", table] == 0
    assert broker["pinot_broker_routedSegments", table] == 2
    assert controller["pinot_controller_percentSegmentsAvailable", table] == 100
    assert controller["pinot_controller_segmentCount", table] == 2
    assert controller["pinot_controller_numberOfReplicas", table] == 1
    assert controller["pinot_controller_segmentsInErrorState", table] == 0
    assert controller["pinot_controller_tableDisabled", table] == 0
    assert controller["pinot_controller_pinotControllerLeader", ()] == 1
    assert (controller["pinot_controller_serversUp", ()], controller["pinot_controller_serversDown", ()]) == (1, 0)
    assert server["pinot_server_segmentCount", table] == 2
    assert server["pinot_server_documentCount", table] == 5
    assert server["pinot_server_segmentSizeBytes", table] > 0
