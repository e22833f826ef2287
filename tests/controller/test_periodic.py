"""The schedule of the controller's periodic tasks."""

import math
import threading

import pytest
from tests.waiting import PATIENCE_S

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import GamayError
from gamay.controller.health.periodic import PeriodicTask, PeriodicTasks
from gamay.model.cluster_settings import RETENTION_FREQUENCY, STATUS_FREQUENCY


@pytest.mark.parametrize(
    ("said", "seconds"), [(None, 6 * 3600), ("1h30m", 5400), ("-1s", math.inf), ("0s", math.inf), ("soon", 6 * 3600)]
)
def test_the_cluster_says_how_often(said: str | None, seconds: float) -> None:
    task = PeriodicTask("RetentionManager", RETENTION_FREQUENCY, lambda: None)
    assert task.interval_s({} if said is None else {RETENTION_FREQUENCY.name: said}) == seconds
    assert PeriodicTask("Other", 2.5, lambda: None).interval_s({}) == 2.5


def test_tasks_run_as_the_settings_say_also_while_those_cannot_be_read() -> None:
    twice, never = threading.Semaphore(0), threading.Event()
    answers = iter([{RETENTION_FREQUENCY.name: "1s", STATUS_FREQUENCY.name: "-1s"}])

    def settings() -> dict[str, str]:
        found = next(answers, None)
        if found is None:
            raise GamayError("the store is away")
        return found

    tasks = PeriodicTasks(
        [PeriodicTask("a", RETENTION_FREQUENCY, twice.release), PeriodicTask("b", STATUS_FREQUENCY, never.set)],
        SYSTEM_CLOCK, settings,
    )  # fmt: skip
    tasks.start()
    try:
        assert twice.acquire(timeout=PATIENCE_S)
        assert twice.acquire(timeout=PATIENCE_S)
    finally:
        tasks.stop()
    assert not never.is_set()
