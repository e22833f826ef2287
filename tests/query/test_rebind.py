"""Binding a query of a known shape equals binding it from scratch, for any literals."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.base.errors import QueryError
from gamay.functions.expression import Call, Column
from gamay.functions.scalar.table.joined import encoded_keys, found_in
from gamay.model.schema.schema import Schema
from gamay.query.bind.binder import bind
from gamay.query.prepared.statements import Statements
from gamay.sql.parser import parse_query

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "i", "dataType": "INT"},
            {"name": "Big", "dataType": "LONG"},
            {"name": "s", "dataType": "STRING"},
            {"name": "tags", "dataType": "STRING", "singleValueField": False},
            {"name": "b", "dataType": "BOOLEAN"},
        ],
        "metricFieldSpecs": [{"name": "d", "dataType": "DOUBLE"}],
        "dateTimeFieldSpecs": [
            {"name": "ts", "dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP", "granularity": "1:MILLISECONDS"}
        ],
    }
).value
COLUMNS = ("i", "big", "t.s", "tags", "b", "d", "ts", "nothing")
LITERALS = st.one_of(
    st.integers(-(1 << 70), 1 << 70).map(str),
    st.integers(-3, 3).map(str),
    st.floats(-1e3, 1e3).map(lambda value: f"{value:.3f}"),
    st.sampled_from(["'a'", "'x''y'", "'1'", "'2024-01-02 03:04:05'", "TRUE", "FALSE", "NULL", "''"]),
)
TESTS = (
    "{c} = {a}",
    "{c} <> {a}",
    "{c} < {a}",
    "{c} >= {a}",
    "{a} < {c}",
    "{c} BETWEEN {a} AND {b}",
    "{c} IN ({a}, {b})",
    "{c} NOT IN ({a})",
    "NOT {c} = {a}",
    "{c} + 1 > {a}",
    "{c} < {a} + {b}",
    "{c} >= {a} AND {c} < {b}",
    "{c} IS NULL",
    "{c} LIKE '{c}%'",
    "({c} = {a} OR {c} = {b})",
)
LEAVES = st.lists(st.tuples(st.sampled_from(TESTS), st.sampled_from(COLUMNS)), min_size=1, max_size=4)


def test_keys_of_small_tables_are_a_pattern_too() -> None:
    statements = Statements(SCHEMA)
    query = parse_query("SELECT s FROM t WHERE big > 1 AND i = 2")
    assert query.shape is not None
    shape = query.shape.plus("key of a small table")
    for keys in ([1, 5], [4, 900_000], [7]):
        found = found_in(encoded_keys(pa.array(keys)), Column("I"))
        for name in ("false", "true"):
            where = Call("and", (query.where, found)) if query.where is not None else found
            asked = replace(query, where=where, options={"enableNullHandling": name})
            asked.shape, asked.varies_only_in_where = shape, True
            assert statements.bind(asked)[1].filter == bind(asked, SCHEMA).filter
    statement = statements.find(shape, {"enableNullHandling": "true"})
    assert statement is not None
    assert statement._pattern is not None


def outcome(function: Any) -> tuple[str, Any]:
    """Return the result of a call: a bound query, or the message of its error."""
    try:
        bound = function()
    except QueryError as error:
        return "refused", error.client_message()
    return "bound", (bound.filter, bound.names, bound.types, bound.limit, bound.fields, bound.query)


@given(LEAVES, st.data(), st.sampled_from(["", "SET enableNullHandling=true; "]))
def test_a_known_shape_binds_as_an_unknown_one(leaves: list[tuple[str, str]], data: st.DataObject, options: str) -> None:
    statements = Statements(SCHEMA)
    for _ in range(3):
        parts = [leaf.format(c=column, a=data.draw(LITERALS), b=data.draw(LITERALS)) for leaf, column in leaves]
        text = f"{options}SELECT SUM(d) FROM t WHERE {' AND '.join(parts)}"
        try:
            query = parse_query(text)
        except QueryError:
            return
        found = outcome(lambda query=query: statements.bind(query)[1])
        assert found == outcome(lambda query=query: bind(query, SCHEMA)), text


def test_the_literals_of_another_query_do_not_stay() -> None:
    statements = Statements(SCHEMA)
    for number in (1, 2, 3):
        _, bound = statements.bind(parse_query(f"SELECT i FROM t WHERE i = {number} AND s > 'x{number}' LIMIT 5"))
        assert bound.filter == bind(bound.query, SCHEMA).filter
        assert f"x{number}" in repr(bound.filter)


def test_a_literal_that_cannot_be_compared_is_refused_for_a_known_shape() -> None:
    statements = Statements(SCHEMA)
    statements.bind(parse_query("SELECT i FROM t WHERE i = 1"))
    with pytest.raises(QueryError, match="column 'i'"):
        statements.bind(parse_query("SELECT i FROM t WHERE i = 'one'"))
