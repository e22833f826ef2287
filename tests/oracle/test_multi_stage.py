"""Queries of one table have the same meaning with `useMultistageEngine`, except as documented in `docs/guide/joins.md`."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.oracle.conftest import SCHEMA, Oracle, comparable
from tests.oracle.test_generated_queries import VARIANTS, Case, check, generate
from tests.seeds import by_first, chunks, count_of

from gamay.base.clock import SYSTEM_CLOCK
from gamay.functions.expression import Call, Expression
from gamay.functions.registry import ValueType
from gamay.model.schema.schema import Schema
from gamay.model.types import DataType
from gamay.query.answer.response import ResultTable
from gamay.query.bind.binder import bind
from gamay.query.execute.executor import execute as execute_leaf
from gamay.query.limits.deadline import Deadline
from gamay.query.limits.spill_files import SpillSpace
from gamay.query.reduce.merge import reduce
from gamay.query.stats import QueryStats
from gamay.relational.engine import Engine
from gamay.relational.execute import ExecutionContext, execute, prepare
from gamay.relational.names import Frame, columns_of
from gamay.relational.profile import Profile
from gamay.sql.parser import parse_query
from gamay.sql.query import Query

# what is an error of exact arithmetic, where DOUBLE goes on
_STRICT = ("does not fit", "division of whole numbers by zero", "divided by zero", "cannot be read as")
_NO_DOUBLES = re.compile(r'"([fl])"\)? [*+-] \w*\(?"\1"')


class OneTable:
    """Catalog of the table of the oracle."""

    def columns(self, table: str) -> Mapping[str, ValueType]:
        return columns_of(SCHEMA)

    def schemas(self) -> Mapping[str, Schema]:
        return {"t1": SCHEMA}

    def map_values(self, table: str) -> Mapping[str, DataType]:
        return {}

    def frame(self, name: str) -> Frame | None:
        return None

    def size(self, table: str) -> int:
        return 200

    def answer(self, call: Call) -> Expression:
        raise AssertionError(call)


class MultiStage:
    """The oracle, queried with `useMultistageEngine`."""

    def __init__(self, oracle: Oracle, engine: Engine) -> None:
        self._oracle = oracle
        self._engine = engine
        self.duck_rows = oracle.duck_rows

    def rows(self, sql: str, variant: str = "plain") -> list[tuple[Any, ...]]:
        query = parse_query(sql, {"useMultistageEngine": "true"})
        assert query.relational is not None
        nulls = query.options.get("enableNullHandling") == "true"
        deadline = Deadline.after_ms(60_000, SYSTEM_CLOCK)

        def ask(leaf: Query) -> tuple[ResultTable, QueryStats]:
            bound = bind(replace(leaf, options=query.options), SCHEMA)
            segments = self._oracle.variants[variant]
            parts = (segments[:2], segments[2:])
            results = [execute_leaf(bound, part, self._oracle.pool, deadline, "host-1") for part in parts]
            found = reduce(bound, results)
            assert found.table is not None
            return found.table, found.stats

        prepared = prepare(query.relational, OneTable(), null_handling=nulls)
        clock, profile = SYSTEM_CLOCK.monotonic_s, Profile()
        table = execute(
            prepared, ExecutionContext(ask, lambda table: SCHEMA, self._engine, 1 << 28, deadline, clock, profile)
        )
        return [tuple(comparable(value) for value in row) for row in table.rows()]


@pytest.fixture(scope="module")
def multi_stage(oracle: Oracle) -> Iterator[MultiStage]:
    engine = Engine(2, SpillSpace())
    yield MultiStage(oracle, engine)
    engine.close()


def _differs(case: Case, *, nulls: bool) -> bool:
    """Whether a query has another meaning there.

    Whole numbers are divided, what is computed of FLOAT or LONG alone stays so, or the query asks for nulls that only tables
    know without null handling.
    """
    return " / " in case.gamay or _NO_DOUBLES.search(case.gamay) is not None or (not nulls and "__null" in case.duck)


def _disagreement(multi_stage: MultiStage, case: Case, variant: str) -> str | None:
    # aggregates of no rows are null there
    duck = re.sub(r", ('-?Infinity'|0)::DOUBLE\)", ", NULL)", case.duck)
    try:
        check(multi_stage, replace(case, duck=duck), variant)
    except Exception as reason:  # noqa: BLE001 - collected
        if any(word in str(reason) for word in _STRICT):
            return None
        return f"{type(reason).__name__}: {str(reason)[:600]}\n  {case.gamay}\n  {case.duck}"
    return None


@pytest.mark.parametrize("nulls", [False, True], ids=["defaults", "nulls"])
@pytest.mark.parametrize("some", chunks(count_of("GAMAY_MULTI_STAGE_QUERIES", 200), 50), ids=by_first)
def test_generated_queries_agree(multi_stage: MultiStage, some: range, nulls: bool) -> None:
    failures = []
    for seed in some:
        case = generate(seed, nulls)
        found = None if _differs(case, nulls=nulls) else _disagreement(multi_stage, case, VARIANTS[seed % len(VARIANTS)])
        if found is not None:
            failures.append(f"seed {seed}: {found}")
    assert not failures, "\n\n".join([f"{len(failures)} of {len(some)}", *failures[:40]])
