"""PurgeTask and RefreshSegmentTask on segments from a stream, of a table with primary keys."""

from collections.abc import Callable
from typing import Any


def test_keys_are_forgotten_in_committed_segments(make_orders: Callable[..., Any], eventually: Callable[..., None]) -> None:
    orders = make_orders(segment_rows=60).create(RefreshSegmentTask={}, PurgeTask={})

    def ended(job: str) -> None:
        eventually(lambda: orders.rest("GET", f"/tasks/task/{job}/state") == "COMPLETED")

    def forget(*keys: str) -> None:
        given = {"purgeColumn": "id", "purgeValues": ",".join(keys)}
        body = {"taskType": "PurgeTask", "tableName": "orders", "taskConfigs": given}
        (job,) = orders.rest("POST", "/tasks/execute", json=body).values()
        ended(job)

    orders.produce(270, keys=30)
    eventually(lambda: len(orders.segments()) >= 4 and orders.is_right())
    names = orders.segments()
    forget("k1", "k2")
    committed = f"$segmentName IN ({', '.join(repr(name) for name in names)})"
    rows = f"SET skipUpsert = true; SELECT COUNT(*) FROM orders WHERE {committed}"
    eventually(lambda: orders.query(f"{rows} AND id IN ('k1', 'k2')") == [[0]])
    for key in ("k1", "k2"):
        if orders.latest[key]["n"] < 240:  # its newest row was not consuming
            del orders.latest[key]
    eventually(orders.is_right)
    # purged segments keep their place in the stream, and so do refreshed ones
    job = orders.schedule_one("RefreshSegmentTask")
    ended(job)
    assert orders.segments() == names
    # empty segments are deleted, except the last one, which holds the offset to continue from
    forget(*(f"k{number}" for number in range(30)))
    eventually(lambda: orders.query(rows) == [[0]])
    orders.schedule("PurgeTask")
    eventually(lambda: orders.segments() == names[-1:])
    orders.latest = {key: row for key, row in orders.latest.items() if row["n"] >= 240}
    orders.produce(60, keys=30)
    eventually(lambda: len(orders.segments()) > 1 and orders.is_right())
