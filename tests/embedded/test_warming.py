"""Kernels that the warm-up omits are compiled by a child process, which ends with its parent."""

import subprocess
import sys
import threading

import pytest
from tests.waiting import PATIENCE_S, eventually

from gamay.kernels.catalog import compiling
from gamay.roles import warming
from gamay.roles.warming import Warming


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list["subprocess.Popen[bytes]"]:
    """The processes that were started, which would sleep for a minute."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> list["subprocess.Popen[bytes]"]:
        started.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]))
        return started[-1:]

    monkeypatch.setattr("gamay.server.warmup.queries.warm_up", lambda **_: 0.0)
    monkeypatch.setattr(compiling, "start", start)
    monkeypatch.setattr(warming, "_LOOK_S", 0.01)
    return started


def ended() -> bool:
    return "warm-up" not in [thread.name for thread in threading.enumerate()]


def test_it_is_ready_while_the_rest_is_compiled_and_stops_that(
    monkeypatch: pytest.MonkeyPatch, children: list["subprocess.Popen[bytes]"]
) -> None:
    monkeypatch.setattr(compiling, "is_compiled", lambda: False)
    warm = Warming()
    warm.start()
    assert warm.wait(PATIENCE_S)
    eventually(lambda: len(children) == 1)
    assert children[0].poll() is None
    warm.stop()
    eventually(ended)
    assert children[0].returncode is not None


def test_nothing_is_compiled_twice(monkeypatch: pytest.MonkeyPatch, children: list["subprocess.Popen[bytes]"]) -> None:
    monkeypatch.setattr(compiling, "is_compiled", lambda: True)
    warm = Warming()
    warm.start()
    assert warm.wait(PATIENCE_S)
    eventually(ended)
    assert children == []
