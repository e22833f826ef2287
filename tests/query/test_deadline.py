"""A query's deadline excludes time spent compiling kernels."""

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numba import njit

from gamay.base import guard
from gamay.base.clock import ManualClock
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.convert import by_distinct
from gamay.functions.expression import Column
from gamay.functions.vector import Vector
from gamay.kernels.jit import compiling_s
from gamay.model.types import DataType
from gamay.query.bind.binder import SortKey
from gamay.query.groupby import ordering
from gamay.query.groupby.merge import merge_group_tables, merge_partials, regroup
from gamay.query.groupby.table import GroupTable
from gamay.query.limits.deadline import CancellableDeadline, Deadline


def test_a_deadline_passes_when_its_time_is_over() -> None:
    clock = ManualClock()
    deadline = Deadline.after_ms(1_000, clock)
    clock.advance(0.999)
    deadline.check()
    clock.advance(0.001)
    with pytest.raises(QueryError, match="longer than its 1000 ms") as raised:
        deadline.check()
    assert raised.value.code is ErrorCode.EXECUTION_TIMEOUT


def test_the_time_of_compiling_is_added_to_a_deadline() -> None:
    clock = ManualClock()
    deadline = Deadline.after_ms(1_000, clock)
    compiled_s, began_s = compiling_s(), time.monotonic()
    assert njit(lambda values: values.sum() + 1)(np.ones(3)) == 4
    passed_s = time.monotonic() - began_s
    compiled_s = compiling_s() - compiled_s
    assert 0 < compiled_s <= passed_s
    clock.advance(1 + compiled_s * 0.9)
    deadline.check()
    clock.advance(compiled_s * 0.2)
    with pytest.raises(QueryError, match="longer than its 1000 ms"):
        deadline.check()


class Merging:
    """An aggregate that notes that it is merged, and cancels the query then."""

    def __init__(self, deadline: CancellableDeadline) -> None:
        self.deadline = deadline
        self.merged = 0

    def merge(self, partials: list[Any], maps: list[Any], num_groups: int) -> Any:
        self.merged += 1
        self.deadline.cancel()
        return partials[0]


@pytest.fixture
def deadline() -> Iterator[CancellableDeadline]:
    made = CancellableDeadline(ManualClock(), 10, 10_000)
    before = guard.enter(made)
    yield made
    guard.enter(before)


@pytest.mark.parametrize("how", ["tables", "fewer keys", "one group"])
def test_merging_ends_between_its_steps(deadline: CancellableDeadline, how: str) -> None:
    aggregates = [Merging(deadline), Merging(deadline)]
    calls: Any = [SimpleNamespace(aggregate=aggregate) for aggregate in aggregates]
    keys = tuple(Vector(DataType.INT, np.arange(start, start + 3, dtype=np.int32)) for start in (0, 5))
    tables = [GroupTable(keys, ((), ()), 3), GroupTable(keys, ((), ()), 3)]
    steps: dict[str, Callable[[], object]] = {
        "tables": lambda: merge_group_tables(tables, calls),
        "fewer keys": lambda: regroup(tables[0], (1,), calls),
        "one group": lambda: merge_partials([table.partials for table in tables], calls),
    }
    with pytest.raises(QueryError, match="was cancelled"):
        steps[how]()
    assert [aggregate.merged for aggregate in aggregates] == [1, 0]


def test_groups_are_not_sorted_any_further_when_the_query_has_ended(
    deadline: CancellableDeadline, monkeypatch: pytest.MonkeyPatch
) -> None:
    sorted_further: list[object] = []
    monkeypatch.setattr(ordering, "candidates", lambda *_: deadline.cancel())
    monkeypatch.setattr(ordering, "top_rows", lambda *given: sorted_further.append(given))
    columns = [Column("a"), Column("b")]
    operands = {column.name: Vector(DataType.INT, np.arange(3, dtype=np.int32)) for column in columns}
    with pytest.raises(QueryError, match="was cancelled"):
        ordering._order([SortKey(column, False, True) for column in columns], operands, 3, 1)
    assert sorted_further == []


def test_functions_of_many_values_end_between_them(deadline: CancellableDeadline) -> None:
    seen: list[str] = []

    def shouted(value: str) -> str:
        seen.append(value)
        deadline.cancel()
        return value.upper()

    with pytest.raises(QueryError, match="was cancelled"):
        by_distinct(pa.array([f"v{i}" for i in range(20_000)]), shouted, DataType.STRING)
    assert len(seen) < 10_000
