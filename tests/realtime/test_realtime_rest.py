"""REST: the controller's information about tables that consume a stream, and about hybrid ones."""

from collections.abc import Callable
from typing import Any

import httpx
from tests.waiting import PATIENCE_S

from gamay.base.clock import SYSTEM_CLOCK


def test_what_is_told_of_a_table_that_consumes(make_realtime: Callable[..., Any], eventually: Callable[..., None]) -> None:
    table = make_realtime(partitions=2, segment_rows=5)
    table.produce(12, 0)
    table.produce(3, 1)
    eventually(lambda: table.all_there() and list(table.segments().values()).count("ONLINE") == 2)
    consuming = [name for name, state in table.segments().items() if state == "CONSUMING"]
    completed = [name for name, state in table.segments().items() if state == "ONLINE"]
    eventually(lambda: table.rest("GET", "/tables/t/badLLCSegmentsPerPartition") == {})

    assert table.rest("GET", "/tables/t/status", params={"type": "REALTIME"}) == {
        "ingestionStatus": {"ingestionState": "HEALTHY", "errorMessage": ""}
    }
    assert table.rest("GET", "/tables/t/consumerWatermarks") == {
        "watermarks": [
            {"partitionGroupId": 0, "sequenceNumber": 2, "startOffset": "10"},
            {"partitionGroupId": 1, "sequenceNumber": 0, "startOffset": "0"},
        ]
    }
    told = table.rest("GET", "/segments/t/metadata")
    offsets = {name: (one["startOffset"], one["endOffset"], one["totalDocs"]) for name, one in told.items()}
    of_partition_0 = [("0", "5", 5), ("5", "10", 5), ("10", None, 2)]
    assert list(offsets.values()) == [*of_partition_0, ("0", None, 3)]
    assert {(one["schemaName"], one["timeUnit"], one["timeGranularitySec"]) for one in told.values()} == {
        ("t", "MILLISECONDS", 0)
    }
    server = f"{table.cluster.server_url}/tables/t_REALTIME"
    assert told == httpx.get(f"{server}/segments/metadata").json()
    assert httpx.get(f"{server}/tiers").json() == {
        "tableName": "t_REALTIME",
        "segmentTiers": dict.fromkeys(completed),
        "mutableSegments": consuming,
    }
    shown = table.rest("GET", f"/segments/t/{consuming[0]}/metadata", params={"columns": "*"})
    assert (shown["segment.realtime.status"], shown["columns"]) == ("IN_PROGRESS", [])
    assert table.rest("GET", "/segments/t_REALTIME/needReload")["needReload"] is False
    assert [told["staleSegmentList"] for told in table.rest("GET", "/segments/t_REALTIME/isStale").values()] == [[]]
    (debug,) = table.rest("GET", "/debug/tables/t")
    states = {info["segmentName"]: next(iter(info["serverState"].values())) for info in debug["segmentDebugInfos"]}
    assert states[consuming[0]]["consumerInfo"]["consumerState"] == "CONSUMING"
    assert states[completed[0]]["consumerInfo"] is None
    assert table.rest("GET", "/tables/t/validDocIdsMetadata") == []  # in this table every row is valid
    url = table.cluster.controller_url
    assert httpx.get(f"{url}/segments/t/{consuming[0]}").status_code == 404
    assert httpx.get(f"{url}/tables/t/validDocIdsMetadata", params={"validDocIdsType": "SOME"}).status_code == 400

    offline = {**table.table, "tableType": "OFFLINE", "ingestionConfig": {}}
    table.rest("POST", "/tables", json=offline)
    assert "t_REALTIME" in table.rest("POST", "/segments/t/reload")["status"]  # the other half has none
    twice = httpx.post(f"{url}/periodictask/run", params={"taskname": "RetentionManager", "tableName": "t"})
    assert (twice.status_code, twice.json()["error"].startswith("More than one table matches")) == (500, True)


def test_ingestion_is_not_healthy_when_a_segment_is_not_consumed(
    make_realtime: Callable[..., Any], eventually: Callable[..., None]
) -> None:
    table = make_realtime(partitions=1, segment_rows=100)
    table.produce(3)
    eventually(table.all_there)
    (segment,) = table.segments()
    core = table.cluster.core
    core.server.consumers.stop(core.server.table("t_REALTIME"), segment)
    told = table.rest("GET", "/tables/t/status", params={"type": "REALTIME"})["ingestionStatus"]
    assert (told["ingestionState"], segment in told["errorMessage"]) == ("UNHEALTHY", True)


def test_a_server_brings_a_segment_to_the_deep_store(
    make_realtime: Callable[..., Any], eventually: Callable[..., None]
) -> None:
    table = make_realtime(segment_rows=5)
    table.produce(7)
    eventually(lambda: table.all_there() and "ONLINE" in table.segments().values())
    states = table.segments()
    (done,) = (name for name, state in states.items() if state == "ONLINE")
    (consuming,) = (name for name, state in states.items() if state == "CONSUMING")
    server, folder = table.cluster.server_url, table.cluster.core.layout.deep_store / "t_REALTIME"
    eventually(lambda: done in httpx.get(f"{server}/tables/t_REALTIME/segments/crc").json())
    crc = int(httpx.get(f"{server}/tables/t_REALTIME/segments/crc").json()[done])
    for path in folder.iterdir():
        path.rename(folder.parent / path.name)
    answer = httpx.post(f"{server}/segments/t_REALTIME/{done}/upload", timeout=PATIENCE_S)
    assert (answer.status_code, answer.text) == (200, f"deepstore:t_REALTIME/{done}__{crc}.tar.zst")
    assert [path.name for path in folder.iterdir()] == [f"{done}__{crc}.tar.zst"]
    described = httpx.post(f"{server}/segments/t_REALTIME/{done}/uploadLLCSegment", timeout=PATIENCE_S).json()
    assert described == {"segmentName": done, "crc": crc, "dataCrc": None, "downloadUrl": answer.text}
    missing = httpx.post(f"{server}/segments/t_REALTIME/{consuming}/upload")
    assert (missing.status_code, "is not loaded on this server" in missing.json()["error"]) == (404, True)
    assert httpx.post(f"{server}/segments/t_OFFLINE/{done}/upload").status_code == 400


