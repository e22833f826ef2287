"""A hybrid table in a running cluster: its REALTIME half drops the segments that its OFFLINE half answers for."""

from collections.abc import Callable
from typing import Any

import orjson

BASE_MS = 1_700_000_000_000
DAY_MS = 86_400_000


def test_segments_that_no_query_reads_go_when_the_cluster_says_so(
    make_realtime: Callable[..., Any], eventually: Callable[..., None]
) -> None:
    realtime = make_realtime(segment_rows=1000, start=False)
    realtime.table["segmentsConfig"] |= {"retentionTimeUnit": "DAYS", "retentionTimeValue": "100000"}
    realtime.start()
    realtime.create()
    realtime.produce(3000)
    eventually(lambda: list(realtime.segments().values()) == ["ONLINE"] * 3 + ["CONSUMING"])
    first, *kept = realtime.segments()

    def retain() -> list[str]:
        answer = realtime.rest("GET", "/periodictask/run", params={"taskname": "RetentionManager"})
        assert answer["isSuccessful"]
        return list(realtime.segments())

    realtime.rest("POST", "/cluster/configs", json={"controller.enable.hybrid.table.retention.strategy": "true"})
    assert retain() == [first, *kept]  # there is no OFFLINE half yet

    offline = {key: realtime.table[key] for key in ("tableName", "segmentsConfig", "tenants", "tableIndexConfig")}
    realtime.rest("POST", "/tables", json={**offline, "tableType": "OFFLINE"})
    assert retain() == [first, *kept]  # there is one, without a time boundary
    rows = [{"s": "o", "p": 9, "n": 0, "ts": ms} for ms in (BASE_MS, BASE_MS + 1500 + DAY_MS)]
    realtime.rest(
        "POST", "/ingestFromFile",
        params={"tableNameWithType": "t_OFFLINE", "batchConfigMapStr": '{"inputFormat": "json"}'},
        files={"file": ("rows.json", b"\n".join(map(orjson.dumps, rows)))},
    )  # fmt: skip

    def counted() -> Any:
        return realtime.ask("SELECT COUNT(*) FROM t").get("resultTable", {}).get("rows")

    whole = [[1 + 1499]]  # up to the boundary from OFFLINE, those behind it from REALTIME
    eventually(lambda: counted() == whole)
    setting = {"controller.enable.hybrid.table.retention.strategy": "false"}
    realtime.rest("POST", "/cluster/configs", json=setting)
    assert retain() == [first, *kept]
    realtime.rest("POST", "/cluster/configs", json=dict.fromkeys(setting, "true"))
    assert retain() == kept  # the second segment goes on behind the boundary, the last one is consumed
    assert counted() == whole
    eventually(lambda: realtime.ask("SELECT COUNT(*) FROM t_REALTIME")["resultTable"]["rows"] == [[2000]])
