"""Random queries sent to servers as buffers: the same answers and counters as in one process."""

from typing import Any

import pytest
from tests.reference_evaluator.conftest import Engine
from tests.reference_evaluator.generator import generate
from tests.reference_evaluator.tables import TABLES, VARIANTS
from tests.seeds import by_first, chunks, count_of

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import QueryError
from gamay.query.answer.response import encode_rows
from gamay.query.bind.binder import BoundQuery, bind
from gamay.query.execute.executor import execute
from gamay.query.execute.server_result import ServerResult
from gamay.query.limits.deadline import Deadline
from gamay.query.reduce.merge import Answer, reduce
from gamay.query.wire.request import ReceivedStatements, encode_query
from gamay.query.wire.result import encode_result, receive
from gamay.segment.spi import Segment
from gamay.sql.parser import parse_query

QUERIES = count_of("GAMAY_GENERATED_QUERIES", 240)
CHUNK = 40


def deadline() -> Deadline:
    return Deadline.after_ms(120_000, SYSTEM_CLOCK)


def over_the_wire(
    engine: Engine, statements: ReceivedStatements, bound: BoundQuery, segments: "list[Segment]"
) -> tuple[ServerResult, BoundQuery]:
    """Execute on the other side of buffers that were copied, as a socket copies them."""
    template, values = encode_query(bound)
    _, received = statements.bind(template, values)
    result = execute(received, segments, engine.pools[0], deadline(), "host-1")
    sent = [memoryview(bytearray(buffer)) for buffer in encode_result(received, result, ["lost"])]
    again = receive(sent)
    assert again.missing == ("lost",)
    return again.result(bound, SYSTEM_CLOCK), received


def comparable(answer: Answer) -> Any:
    table = answer.table
    assert table is not None
    stats = {name: getattr(answer.stats, name) for name in answer.stats.__slots__ if "cpu_time" not in name}
    return table.names, table.types, [encode_rows([column]) for column in table.columns], stats


def check(engine: Engine, statements: ReceivedStatements, sql: str, table: Any, variant: str) -> None:
    segments = table.variants[variant]
    bound = bind(parse_query(sql, plans=engine.plans), table.schema)
    parts = (segments[:2], segments[2:])
    here = reduce(bound, [execute(bound, part, engine.pools[0], deadline(), "host-1") for part in parts])
    received = [over_the_wire(engine, statements, bound, part) for part in parts]
    there = reduce(bound, [result for result, _ in received])
    assert comparable(there) == comparable(here), sql
    for _, again in received:
        for name in ("kind", "filter", "rows", "row_types", "outputs", "order_by", "having", "limit", "offset"):
            assert getattr(again, name) == getattr(bound, name), (sql, name)
        assert list(again.fields) == list(bound.fields)


@pytest.mark.parametrize("some", chunks(QUERIES, CHUNK), ids=by_first)
def test_queries_travel(engine: Engine, some: range) -> None:
    statements = ReceivedStatements()
    names = sorted(TABLES)
    for seed in some:
        table = engine.table(names[seed % len(names)])
        nulls = seed % 3 == 0
        sql = generate(table, seed, nulls).text(table.name)
        variant = VARIANTS[seed % len(VARIANTS)]
        if nulls and "enableNullHandling" not in sql:
            sql = f"SET enableNullHandling=true; {sql}"
        try:
            bind(parse_query(sql, plans=engine.plans), table.schema)
        except QueryError:
            continue
        check(engine, statements, sql, table, variant)
        check(engine, statements, sql, table, variant)  # the template is known now


@pytest.mark.parametrize("option", ["", "SET autoRewriteAggregationType = true; "])
def test_aggregates_of_a_column_and_a_constant_travel(engine: Engine, option: str) -> None:
    """Servers aggregate what the broker then computes with, whether the column has an alias or not."""
    statements, table = ReceivedStatements(), engine.table("flights")
    first, second = (
        "sum(arr_delay + {}), min(dep_delay * -{}), max({} - arr_delay)",
        "sum(arr_delay + {}) AS x, avg({} - day)",
    )
    for select in (first, second):
        for constant in (1, 0, 2.5):
            sql = f"{option}SELECT {select.format(constant, constant, constant)} FROM {table.name} WHERE month < {constant}"
            check(engine, statements, sql, table, VARIANTS[0])
