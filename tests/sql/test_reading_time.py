"""Parsing a long text ends at its query's deadline, for any text."""

from collections.abc import Callable

import pytest

from gamay.base.errors import ErrorCode, QueryError
from gamay.sql.parser import PlanCache, parse_query
from gamay.sql.text.reading_time import reading

TEXTS = {
    "numbers": f"SELECT count(*) FROM t WHERE a IN ({','.join(map(str, range(200_000)))})",
    "texts": f"SELECT count(*) FROM t WHERE a IN ({','.join(map(repr, map(str, range(200_000))))})",
    "quoted texts": "SELECT count(*) FROM t WHERE a IN ("
    + ",".join(f"'it''s {i}'" for i in range(100_000))
    + ")",
    "conditions": f"SELECT count(*) FROM t WHERE {' OR '.join(f'a{i} = {i}' for i in range(2_000))}",
    "keys": f"SELECT count(*) FROM t GROUP BY {','.join(f'a + {i}' for i in range(5_000))}",
    "columns": f"SELECT {','.join(f'upper(a{i})' for i in range(4_000))} FROM t",
    "cases": f"SELECT CASE {' '.join(f'WHEN a = {i} THEN {i}' for i in range(2_000))} END FROM t",
    "nested": "SELECT " + "(1 + " * 50 + "n" + ")" * 50 + f"{' + n' * 100} FROM t",
}  # fmt: skip


class CountingClock:
    """A clock that advances by a second at each reading."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1.0
        return self.now_s


def read_within(text: str, timeout_s: float) -> float:
    """Read a text; return how often was looked at the clock."""
    clock = CountingClock()
    with reading(clock, 0.0, timeout_s * 1000):
        parse_query(text, plans=PlanCache())
    return clock.now_s


@pytest.mark.parametrize("kind", TEXTS)
def test_reading_ends_at_whatever_moment_the_time_is_over(kind: str) -> None:
    text = TEXTS[kind]
    looks = read_within(text, 1e9)
    assert looks >= 10
    for part in (0.0, 0.25, 0.9):
        with pytest.raises(QueryError, match="while its text was parsed") as caught:
            read_within(text, int(part * looks))
        assert caught.value.code is ErrorCode.EXECUTION_TIMEOUT


@pytest.mark.parametrize(
    "ask",
    [
        lambda: parse_query(f"SET timeoutMs = 3000; {TEXTS['keys']}"),
        lambda: parse_query(f"set a = 1; set timeoutms='3000'; {TEXTS['keys']}", {"timeoutMs": "900000"}),
        lambda: parse_query(f"{TEXTS['keys']} OPTION(timeoutMs=3000)", {"timeoutMs": "900000"}),
        lambda: parse_query(TEXTS["keys"], {"timeoutMs": "3000"}),
    ],
)
def test_the_limit_of_the_query_counts(ask: Callable[[], object]) -> None:
    with reading(CountingClock(), 0.0, 1e9), pytest.raises(QueryError, match="timed out after 3000 ms"):
        ask()


def test_other_texts_are_read_without_looking() -> None:
    clock = CountingClock()
    with reading(clock, 0.0, 1e9):
        pass
    parse_query(TEXTS["cases"])
    assert clock.now_s == 0
