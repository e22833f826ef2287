"""The history that a process keeps of its measurements and log lines."""

import logging
from collections.abc import Iterator

import pytest

from gamay.base.clock import ManualClock
from gamay.base.errors import InvalidConfigError
from gamay.base.history import KEPT, MetricsHistory, Reading, Series
from gamay.base.log_memory import LINES_MAX, LogMemory
from gamay.base.metrics import Histogram, Measured, MetricKind

SERIES = (
    Series("perSecond", "asked", Reading.RATE),
    Series("all", "size", Reading.SUM),
    Series("worst", "size", Reading.MAX),
    Series("median", "took", Reading.MEDIAN_MS),
    Series("p99", "took", Reading.P99_MS),
)


class Role:
    """A role with measurements set by the test."""

    def __init__(self) -> None:
        self.asked = {"t": 0.0}
        self.sizes = {"a": 1.0, "b": 4.0}
        self.took = Histogram()
        self.clock = ManualClock()
        self.history = MetricsHistory([self.measure], SERIES, self.clock)

    def measure(self) -> Iterator[Measured]:
        for table, number in self.asked.items():
            yield Measured("asked", number, "", {"table": table}, MetricKind.COUNTER)
        for table, size in self.sizes.items():
            yield Measured("size", size, "", {"table": table})
        yield self.took.measured("took", "", {})

    def step(self, seconds: float = 10) -> None:
        self.clock.advance(seconds)
        self.history.sample()

    def series(self, minutes: int = 60, points: int = KEPT) -> dict[str, list[float | None]]:
        found: dict[str, list[float | None]] = self.history.told(minutes, points)["series"]
        return found


def test_rates_and_percentiles_are_of_the_time_since_the_last_point() -> None:
    role = Role()
    role.step()
    assert [role.series()[name] for name in ("perSecond", "median", "p99")] == [[None], [None], [None]]
    assert (role.series()["all"], role.series()["worst"]) == ([5.0], [4.0])
    role.asked = {"t": 30, "new": 20}  # a table that is asked for the first time counts as well
    for _ in range(50):
        role.took.observe(0.0008)
        role.took.observe(0.2)
    role.step()
    assert role.series()["perSecond"] == [None, 5.0]
    assert role.series()["median"][1] == pytest.approx(1.0)  # the end of the bucket from 0.5 to 1 ms
    assert role.series()["p99"][1] == pytest.approx(247.0)  # 49 of 50 in the bucket from 100 to 250 ms
    role.asked = {"new": 10}  # one table was removed, another one was reset
    role.step(20)
    assert role.series()["perSecond"][2] == 0.5
    assert role.series()["median"][2] is None  # nothing was asked


def test_what_is_remembered_is_bounded_and_put_together_for_who_asks() -> None:
    role = Role()
    for number in range(KEPT + 10):
        role.sizes = {"a": float(number % 4)}
        role.step(15)
    told = role.history.told(6 * 60, KEPT)
    assert len(told["timesMs"]) == KEPT
    assert told["stepSeconds"] == 15
    assert len(role.history.told(1, KEPT)["timesMs"]) == 4
    few = role.history.told(6 * 60, 360)
    assert few["stepSeconds"] == 60
    assert set(few["series"]["worst"]) == {3.0}
    assert set(few["series"]["all"]) == {1.5}
    assert few["timesMs"][-1] == role.clock.now_ms()


def test_the_process_tells_its_memory_and_processors() -> None:
    role = Role()
    role.step()
    role.step()
    assert role.series()["memoryBytes"][1] > 1 << 20  # type: ignore[operator]
    assert role.series()["processors"][1] is not None


def test_the_last_lines_of_the_log_are_kept() -> None:
    memory, log = LogMemory(), logging.getLogger("gamay.broker.some")
    log.addHandler(memory)
    try:
        log.warning("first of %s", "trips_OFFLINE")
        try:
            raise ValueError("of all things")
        except ValueError:
            log.exception("second")
        (first, second) = memory.told("WARN", 10, "")["lines"]
        assert (first["message"], first["table"], first["role"]) == ("first of trips_OFFLINE", "trips_OFFLINE", "broker")
        assert "of all things" in second["exception"]
        assert memory.told("error", 10, "")["lines"] == [second]
        assert memory.told("WARN", 10, "TRIPS")["lines"] == [first]
        assert memory.told("WARN", 1, "")["lines"] == [second]
        with pytest.raises(InvalidConfigError, match="Unrecognized logger level: 'LOUD'"):
            memory.told("LOUD", 1, "")
        for number in range(LINES_MAX):
            log.warning("%d%s", number, "x" * 10_000)
        lines = memory.told("WARN", 10**6, "")["lines"]
        assert len(lines) == LINES_MAX
        assert lines[0]["message"].startswith("0x")
        assert max(len(line["message"]) for line in lines) == 2000
    finally:
        log.removeHandler(memory)
