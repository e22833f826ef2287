"""Servers as processes that are killed and paused during queries: with two replicas every answer is complete."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.embedded.test_role_processes import SCHEMA, TABLE, Cluster, _ask, _is_whole, _push
from tests.waiting import eventually


@pytest.fixture
def processes(tmp_path: Path, zookeeper_hosts: str) -> Iterator[Cluster]:
    made = Cluster(tmp_path, zookeeper_hosts)
    yield made
    made.stop()


@pytest.mark.chaos
def test_every_answer_is_whole(processes: Cluster, make_segment: Callable[..., Path]) -> None:
    shared = str(processes.folder / "deepstore")
    servers = [processes.server("--deep-store", shared) for _ in range(2)]
    broker, controller = processes.add("broker"), processes.controller()
    for process in processes.processes:
        process.wait_ready()
    assert controller.http.post("/schemas", json=SCHEMA).status_code == 200
    assert controller.http.post("/tables", json=TABLE).status_code == 200
    for i in range(4):
        _push(controller, make_segment(f"trips_{i}", list(range(100 * i, 100 * i + 100))))
    eventually(lambda: _is_whole(controller))
    eventually(lambda: _ask(broker)[0] == 400 and not _ask(broker)[1]["exceptions"], lambda: _ask(broker))
    # the broker, too, must know the second replicas, which no answer shows
    assert broker.http.put("/routing/trips").status_code == 200
    answers: list[tuple[int | None, Any]] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            count, answer = _ask(broker)
            answers.append((count, answer["exceptions"]))
            stop.wait(0.01)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    servers[0].kill()
    time.sleep(2)
    servers[0].start()
    servers[0].wait_ready()
    eventually(lambda: _is_whole(controller))
    time.sleep(1)
    servers[1].send(signal.SIGSTOP)
    time.sleep(6)
    servers[1].send(signal.SIGCONT)
    stop.set()
    for thread in threads:
        thread.join()
    # a paused server is detected after 3 s, and another one queried before the deadline
    assert [answer for answer in answers if answer != (400, [])] == []
