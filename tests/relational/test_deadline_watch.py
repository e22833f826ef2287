"""One thread watches all connections, and none after their queries have ended."""

import threading
import time

import pytest
from tests.waiting import PATIENCE_S

from gamay.base.errors import ErrorCode, QueryError
from gamay.relational import deadline_watch
from gamay.relational.deadline_watch import DeadlineWatch


class _Deadline:
    def __init__(self, is_over: bool) -> None:
        self.is_over = is_over

    def check(self) -> None:
        if self.is_over:
            raise QueryError(ErrorCode.EXECUTION_TIMEOUT, "over")


class _Connection:
    def __init__(self) -> None:
        self.interrupted = threading.Event()

    def interrupt(self) -> None:
        self.interrupted.set()


def _watchers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "gamay-relational-deadline"}


def test_only_what_is_late_and_goes_on_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline_watch, "_LOOKS_S", 0.001)
    monkeypatch.setattr(deadline_watch, "_STAYS", 3)
    before, watch = _watchers(), DeadlineWatch()
    late, early, ended = _Connection(), _Connection(), _Connection()
    with watch.over(ended, _Deadline(False)):
        pass
    for _ in range(3):  # also after the thread has gone
        late.interrupted.clear()
        with watch.over(early, _Deadline(False)), watch.over(late, _Deadline(True)):
            assert late.interrupted.wait(PATIENCE_S)
            assert len(_watchers() - before) == 1
        late.interrupted.clear()
        until_s = time.monotonic() + 30
        while _watchers() - before and time.monotonic() < until_s:
            time.sleep(0.01)
        assert not _watchers() - before
    assert not any(each.interrupted.is_set() for each in (late, early, ended))
