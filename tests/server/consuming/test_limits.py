"""Limits of a server on concurrent builds and messages per second; replicas that stopped consuming and restart."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.waiting import PATIENCE_S

from gamay.base.errors import GamayError
from gamay.cluster.records.completion import Call
from gamay.cluster.store.store import StoreUnavailableError
from gamay.server.consuming.builds import BuildPermits
from gamay.server.consuming.machine import ConsumerState
from gamay.server.consuming.throttle import Throttle

TABLE = "t_REALTIME"


@pytest.mark.parametrize(("parallel", "most"), [(1, 1), (2, 2), (0, 6)])
def test_builds_wait_for_each_other(parallel: int, most: int) -> None:
    permits = BuildPermits(lambda: parallel)
    building, peak, lock, go = 0, 0, threading.Lock(), threading.Event()

    def build() -> None:
        nonlocal building, peak
        with permits.taken():
            with lock:
                building += 1
                peak = max(peak, building)
                if peak == most:
                    go.set()
            assert go.wait(PATIENCE_S)
            with lock:
                building -= 1

    threads = [threading.Thread(target=build) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert peak == most


def test_the_last_known_number_of_builds_holds_while_the_store_is_away() -> None:
    answers: list[Any] = [1]

    def parallel() -> int:
        if not answers:
            raise StoreUnavailableError("away")
        return int(answers.pop())

    permits = BuildPermits(parallel)
    with permits.taken():
        pass
    waiting = threading.Thread(target=lambda: permits.taken().__enter__(), daemon=True)
    with permits.taken():
        waiting.start()
        waiting.join(0.05)
        assert waiting.is_alive()
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()


def test_a_partition_has_its_limit_or_its_part_of_the_topics() -> None:
    def refuses() -> int:
        raise GamayError("away")

    assert not Throttle(None, None, refuses).limits
    assert Throttle(None, None, refuses).delay_s(1000, 0.0) == 0
    assert Throttle(100, 10, refuses).delay_s(50, 0.0) == pytest.approx(0.5)
    shared = Throttle(None, 100, lambda: 4)
    assert shared.delay_s(50, 0.0) == pytest.approx(2)
    assert shared.delay_s(25, 1.0) == pytest.approx(2)
    assert Throttle(None, 100, refuses).delay_s(50, 0.0) == pytest.approx(0.5)


def test_how_much_of_a_limit_is_used_is_told_in_percent() -> None:
    assert Throttle(None, None, lambda: 1).utilization(0.0) is None
    shared = Throttle(None, 100, lambda: 4)  # 25 messages a second
    assert shared.utilization(0.0) == 0
    now_s = 0.0
    for _ in range(40):
        shared.delay_s(5, now_s)
        now_s += 0.5
    assert shared.utilization(now_s) == pytest.approx(40, rel=0.1)  # 10 a second
    assert shared.utilization(now_s + 60) == 0


def test_a_replica_that_was_offline_for_a_moment_begins_anew(make_world: Callable[..., Any], eventually: Any) -> None:
    """Both changes of the ideal state are seen as one: the segment is CONSUMING, as before."""
    world = make_world(**{"stream.log.decoder.prop.stopOnDecodeError": "true"})
    segment = world.controller.create(0, "0")
    world.start()
    world.produce(3)
    eventually(lambda: world.count() == 3)
    world.send(b"{")
    consumers = world.server.consumers.consumers
    eventually(lambda: consumers(TABLE)[segment].gave_up)
    first = consumers(TABLE)[segment]
    assert first.state is ConsumerState.ERROR
    reports = [call for call, _ in world.controller.asked].count(Call.STOPPED_CONSUMING)
    world.registry.update_ideal_state(TABLE, lambda ideal: ideal.with_segments({segment: {"Server_a_1": "CONSUMING"}}))
    world.server._transitions.note(TABLE)
    eventually(lambda: consumers(TABLE).get(segment) not in (None, first))
    eventually(lambda: [call for call, _ in world.controller.asked].count(Call.STOPPED_CONSUMING) > reports)
