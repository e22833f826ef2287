"""What another process sends is read, or refused as an error of the query: nothing else ends it."""

import contextlib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.query.many_groups import SCHEMA

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import QueryError
from gamay.query.bind import bind
from gamay.query.execute import ServerResult
from gamay.query.stats import QueryStats
from gamay.query.wire.request import decode_request_header
from gamay.query.wire.result import encode_result, receive
from gamay.sql.parser import parse_query

BOUND = bind(parse_query("SELECT k, COUNT(*) FROM many GROUP BY k"), SCHEMA)
HEADER = bytes(encode_result(BOUND, ServerResult(QueryStats()), ("a missing segment",))[0])


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    sent = bytearray(HEADER)
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
