"""Adaptive server selection and failure detection, with time as an argument."""

import random
from collections import Counter

import pytest

from gamay.broker.routes.selection import Turn
from gamay.broker.scatter.failures import FIRST_RETRY_S, LONGEST_RETRY_S, FailureDetector
from gamay.broker.scatter.server_stats import AdaptiveSettings, MovingAverage, ServerStats

PREFIX = "pinot.broker.adaptive.server.selector."


def settings(**values: str) -> dict[str, str]:
    return {PREFIX + name.replace("__", "."): value for name, value in values.items()}


def test_the_average() -> None:
    average = MovingAverage(AdaptiveSettings(alpha=0.5, decay_ms=1000, initial=8.0), 0)
    average.add(4, 10)
    assert average.at(10) == 6
    average.add(0, 20)
    assert average.at(1019) == 3
    assert average.at(1020) == 1.5  # a window without values
    assert average.at(3020) == 0.375
    average.add(1, 3020)
    assert average.at(3020) == 0.6875


def test_the_average_while_it_warms_up_and_without_decay() -> None:
    average = MovingAverage(AdaptiveSettings(alpha=0.5, decay_ms=0, warmup_ms=100, initial=8.0), 0)
    average.add(0, 50)
    assert average.at(99) == 8
    average.add(0, 100)
    assert average.at(1e9) == 4


def test_nothing_is_measured_unless_asked_for() -> None:
    stats = ServerStats()
    assert not stats.collects
    assert stats.rank(0) is None
    stats.apply(settings(enable__stats__collection="true"))
    assert stats.collects
    assert stats.rank(0) is None  # measured, but replicas are taken in turn


def test_scores() -> None:
    stats = ServerStats()
    stats.apply(settings(type="hybrid", ewma__alpha="1.0", hybrid__score__queue__floor="1"))
    for _ in range(2):
        stats.sent("a", 0)
    stats.ended("a", 30, 0)
    shown = stats.snapshot(0)
    assert shown == {
        "a": {
            "numInFlightRequests": 1,
            "inFlightRequestsEMA": 2.0,
            "latencyEMA": 30.0,
            "hybridScore": (1 + 1 + 2) ** 3 * 30.0,
        }
    }
    rank = stats.rank(0)
    assert rank is not None
    assert rank("a") == 1920
    assert rank("unknown") == (1 + 0 + 1) ** 3 * 1.0
    stats.apply(settings(type="NUM_INFLIGHT_REQ"))
    assert stats.snapshot(0) == {}  # begun anew
    stats.sent("a", 0)
    stats.sent("a", 0)
    stats.sent("b", 0)
    busy = stats.rank(0)
    assert busy is not None
    assert (busy("a"), busy("b"), busy("c")) == (2, 1, 0)


@pytest.mark.parametrize("kind", ["LATENCY", "HYBRID"])
def test_slow_servers_are_asked_less(kind: str) -> None:
    """Three servers, one ten times slower; a query every 5 ms takes as long as its server needs."""
    rng = random.Random(3)
    stats = ServerStats()
    stats.apply(settings(type=kind))
    slowness = {"a": 20.0, "b": 20.0, "slow": 200.0}
    under_way: list[tuple[float, float, str]] = []
    asked: Counter[str] = Counter()
    for number in range(2000):
        now_ms = number * 5.0
        for ends_ms, took_ms, server in [one for one in under_way if one[0] <= now_ms]:
            stats.ended(server, took_ms, ends_ms)
        under_way = [one for one in under_way if one[0] > now_ms]
        server = Turn(number, rank=stats.rank(now_ms)).take(("a", "b", "slow"))
        took_ms = slowness[server] * rng.uniform(0.5, 1.5)
        stats.sent(server, now_ms)
        under_way.append((now_ms + took_ms, took_ms, server))
        asked[server] += 1
    assert asked["slow"] < 100
    if kind == "HYBRID":  # by latency alone all go to the one that was fastest
        assert min(asked["a"], asked["b"]) > 600


def test_a_server_is_down_until_it_is_reached() -> None:
    failures = FailureDetector()
    assert failures.failed("a")
    assert not failures.failed("a")
    assert failures.down == {"a"}
    waits = [failures.retry_s("a") for _ in range(12)]
    assert waits[:4] == [FIRST_RETRY_S, 2 * FIRST_RETRY_S, 4 * FIRST_RETRY_S, 8 * FIRST_RETRY_S]
    assert waits[-1] == LONGEST_RETRY_S
    failures.recovered("a")
    assert failures.down == frozenset()
    assert failures.failed("a")
    assert failures.retry_s("a") == FIRST_RETRY_S
