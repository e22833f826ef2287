"""A query ends at its deadline at any point of the work above the leaves."""

import time
from collections.abc import ItemsView
from pathlib import Path

import pyarrow as pa
import pytest

from gamay.base.errors import ErrorCode, QueryError
from gamay.query.limits.spill_files import SpillSpace
from gamay.relational.engine import Engine

LONG = "SELECT max(hash(a.range, b.range)) FROM range(300000) a, range(300000) b"


class Over:
    """A deadline that has passed, for as long as it is."""

    def __init__(self, is_over: bool = True) -> None:
        self.is_over = is_over

    def check(self) -> None:
        """Raise QueryError."""
        if self.is_over:
            raise QueryError(ErrorCode.EXECUTION_TIMEOUT, "over")


class Slow(dict[str, pa.Table]):
    """Tables that are slow to register: the connection is idle meanwhile."""

    def items(self) -> ItemsView[str, pa.Table]:
        time.sleep(0.2)
        return super().items()


@pytest.mark.parametrize("tables", [{}, Slow()])
def test_a_query_ends_although_nothing_ran_when_its_time_was_up(tables: dict[str, pa.Table], tmp_path: Path) -> None:
    engine = Engine(1, SpillSpace(tmp_path / "spill"))
    with pytest.raises(QueryError, match="over"):
        engine.run(LONG, tables, (), 1 << 28, Over())  # type: ignore[arg-type]  # it would take minutes
    found, _ = engine.run("SELECT 7 AS n", {}, (), 1 << 28, Over(False))  # type: ignore[arg-type]
    assert found.to_pylist() == [{"n": 7}]  # the connection is as it was
    engine.close()
