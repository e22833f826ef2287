"""Data from another process is decoded, or refused with a query error; no other exception occurs."""

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.query.many_groups import SCHEMA

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import QueryError
from gamay.model.types import DataType
from gamay.query.bind.binder import bind
from gamay.query.execute.server_result import ServerResult
from gamay.query.stats import QueryStats
from gamay.query.wire.request import ReceivedStatements, _literal, decode_request_header, encode_query
from gamay.query.wire.result import encode_result, receive
from gamay.sql.parser import parse_query

BOUND = bind(parse_query("SELECT k, COUNT(*) FROM many GROUP BY k"), SCHEMA)
HEADER = bytes(encode_result(BOUND, ServerResult(QueryStats()), ("a missing segment",))[0])


QUERY = bind(
    parse_query(
        "SELECT k, CASE WHEN d > 1.5 THEN 'x' END, SUM(d) FROM many WHERE k IN (1, 2) OR d < 1e30 "
        "GROUP BY 1, 2 HAVING COUNT(*) > 1 ORDER BY 3 DESC LIMIT 5"
    ),
    SCHEMA,
)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes = HEADER) -> bytes:
    sent = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        sent[draw(st.integers(0, len(sent) - 1))] = draw(st.integers(0, 255))
    return bytes(sent[: draw(st.integers(0, len(sent)))]) if draw(st.booleans()) else bytes(sent)


@given(st.one_of(damaged(), st.binary(max_size=60)))
@settings(max_examples=400, deadline=None)
def test_damaged_headers_are_refused_or_read(data: Any) -> None:
    with contextlib.suppress(QueryError):
        receive([memoryview(data)]).result(BOUND, SYSTEM_CLOCK)
    with contextlib.suppress(QueryError):
        decode_request_header(memoryview(data))


@pytest.mark.parametrize(
    "data_type", [DataType.INT, DataType.LONG, DataType.DOUBLE, DataType.BIG_DECIMAL, DataType.BOOLEAN, DataType.TIMESTAMP]
)
def test_literals_whose_value_is_not_of_their_type_are_refused(data_type: DataType) -> None:
    with pytest.raises((TypeError, ValueError, ArithmeticError)):
        _literal(data_type, "^a")


@given(damaged(encode_query(QUERY)[0]), damaged(encode_query(QUERY)[1]))
@settings(max_examples=400, deadline=None)
def test_damaged_queries_are_refused_or_bound(template: bytes, values: bytes) -> None:
    sound = encode_query(QUERY)
    for sent in ((template, sound[1]), (sound[0], values)):
        with contextlib.suppress(QueryError):
            ReceivedStatements().bind(*sent)
