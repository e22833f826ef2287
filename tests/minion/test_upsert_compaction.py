"""UpsertCompactionTask on a table while rows come: the same answers before, during and after."""

from collections.abc import Callable
from typing import Any

COMPACT = {"bufferTimePeriod": "0d", "invalidRecordsThresholdCount": "1"}
TYPE = "UpsertCompactionTask"


def test_segments_lose_rows_that_do_not_count(make_orders: Callable[..., Any], eventually: Callable[..., None]) -> None:
    orders = make_orders(partitions=2, segment_rows=100).create(UpsertCompactionTask=COMPACT)
    orders.produce(1000, keys=60)
    eventually(lambda: len(orders.segments()) >= 8 and orders.is_right(), 120)
    before, names = orders.all_rows(), orders.segments()
    assert before == 1000
    (job,) = orders.schedule(TYPE)
    eventually(lambda: orders.rest("GET", f"/tasks/task/{job}/state") == "COMPLETED")
    eventually(lambda: orders.is_right() and orders.all_rows() < 700)
    assert set(orders.segments()) <= set(names)
    debug = orders.rest("GET", f"/tasks/task/{job}/debug", params={"verbosity": 1})
    assert debug["subtaskCount"]["completed"] == debug["subtaskCount"]["total"] > 0
    # the same again: rows went on to come, and segments that hold nothing any more are deleted
    orders.produce(600, keys=60)
    eventually(lambda: len(orders.segments()) >= 5 and orders.is_right())
    orders.schedule(TYPE)
    eventually(lambda: not any(s == "IN_PROGRESS" for s in orders.rest("GET", f"/tasks/{TYPE}/taskstates").values()))
    eventually(orders.is_right)
    orders.stop()
    orders.start()
    eventually(orders.is_right)