def test_a_server_tells_what_was_reloaded(make_realtime: Callable[..., Any], eventually: Callable[..., None]) -> None:
    table = make_realtime(segment_rows=5)
    table.produce(12)
    # the ideal state is ONLINE before the server has loaded the segment it completed
    eventually(lambda: len(httpx.get(f"{table.cluster.server_url}/tables/t_REALTIME/segments/crc").json()) == 2)
    url = f"{table.cluster.server_url}/controllerJob/reloadStatus/t_REALTIME"
    since = SYSTEM_CLOCK.now_ms() + 1
    eventually(lambda: SYSTEM_CLOCK.now_ms() > since)
    whole = {"totalSegmentCount": 2, "successCount": 0, "segmentReloadFailures": []}
    assert httpx.get(url, params={"reloadJobTimestamp": since}).json() == whole
    first = min(table.segments())
    table.rest("POST", f"/segments/t/{first}/reload", params={"forceDownload": "true"})
    eventually(lambda: httpx.get(url, params={"reloadJobTimestamp": since}).json() == whole | {"successCount": 1})
    named = httpx.get(url, params={"reloadJobTimestamp": since, "segmentName": first}).json()
    assert named == whole | {"totalSegmentCount": 1, "successCount": 1}
    assert httpx.get(url).status_code == 400
    assert httpx.get(url.replace("t_REALTIME", "u_REALTIME"), params={"reloadJobTimestamp": since}).status_code == 404
    assert httpx.get(f"{table.cluster.server_url}/queries/id").json() == []


def test_a_segment_is_completed_when_its_rows_take_their_memory(
    make_realtime: Callable[..., Any], eventually: Callable[..., None]
) -> None:
    """Rows and time would let it go on; no row is lost or there twice."""
    table = make_realtime(segment_rows=1_000_000, **{"realtime.segment.flush.threshold.memory": "20K"})
    for _ in range(6):
        table.produce(400)
        eventually(table.all_there)
    eventually(lambda: list(table.segments().values()).count("ONLINE") >= 2)
    assert table.all_there()
    found = [
        table.rest("GET", f"/segments/t/{name}/metadata")["segment.total.docs"]
        for name, state in table.segments().items()
        if state == "ONLINE"
    ]
    assert all(0 < int(rows) < 2_400 for rows in found)


def test_the_ideal_state_of_a_table_that_consumes_is_mended(
    make_realtime: Callable[..., Any], eventually: Callable[..., None]
) -> None:
    table = make_realtime(partitions=2, segment_rows=5)
    table.produce(12, 0)
    table.produce(3, 1)
    eventually(lambda: table.all_there() and list(table.segments().values()).count("ONLINE") == 2)
    # the location of a segment that no server has reported yet is unknown
    eventually(lambda: table.rest("GET", "/tables/t/externalview")["REALTIME"].keys() == table.segments().keys())
    before = table.segments()
    path, store = "/PinotCluster/IDEALSTATES/t_REALTIME", table.cluster.core.registry.store
    store.set(path, b"garbage", store.get(path).version)
    assert [one["path"] for one in table.rest("GET", "/cluster/damage")["damaged"]] == [path]
    table.rest("POST", "/cluster/damage", params={"path": path})
    assert table.rest("GET", "/cluster/damage") == {"damaged": []}
    assert table.segments() == before
    table.produce(9, 0)
    table.produce(4, 1)
    eventually(table.all_there)
    eventually(lambda: list(table.segments().values()).count("ONLINE") == 5)
    assert table.all_there()


def test_a_reload_commits_what_is_consumed_so_that_rows_to_come_have_new_columns(
    make_realtime: Callable[..., Any], eventually: Callable[..., None]
) -> None:
    table = make_realtime(partitions=1)
    table.produce(3)
    eventually(table.all_there)
    (first,) = table.segments()
    schema = table.rest("GET", "/schemas/t")
    schema["metricFieldSpecs"].append({"name": "double", "dataType": "LONG", "transformFunction": "plus(n, n)"})

    table.rest("PUT", "/schemas/t", params={"reload": "true"}, json=schema)
    eventually(lambda: list(table.segments().values()) == ["ONLINE", "CONSUMING"])
    table.produce(2)
    eventually(table.all_there)
    assert table.ask("SELECT n, double FROM t ORDER BY n")["resultTable"]["rows"] == [[0, 0], [1, 0], [2, 0], [3, 6], [4, 8]]

    _, second = table.segments()
    table.rest("POST", f"/segments/t_REALTIME/{first}/reset")
    url = f"{table.cluster.controller_url}/segments/t_REALTIME/{second}"
    assert httpx.post(f"{url}/reset").status_code == 404  # what is consumed is not lost by a reset
    status = table.rest("POST", f"/segments/t/{second}/reload")["status"]
    assert "sent 1 reload messages" in status
    job = status.split("job id: ")[1].split(",")[0]
    eventually(lambda: table.rest("GET", f"/segments/segmentReloadStatus/{job}")["successCount"] == 1)
    assert list(table.segments().values()) == ["ONLINE", "ONLINE", "CONSUMING"]
