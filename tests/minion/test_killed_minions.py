"""Minions killed during work: another one completes the subtask, and the dead one leaves nothing behind.

A kill is an exception that no code catches, raised in the thread of the attempt before or after one of its requests; then
the worker's session ends, and another worker starts. The moments are drawn from a seed. `python -m benchmarks.minion_chaos`
kills real processes by SIGKILL.
"""

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from tests.spark.cluster import DAY_MS, T0, Cluster, offline_config, realtime_config, send
from tests.steady import steady
from tests.waiting import eventually

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.ids import RANDOM_IDS
from gamay.client.http import HttpService
from gamay.cluster.tasks.queue import TaskQueues
from gamay.cluster.tasks.records import JobState
from gamay.minion.role import task_worker

SCHEMA: dict[str, Any] = {
    "dimensionFieldSpecs": [{"name": "k", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
}
DAY = T0 // DAY_MS * DAY_MS
BUCKETS = 5
KILLS = BUCKETS - 1  # the first subtask is not killed, and determines the number of moments


class KilledError(BaseException):
    """Error that ends the thread of an attempt as SIGKILL ends a process: no code handles it."""


class Requests:
    """The requests of attempts, counted: each is two moments, before and after. kill_at: the moment to die in."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen, self.kill_at, self.killed = 0, -1, threading.Event()
        request = HttpService.request

        def counted(service: HttpService, *given: Any, **named: Any) -> Any:
            if not threading.current_thread().name.startswith("task-"):
                return request(service, *given, **named)
            self._pass()
            answer = request(service, *given, **named)
            self._pass()
            return answer

        monkeypatch.setattr(HttpService, "request", counted)
        tell = threading.excepthook
        monkeypatch.setattr(threading, "excepthook", lambda told: None if told.exc_type is KilledError else tell(told))

    def _pass(self) -> None:
        self.seen += 1
        if self.kill_at in range(self.seen):
            self.killed.set()
            raise KilledError


class Site:
    """A cluster with a minion that can be killed, and its tables."""

    def __init__(self, cluster: Cluster, requests: Requests) -> None:
        self.cluster, self.requests = cluster, requests
        self._core = cluster.cluster.core
        self._workers = [self._core.minion]

    def schedule(self, task_type: str, table: str) -> str:
        answer = httpx.post(
            f"{self.cluster.url}/tasks/schedule", params={"taskType": task_type, "tableName": table}, timeout=60
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json().get(task_type, ""))

    def do(self, task_type: str, table: str, kill_at: int) -> str:
        """Run one subtask whose first attempt dies at a moment, and return its report; -1: it does not die."""
        self.requests.seen, self.requests.kill_at = 0, kill_at
        self.requests.killed.clear()
        job = self.schedule(task_type, table)
        assert job
        if kill_at >= 0:
            eventually(self.requests.killed.is_set)
            self.requests.kill_at = -1
            self._workers[-1].stop()  # as the end of its session does, this gives up the lease
            self._begin_worker()
        queues = TaskQueues(self._core.registry.store, SYSTEM_CLOCK)

        def is_over() -> bool:
            queues.tend()
            return queues.state(queues.find(job)).is_final

        eventually(is_over)
        found = queues.find(job)
        (subtask,) = queues.subtasks(found)
        assert (queues.state(found), subtask.losses) == (JobState.COMPLETED, int(kill_at >= 0)), subtask.info
        return subtask.info

    def _begin_worker(self) -> None:
        dead = self._workers[-1]
        token = self.cluster.cluster._minion_token
        folder = self.cluster.folder / f"minion{len(self._workers)}"
        worker = task_worker(dead.id, self._core.registry, folder, SYSTEM_CLOCK, RANDOM_IDS, token)
        self._workers.append(worker)
        worker.start()

    def stop(self) -> None:
        for worker in self._workers[1:]:
            worker.stop()
        self.cluster.stop()

    def left(self, table: str) -> list[str]:
        """Return what dead attempts left of a typed table: in the lineage, its records, and the deep store."""
        registry = self._core.registry
        lineage = registry.get_lineage(table)
        entries = lineage.entries.values()
        replaced = {name for entry in entries if entry.state.value == "COMPLETED" for name in entry.segments_from}
        hidden = lineage.hidden_segments() - replaced
        records = list(registry.segments(table))
        deep_store = self._core.context.deep_store
        copies = {*deep_store.urls(table), *deep_store.unfinished(table)} - {record.download_url for record in records}
        return [
            *(f"entry {entry.segments_to} is open" for entry in entries if entry.state.value == "IN_PROGRESS"),
            *(f"segment {record.name} is hidden" for record in records if record.name in hidden),
            *(f"copy {url} belongs to nobody" for url in sorted(copies)),
        ]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    made = Site(Cluster(tmp_path), Requests(monkeypatch))
    yield made
    made.stop()


def rows_of(day: int, part: int, rows: int = 40) -> list[dict[str, Any]]:
    step = DAY_MS // rows
    return [{"k": f"k{i % 5}", "n": 100 * day + i, "ts": DAY + day * DAY_MS + i * step + part} for i in range(rows)]


def moments(seed: str, first: Callable[[], object], requests: Requests) -> list[int]:
    """Return moments of death among those of a subtask that completes."""
    first()
    return random.Random(seed).sample(range(requests.seen), KILLS)


def test_segments_are_merged_once(site: Site) -> None:
    task, table = "MergeRollupTask", "m_OFFLINE"
    levels = {"d.bucketTimePeriod": "1d", "d.bufferTimePeriod": "1d", "d.maxNumRecordsPerSegment": "30"}
    schema = {"schemaName": "m", **SCHEMA}
    config = offline_config("m", "ts") | {"task": {"taskTypeConfigsMap": {task: levels}}}
    site.cluster.create(schema, config)
    for day in range(BUCKETS):
        for part in range(2):
            rows = pa.Table.from_pylist(rows_of(day, part), pa.schema({"k": pa.string(), "n": pa.int64(), "ts": pa.int64()}))
            site.cluster.push(schema, config, f"m_{day}_{part}", rows)
    with steady(lambda: site.cluster.rows("SELECT COUNT(*), SUM(n), MIN(ts), MAX(ts) FROM m")):
        for moment in moments("merge", lambda: site.do(task, table, -1), site.requests):
            told = site.do(task, table, moment)
            assert told in ("2 segments with 80 rows became 3 with 80", "2 segments were replaced by an earlier attempt")
            assert site.left(table) == [], moment
    assert site.schedule(task, table) == ""


def test_windows_are_moved_once(site: Site) -> None:
    task, table = "RealtimeToOfflineSegmentsTask", "h_REALTIME"
    producer = site.cluster.topic("h")
    settings = {"bucketTimePeriod": "1d", "bufferTimePeriod": "2d", "maxNumRecordsPerSegment": "25"}
    realtime = realtime_config("h", "h", "ts", 30, task={"taskTypeConfigsMap": {task: settings}})
    site.cluster.create({"schemaName": "h", **SCHEMA}, realtime, offline_config("h", "ts"))
    for day in range(BUCKETS + 1):
        send(producer, rows_of(day, 0))
    site.cluster.wait_for("h", 40 * (BUCKETS + 1))
    eventually(lambda: list(site.cluster.segments("h_REALTIME").values()).count("CONSUMING") == 1)
    with steady(lambda: site.cluster.rows("SELECT COUNT(*), SUM(n), MIN(ts), MAX(ts) FROM h")):
        for number, moment in enumerate(moments("move", lambda: site.do(task, table, -1), site.requests)):
            assert f"the watermark is {DAY + (number + 2) * DAY_MS} now" in site.do(task, table, moment)
            assert site.left("h_OFFLINE") == [], moment
            assert site.cluster.count("h_OFFLINE") == 40 * (number + 2)


def test_rows_of_keys_are_merged_once(site: Site) -> None:
    task, table = "UpsertCompactMergeTask", "u_REALTIME"
    producer = site.cluster.topic("u")
    upsert = {
        "upsertConfig": {"mode": "FULL", "snapshot": "ENABLE"},
        "routing": {"instanceSelectorType": "strictReplicaGroup"},
    }
    settings = {"bufferTimePeriod": "0d", "minNumSegmentsPerTask": "2", "maxNumSegmentsPerTask": "2"}
    config = realtime_config("u", "u", "ts", 30, task={"taskTypeConfigsMap": {task: settings}}, **upsert)
    site.cluster.create({"schemaName": "u", **SCHEMA, "primaryKeyColumns": ["k"]}, config)
    count = 30 * 2 * BUCKETS
    rows = [{"k": f"k{i}" if i % 3 else f"hot{i % 2}", "n": i, "ts": DAY + i} for i in range(count + 5)]
    send(producer, rows)
    latest = {row["k"]: row["n"] for row in rows}
    expected = [(len(latest), float(sum(latest.values())))]
    eventually(lambda: site.cluster.rows("SELECT COUNT(*), SUM(n) FROM u") == expected)
    with steady(lambda: site.cluster.rows("SELECT COUNT(*), SUM(n) FROM u")):
        for moment in moments("keys", lambda: site.do(task, table, -1), site.requests):
            site.do(task, table, moment)
            assert site.left(table) == [], moment
