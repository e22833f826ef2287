"""JSON indexes of consuming segments: full blocks are indexed, remaining rows scanned, and all indexed at the commit."""

import time
from collections.abc import Callable
from typing import Any

import orjson
import pyarrow as pa
import pytest

from gamay.segment.secondary import growing

SCHEMA = {
    "schemaName": "t",
    "dimensionFieldSpecs": [{"name": "id", "dataType": "INT"}, {"name": "doc", "dataType": "JSON"}],
    "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
}
CONDITIONS = (
    """'"$.n" = 3'""", """'"$.n" <> 3'""", """'"$.l[*].k" = 2 AND "$.l[*].p" < 900'""", """'"$.x" IS NULL'""",
    """'"$.c" IN (''c5'', ''c1401'', ''c3005'')'""",
)  # fmt: skip


def line(number: int) -> bytes:
    doc = {"n": number % 7, "c": f"c{number}", "l": [{"k": number % 3, "p": number}, {"k": 1, "p": 0}]}
    if number % 11 == 0:
        doc["x"] = "there"
    return orjson.dumps({"id": number, "ts": 1_700_000_000_000 + number, "doc": doc})


def test_rows_are_found_while_they_arrive_and_after_the_commit(
    make_realtime: Callable[..., Any], eventually: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "BLOCK_ROWS", 400)
    realtime = make_realtime(segment_rows=3000, start=False)
    realtime.table["tableIndexConfig"] = {"jsonIndexColumns": ["doc"]}
    realtime.start()
    realtime.rest("POST", "/schemas", json=SCHEMA)
    realtime.rest("POST", "/tables", json=realtime.table)

    def rows(query: str) -> Any:
        answer = realtime.ask(query)
        assert answer["exceptions"] == [], answer["exceptions"]
        return answer["resultTable"]["rows"]

    sent = 0

    def send(upto: int) -> None:
        nonlocal sent
        realtime.producer.send(pa.array(map(line, range(sent, upto)), pa.binary()), partition=0)
        sent = upto
        eventually(lambda: rows("SELECT COUNT(*) FROM t") == [[upto]])

    def is_used() -> bool:
        """Return whether the index is used; finished blocks become visible with the next rows."""
        plan = rows(f"EXPLAIN PLAN FOR SELECT id FROM t WHERE JSON_MATCH(doc, {CONDITIONS[4]})")
        if "FILTER_JSON_INDEX" not in str(plan):
            time.sleep(0.1)
            send(sent + 1)
            return False
        return True

    for upto, is_committed in ((1500, False), (2000, False), (4600, True)):
        send(upto)
        eventually(lambda wanted=is_committed: ("ONLINE" in realtime.segments().values()) == wanted)
        eventually(is_used)
        for condition in CONDITIONS:
            for negation in ("", "NOT "):
                query = f"SELECT COUNT(*), SUM(id) FROM t WHERE {negation}JSON_MATCH(doc, {condition})"
                assert rows(query) == rows(f"SET skipIndexes = 'doc=json'; {query}"), (sent, condition)
