"""The vector index of a REALTIME table: during consumption, after commits, restarts, and changes of its config."""

from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from gamay.segment.secondary import growing

SCHEMA = {
    "schemaName": "t",
    "dimensionFieldSpecs": [
        {"name": "n", "dataType": "INT"},
        {"name": "v", "dataType": "FLOAT", "singleValueField": False},
    ],
    "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
}
VECTORS = np.random.default_rng(2).normal(size=(2600, 6)).astype(np.float32)
NEAR = f"VECTOR_SIMILARITY(v, ARRAY[{', '.join(map(str, VECTORS[9] + 0.1))}], 5)"
# the segments are searched by themselves
WANTED = [
    first + int(row)
    for first, last in ((0, 2000), (2000, 2600))
    for row in sorted(np.argsort(((VECTORS[first:last] - VECTORS[9] - 0.1) ** 2).sum(axis=1))[:5])
]


def field(**properties: str) -> list[dict[str, Any]]:
    vector = {"vectorIndexType": "IVF_FLAT", "vectorDimension": 6, "vectorDistanceFunction": "L2", "properties": properties}
    return [{"name": "v", "encodingType": "RAW", "indexes": {"vector": vector}}]


def test_rows_are_found_in_whatever_form_they_are(
    make_realtime: Callable[..., Any], eventually: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "BLOCK_ROWS", 500)
    realtime = make_realtime(start=False, segment_rows=2000)
    realtime.table["fieldConfigList"] = field(minRowsForIndex="100", nlist="10")
    realtime.start()
    realtime.rest("POST", "/schemas", json=SCHEMA)
    realtime.rest("POST", "/tables", json=realtime.table)

    def send(first: int, last: int) -> None:
        rows = [{"n": n, "v": VECTORS[n].tolist(), "ts": 1_700_000_000_000 + n} for n in range(first, last)]
        realtime.producer.send(pa.array(map(orjson.dumps, rows), pa.binary()), partition=0)
        eventually(lambda: realtime.ask("SELECT COUNT(*) FROM t")["resultTable"]["rows"] == [[last]])

    def found(options: str = "") -> list[int]:
        text = f"{options}SELECT n FROM t WHERE {NEAR} ORDER BY n LIMIT 100"
        return [row[0] for row in realtime.ask(text)["resultTable"]["rows"]]

    def plan(stop: int) -> str:
        """How a segment is searched that has a row before `stop`."""
        text = f"EXPLAIN PLAN FOR SELECT n FROM t WHERE {NEAR} AND ts < {1_700_000_000_000 + stop} LIMIT 100"
        rows = [row[0] for row in realtime.ask(text)["resultTable"]["rows"]]
        return next(row.partition("(")[0] for row in rows if row.startswith("VECTOR_SIMILARITY"))

    every_list, every_vector = "SET vectorNprobe = 10; ", "SET skipIndexes = 'v=vector'; "
    send(0, 1200)
    assert found(every_list) == found(every_vector)
    send(1200, 1210)
    eventually(lambda: plan(1210) == "VECTOR_SIMILARITY_INDEX")
    assert found(every_list) == found(every_vector)
    send(1210, 2600)
    eventually(lambda: "ONLINE" in realtime.segments().values())
    eventually(lambda: found(every_list) == WANTED and plan(2000) == "VECTOR_SIMILARITY_INDEX")
    realtime.stop()
    realtime.start()
    eventually(lambda: realtime.ask("SELECT COUNT(*) FROM t").get("resultTable", {}).get("rows") == [[2600]])
    eventually(lambda: found(every_list) == WANTED and plan(2000) == "VECTOR_SIMILARITY_INDEX")
    for fields, operator in (
        (field(nlist="5"), "VECTOR_SIMILARITY_EXACT_SCAN"),
        (field(minRowsForIndex="1"), "VECTOR_SIMILARITY_INDEX"),
        ([], "VECTOR_SIMILARITY_EXACT_SCAN"),
    ):
        table = {**realtime.rest("GET", "/tables/t")["REALTIME"], "fieldConfigList": fields}
        realtime.rest("PUT", "/tables/t", json=table)
        # without a config the distance is another one, of which the broker hears a moment later
        eventually(lambda fields=fields: (found(every_vector) == WANTED) is bool(fields))
        scanned = found(every_vector)
        assert found("SET vectorNprobe = 1000; ") == scanned
        realtime.rest("POST", "/segments/t/reload")
        eventually(lambda operator=operator: operator == plan(2000))
        assert found("SET vectorNprobe = 1000; ") == scanned
