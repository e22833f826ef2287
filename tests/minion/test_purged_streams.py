"""PurgeTask and RefreshSegmentTask on segments that were made from a stream, of a table with primary keys."""

from collections.abc import Callable
from typing import Any


def test_keys_are_forgotten_in_committed_segments(make_orders: Callable[..., Any], eventually: Callable[..., None]) -> None:
    orders = make_orders(segment_rows=100).create(RefreshSegmentTask={})
    orders.produce(450, keys=40)
    eventually(lambda: len(orders.segments()) >= 4 and orders.is_right())
    ended = lambda job: orders.rest("GET", f"/tasks/task/{job}/state") == "COMPLETED"  # noqa: E731
    names = orders.segments()
    body = {"taskType": "PurgeTask", "tableName": "orders", "taskConfigs": {"purgeColumn": "id", "purgeValues": "k1,k2"}}
    (job,) = orders.rest("POST", "/tasks/execute", json=body).values()
    eventually(lambda: ended(job))
    committed = ", ".join(f"'{name}'" for name in names)
    left = f"SET skipUpsert = true; SELECT COUNT(*) FROM orders WHERE id IN ('k1', 'k2') AND $segmentName IN ({committed})"
    eventually(lambda: orders.query(left) == [[0]])
    for key in ("k1", "k2"):
        if orders.latest[key]["n"] < 400:  # its newest row was not consuming
            del orders.latest[key]
    eventually(orders.is_right)
    # purged segments keep their place in the stream, and so do refreshed ones
    (job,) = orders.schedule("RefreshSegmentTask")
    eventually(lambda: ended(job))
    assert orders.segments() == names
    orders.produce(200, keys=40)
    eventually(lambda: len(orders.segments()) > len(names) and orders.is_right())


def test_what_no_row_is_left_of_goes_but_for_the_last_one(
    make_orders: Callable[..., Any], eventually: Callable[..., None]
) -> None:
    orders = make_orders(segment_rows=50).create(PurgeTask={})
    orders.produce(170, keys=1)
    eventually(lambda: len(orders.segments()) == 3 and orders.is_right())
    names = orders.segments()
    body = {"taskType": "PurgeTask", "tableName": "orders", "taskConfigs": {"purgeColumn": "id", "purgeValues": "k0"}}
    (job,) = orders.rest("POST", "/tasks/execute", json=body).values()
    eventually(lambda: orders.rest("GET", f"/tasks/task/{job}/state") == "COMPLETED")
    eventually(lambda: orders.all_rows() == 20)
    orders.schedule("PurgeTask")
    eventually(lambda: orders.segments() == names[-1:])
    eventually(orders.is_right)
