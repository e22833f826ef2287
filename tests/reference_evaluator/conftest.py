"""The tables of the generated queries, and functions to query them."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.reference_evaluator.tables import TABLES, Table

from gamay.base.clock import SYSTEM_CLOCK
from gamay.query.bind.binder import bind
from gamay.query.execute.executor import execute
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import Answer, reduce
from gamay.sql.parser import PlanCache, parse_query
from gamay.sql.query import Query


@dataclass
class Engine:
    """The tables, pools of one and two threads, and the plans of all queries so far."""

    folder: Path
    pools: tuple[WorkPool, WorkPool]
    plans: PlanCache = field(default_factory=PlanCache)
    tables: dict[str, Table] = field(default_factory=dict)

    def table(self, name: str) -> Table:
        if name not in self.tables:
            self.tables[name] = TABLES[name](self.folder / name)
        return self.tables[name]

    def answer(self, table: Table, sql: str, variant: str, threads: int) -> Answer:
        """Run a query on one form of the table."""
        return self.answer_query(table, parse_query(sql, plans=self.plans), variant, threads)

    def answer_query(self, table: Table, query: Query, variant: str, threads: int = 1) -> Answer:
        """Run a query on one form of the table, as two servers."""
        bound = bind(query, table.schema)
        deadline = Deadline.after_ms(120_000, SYSTEM_CLOCK)
        segments = table.variants[variant]
        parts = (segments[:2], segments[2:])
        return reduce(bound, [execute(bound, part, self.pools[threads - 1], deadline, "host-1") for part in parts])


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with ExitStack() as stack:
        pools = (stack.enter_context(WorkPool(1)), stack.enter_context(WorkPool(2)))
        yield Engine(tmp_path_factory.mktemp("reference"), pools)
