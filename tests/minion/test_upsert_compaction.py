"""UpsertCompactionTask on a table during ingestion: the same answers before, during and after."""

from collections.abc import Callable
from typing import Any

COMPACT = {"bufferTimePeriod": "0d", "invalidRecordsThresholdCount": "1"}
TYPE = "UpsertCompactionTask"
T0 = 1_700_000_000_000


def test_segments_lose_rows_that_do_not_count(make_orders: Callable[..., Any], eventually: Callable[..., None]) -> None:
    orders = make_orders(partitions=2, segment_rows=100).create(UpsertCompactionTask=COMPACT)
    orders.produce(1000, keys=60)
    eventually(lambda: len(orders.segments()) >= 8 and orders.is_right())
    before, names = orders.all_rows(), orders.segments()
    assert before == 1000
    job = orders.schedule_one(TYPE)
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


def test_several_segments_become_one(make_orders: Callable[..., Any], eventually: Callable[..., None]) -> None:
    kind = "UpsertCompactMergeTask"
    orders = make_orders(partitions=2, segment_rows=50).create(
        UpsertCompactMergeTask={"bufferTimePeriod": "0d", "tableMaxNumTasks": "0"}
    )
    orders.produce(600, keys=90)
    eventually(lambda: len(orders.segments()) >= 10 and orders.is_right())
    before = orders.all_rows()
    job = orders.schedule_one(kind)
    eventually(lambda: orders.rest("GET", f"/tasks/task/{job}/state") == "COMPLETED")
    eventually(lambda: len([name for name in orders.segments() if name.startswith("compacted__")]) == 2)
    eventually(orders.is_right)
    orders.produce(200, keys=90)
    eventually(orders.is_right)
    # the inputs hold no valid row any more, and go once that is stored
    eventually(lambda: len(orders.segments()) >= 10)
    orders.rest("POST", "/tasks/schedule", params={"taskType": kind})
    eventually(lambda: orders.is_right() and orders.all_rows() < before)
    merged = [name for name in orders.segments() if name.startswith("compacted__")]
    custom = orders.rest("GET", f"/segments/orders_REALTIME/{merged[0]}/metadata")["custom.map"]
    assert "UpsertCompactMergeTask.mergedSegments" in custom
    orders.stop()
    orders.start()
    eventually(orders.is_right)


def test_segments_are_committed_without_rows_that_do_not_count(
    make_orders: Callable[..., Any], eventually: Callable[..., None]
) -> None:
    orders = make_orders(segment_rows=100, enableCommitTimeCompaction=True)
    orders.table["tableIndexConfig"]["sortedColumn"] = ["note"]
    orders.create()
    orders.produce(550, keys=20)
    eventually(lambda: len(orders.segments()) >= 5 and orders.is_right())
    eventually(lambda: orders.all_rows() < 300)
    assert orders.is_right()
    orders.stop()
    orders.start()
    eventually(orders.is_right)


def test_deleted_keys_stay_until_their_older_rows_are_gone(
    make_orders: Callable[..., Any], eventually: Callable[..., None]
) -> None:
    settings = {"deletedKeysTTL": 1000, "enableDeletedKeysCompactionConsistency": True}
    orders = make_orders(segment_rows=10, **settings).create(UpsertCompactionTask=COMPACT)
    rows = iter(range(1000))

    def send(ts: int, *keys: str, gone: bool = False) -> None:
        orders.send([{"id": key, "n": next(rows), "ts": T0 + ts, "gone": gone} for key in keys])

    def num_deleted() -> int:
        return int(orders.query("SET skipUpsertDelete = true; SELECT COUNT(*) FROM orders WHERE gone = true")[0][0])

    send(0, "victim", *(f"a{i}" for i in range(9)))
    eventually(lambda: len(orders.segments()) == 1)
    send(1, "victim", "lonely", gone=True)
    send(1, *(f"b{i}" for i in range(8)))
    eventually(lambda: len(orders.segments()) == 2)
    send(5000, *(f"c{i}" for i in range(10)))
    eventually(lambda: len(orders.segments()) == 3)
    send(5001, *(f"d{i}" for i in range(10)))
    eventually(lambda: len(orders.segments()) == 4)
    eventually(lambda: num_deleted() == 1)  # the key without other rows is forgotten, the other one is not
    job = orders.schedule_one(TYPE)
    eventually(lambda: orders.rest("GET", f"/tasks/task/{job}/state") == "COMPLETED")
    eventually(lambda: orders.all_rows() <= 38)  # the victim's old row, and the row of the forgotten key
    assert num_deleted() == 1
    orders.stop()
    orders.start()
    eventually(lambda: orders.query("SELECT COUNT(*) FROM orders WHERE id = 'victim'") == [[0]])
    send(5002, *(f"e{i}" for i in range(10)))
    eventually(lambda: len(orders.segments()) == 5)
    eventually(lambda: num_deleted() == 0)
    assert orders.query("SELECT COUNT(*) FROM orders WHERE id = 'victim'") == [[0]]
