"""Random queries against a row-by-row evaluator: every answer, with its types, order and statistics, however it is stored.

GAMAY_GENERATED_QUERIES=20000 checks that many; disagreements are reported by seed.
"""

import random
from typing import Any

import pytest
from tests.reference_evaluator.comparison import compare_rows
from tests.reference_evaluator.conftest import Engine
from tests.reference_evaluator.generator import generate
from tests.reference_evaluator.tables import TABLES, VARIANTS, Table, comparable
from tests.reference_evaluator.tree import Expected, Statement
from tests.seeds import by_first, chunks, count_of

from gamay.query.reduce.merge import Answer
from gamay.sql.parser import PlanCache, parse_query

QUERIES = count_of("GAMAY_GENERATED_QUERIES", 240)
CHUNK = 40
FAILURES_SHOWN = 5


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
    """Check the counters: of all documents, and of those that match the filter."""
    stats = answer.stats
    assert stats.total_docs == len(table.rows)
    if statement.kind == "selection" and not statement.order:
        wanted = min(expected.matched, statement.offset + expected.limit)
        assert wanted <= stats.num_docs_scanned <= expected.matched or not wanted
    elif statement.kind == "selection" or (statement.kind == "distinct" and not statement.order):
        assert stats.num_docs_scanned <= expected.matched
    else:
        assert stats.num_docs_scanned in expected.scanned, f"{stats.num_docs_scanned} scanned instead of {expected.scanned}"


def check(engine: Engine, table: Table, seed: int, nulls: bool) -> str | None:
    """Run the query of a seed on two forms of the table; return the difference, or None."""
    statement = generate(table, seed, nulls)
    sql = statement.text(table.name)
    stage = "evaluator"
    try:
        expected = statement.answer(table.rows if nulls else table.filled)
        stage = "parse"
        if seed % 2:  # the same but for its constants has been compiled before
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
@pytest.mark.parametrize("some", chunks(QUERIES // 4, CHUNK), ids=by_first)
def test_generated_queries_agree(engine: Engine, some: range, name: str, nulls: bool) -> None:
    failures = []
    for seed in some:
        wrong = check(engine, engine.table(name), seed, nulls)
        if wrong is not None:
            failures.append(wrong)
    assert not failures, f"{len(failures)} disagree:\n" + "\n\n".join(failures[:FAILURES_SHOWN])
