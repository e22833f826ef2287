"""The prepared statements that a broker keeps, and their eviction."""

import pytest

from gamay.base.clock import ManualClock
from gamay.base.errors import NotFoundError
from gamay.base.ids import CountingIds
from gamay.broker.flight import statements
from gamay.broker.flight.statements import Statements
from gamay.cluster.access.principals import ANYONE


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Statements:
    monkeypatch.setattr(statements, "SIZE_MAX", 100)
    return Statements(ManualClock(), CountingIds())


def known(kept: Statements, handles: list[bytes]) -> list[bool]:
    def is_known(handle: bytes) -> bool:
        try:
            kept.get(handle, ANYONE)
        except NotFoundError:
            return False
        return True

    return [is_known(handle) for handle in handles]


def test_long_texts_leave_first_come_first(kept: Statements) -> None:
    handles = [kept.create(f"SELECT {'x' * 31}", ANYONE)[0] for _ in range(4)]
    assert known(kept, handles) == [False, False, True, True]
    kept.close(handles[3], ANYONE)
    handles.append(kept.create(f"SELECT {'x' * 31}", ANYONE)[0])
    assert known(kept, handles) == [False, False, True, False, True]
    handles.append(kept.create("SELECT " + "x" * 500, ANYONE)[0])  # alone too large, and yet it can be used
    assert known(kept, handles) == [False] * 5 + [True]


def test_values_that_are_bound_count(kept: Statements) -> None:
    handles = [kept.create("SELECT ?", ANYONE)[0] for _ in range(4)]
    kept.bind(handles[1], ANYONE, [["x" * 60]])
    assert known(kept, handles) == [True] * 4
    kept.bind(handles[3], ANYONE, [["x" * 20], ["y" * 20]])  # 132 in all, until the two leave that were used first
    assert known(kept, handles) == [False, False, True, True]
    kept.bind(handles[3], ANYONE, [["x"]])
    kept.bind(handles[2], ANYONE, [["x" * 80]])
    assert known(kept, handles) == [False, False, True, True]
