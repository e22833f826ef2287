"""Random queries against a row-by-row evaluator: every answer, with its types, order and statistics, however it is stored.

GAMAY_GENERATED_QUERIES=20000 checks so many; what disagrees is told by its seed.
"""

import math
import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.reference_evaluator.generator import generate
from tests.reference_evaluator.tables import TABLES, VARIANTS, Table, comparable
from tests.reference_evaluator.tree import Expected, Statement, hashable

from gamay.base.clock import SYSTEM_CLOCK
from gamay.query.bind import bind
from gamay.query.deadline import Deadline
from gamay.query.execute import execute
from gamay.query.pool import WorkPool
from gamay.query.reduce import Answer, reduce
from gamay.sql.parser import PlanCache, parse_query

QUERIES = int(os.environ.get("GAMAY_GENERATED_QUERIES", "240"))
CHUNK = 40
FAILURES_SHOWN = 5


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
        """Run a query on one form of the table, as two servers."""
        bound = bind(parse_query(sql, plans=self.plans), table.schema)
        deadline = Deadline.after_ms(120_000, SYSTEM_CLOCK)
        segments = table.variants[variant]
        parts = (segments[:2], segments[2:])
        return reduce(bound, [execute(bound, part, self.pools[threads - 1], deadline, "host-1") for part in parts])


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with ExitStack() as stack:
        pools = (stack.enter_context(WorkPool(1)), stack.enter_context(WorkPool(2)))
        yield Engine(tmp_path_factory.mktemp("reference"), pools)


def is_close(found: Any, expected: Any) -> bool:
    """Tell whether two values are equal: doubles to nine digits, since sums depend on the order of addition."""
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(is_close, found, expected))
    if isinstance(found, bool) or isinstance(expected, bool):
        return found is expected
    if isinstance(found, float) and isinstance(expected, float):
        if found != found or expected != expected:
            return found != found and expected != expected
        return found == expected or math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-6)
    return type(found) is type(expected) and bool(found == expected)


def compare_rows(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the found rows that are not among the expected ones, each of which counts once."""
    missing = Counter(map(_key, expected))
    doubtful = []
    for row in found:
        key = _key(row)
        if missing[key] > 0:
            missing[key] -= 1
        else:
            doubtful.append(row)
    if not doubtful:
        return []
    left = list((missing & Counter(map(_key, expected))).elements())
    originals: dict[Any, list[tuple[Any, ...]]] = {}
    for row in expected:
        originals.setdefault(_key(row), []).append(row)
    candidates = [originals[key][0] for key in left]
    wrong = []
    for row in doubtful:
        near = next((i for i, one in enumerate(candidates) if all(map(is_close, row, one))), None)
        if near is None:
            wrong.append(row)
        else:
            del candidates[near]
    return wrong


def _key(row: tuple[Any, ...]) -> Any:
    return tuple((type(value).__name__, hashable(value)) for value in row)


def check_rows(found: list[tuple[Any, ...]], expected: Expected) -> None:
    """Check that the rows are those of the window, in an order that the query allows."""
    total = sum(map(len, expected.runs))
    first, last = min(expected.offset, total), min(expected.offset + expected.limit, total)
    assert len(found) == last - first, f"{len(found)} rows instead of {last - first}"
    start = 0
    for run in expected.runs:
        begin, end = max(start, first), min(start + len(run), last)
        if begin < end:
            wrong = compare_rows(found[begin - first : end - first], run)
            assert not wrong, f"{wrong[:3]} should not be at {begin}..{end}; one of {run[:3]}"
        start += len(run)


def check_statistics(table: Table, statement: Statement, expected: Expected, answer: Answer) -> None:
    """Check the counters: all documents, and those that the filter lets through."""
    stats = answer.stats
    assert stats.total_docs == len(table.rows)
    if statement.kind == "selection" and not statement.order:
        wanted = min(expected.matched, statement.offset + expected.limit)
        assert wanted <= stats.num_docs_scanned <= expected.matched or not wanted
    elif statement.kind == "selection" or (statement.kind == "distinct" and not statement.order):
        assert stats.num_docs_scanned <= expected.matched
    elif not any(one.where for one in statement.aggregates):
        assert stats.num_docs_scanned == expected.matched, f"{stats.num_docs_scanned} scanned, {expected.matched} match"


def check(engine: Engine, table: Table, seed: int, nulls: bool) -> str | None:
    """Run the query of a seed on two forms of the table; returns what is wrong, or None."""
    statement = generate(table, seed, nulls)
    sql = statement.text(table.name)
    stage = "evaluator"
    try:
        expected = statement.answer(table.rows if nulls else table.filled)
        stage = "parse"
        assert parse_query(sql, plans=engine.plans) == parse_query(sql, plans=PlanCache())
        for variant in random.Random(seed).sample(VARIANTS, 2):
            stage = f"{variant} with {1 + seed % 2} threads"
            answer = engine.answer(table, sql, variant, 1 + seed % 2)
            assert answer.table is not None
            types = [f"{name}_ARRAY" if many else name for name, many in expected.types]
            assert list(answer.table.types) == types, f"{answer.table.types} instead of {types}"
            check_rows([tuple(map(comparable, row)) for row in answer.table.rows()], expected)
            check_statistics(table, statement, expected, answer)
            stage = f"EXPLAIN on {variant}"
            plan = engine.answer(table, statement.text(table.name, "EXPLAIN PLAN FOR "), variant, 1)
            assert plan.table is not None
            assert plan.table.num_rows > 1
    except Exception as reason:  # noqa: BLE001 - told with the query
        return f"{table.name}, seed {seed}, nulls {nulls}, {stage}: {type(reason).__name__}: {str(reason)[:700]}\n  {sql}"
    return None


@pytest.mark.parametrize("nulls", [False, True], ids=["defaults", "nulls"])
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("first", range(0, QUERIES // 4, CHUNK))
def test_generated_queries_agree(engine: Engine, first: int, name: str, nulls: bool) -> None:
    failures = []
    for seed in range(first, min(first + CHUNK, QUERIES // 4)):
        wrong = check(engine, engine.table(name), seed, nulls)
        if wrong is not None:
            failures.append(wrong)
    assert not failures, f"{len(failures)} disagree:\n" + "\n\n".join(failures[:FAILURES_SHOWN])
