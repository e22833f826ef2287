"""Long computations can be interrupted: functions of Python values, and expressions over large dictionaries."""

import numpy as np
import pyarrow as pa
import pytest

from gamay.base import guard
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.evaluate import evaluate, evaluate_entries
from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.vector import Vector
from gamay.model.types import DataType
from gamay.query.pool import WorkPool

CANCELLED = QueryError(ErrorCode.QUERY_CANCELLATION, "cancelled")


class AfterSome(guard.NullGuard):
    """Ends the work at the `count`-th check."""

    def __init__(self, count: int) -> None:
        self.left = count

    def check(self) -> None:
        self.left -= 1
        if self.left <= 0:
            raise CANCELLED


@pytest.fixture
def entries() -> Vector:
    return Vector(DataType.STRING, pa.array([f"user-{i}" for i in range(200_000)]))


def test_entries_in_parts_are_those_of_the_whole(entries: Vector) -> None:
    text: Expression = Call("upper", (Column("s"),))
    nulls = np.arange(len(entries)) % 3 == 0
    for given in (entries, Vector(entries.type, entries.values, None, nulls)):
        whole = evaluate(text, lambda _, given=given: given, len(given))  # type: ignore[misc]
        parts = evaluate_entries(text, given)
        assert isinstance(whole, Vector)
        assert isinstance(parts, Vector)
        assert parts.values.equals(whole.values)
        assert (parts.nulls is None) == (whole.nulls is None)
        assert whole.nulls is None or np.array_equal(parts.nulls, whole.nulls)  # type: ignore[arg-type]
    constant = evaluate_entries(Literal(3, DataType.LONG), entries)
    assert not isinstance(constant, Vector)


@pytest.mark.parametrize("name", ["upper", "soundex"])
def test_an_expression_over_a_dictionary_can_be_ended(entries: Vector, name: str) -> None:
    before = guard.enter(AfterSome(3))
    try:
        with pytest.raises(QueryError) as raised:
            evaluate_entries(Call(name, (Column("s"),)), entries)
    finally:
        guard.enter(before)
    assert raised.value is CANCELLED


def test_helpers_work_under_the_guard_of_who_asks_them() -> None:
    watcher = AfterSome(100)
    seen: list[guard.Guard] = []
    before = guard.enter(watcher)
    try:
        with WorkPool(3) as pool:
            pool.run([lambda: seen.append(guard.current()) for _ in range(20)])
            assert pool.helped_ns >= 0
    finally:
        guard.enter(before)
    assert seen == [watcher] * 20
    assert guard.current() is not watcher


def test_where_nobody_watches_nothing_happens() -> None:
    guard.check()
    guard.reserve("rows", 1 << 60)
    holder = guard.holder("rows")
    holder.hold(1 << 60)
    holder.release()
