"""Funnels in queries with GROUP BY, FILTER, HAVING, ORDER BY, nulls, and several segments."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

import gamay
from gamay.base.errors import QueryError
from gamay.embedded import Database

_ROWS = [  # who, when, what
    ("ann", 1, "view"),
    ("ann", 2, "cart"),
    ("ann", 9, "buy"),
    ("bob", 1, "view"),
    ("bob", 30, "cart"),
    ("cid", 4, "cart"),
    (None, 5, "view"),
    (None, 6, "cart"),
]
STEPS = "what = 'view', what = 'cart', what = 'buy'"


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with gamay.connect(tmp_path_factory.mktemp("funnels") / "data") as database:
        database.settings.null_handling = False
        names, times, events = zip(*_ROWS, strict=True)
        rows = pa.table({"who": names, "at": times, "what": events})
        database.create_table("shop", rows.slice(0, 2))
        database.append("shop", rows.slice(2))
        yield database


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (f"SELECT who, funnelMaxStep(at, 20, 3, {STEPS}) AS m FROM shop WHERE at <> 5 GROUP BY who ORDER BY m DESC, who",
         [("ann", 3), ("bob", 1), ("cid", 0), ("null", 0)]),
        (f"SELECT who FROM shop GROUP BY who HAVING funnelCompleteCount(at, 20, 3, {STEPS}) > 0", [("ann",)]),
        (f"SELECT funnelMaxStep(at, 20, 3, {STEPS}) FILTER (WHERE at < 9) FROM shop WHERE who = 'ann'", [(2,)]),
        (f"SELECT funnelMatchStep(at, 100, 3, {STEPS}, 'maxStepDuration=10') FROM shop WHERE who = 'bob'", [([1, 0, 0],)]),
        (f"SELECT funnelStepDurationStats(at, 100, 3, {STEPS}, 'durationFunctions=max,count') FROM shop WHERE who = 'ann'",
         [([1.0, 1.0, 7.0, 1.0, 0.0, 1.0],)]),
        (f"SELECT funnelEventsFunctionEval(at, 100, 2, {STEPS.rpartition(',')[0]}, 2, who, at) FROM shop WHERE who = 'bob'",
         [(["1, 4", "bob", "1", "bob", "30"],)]),
        (f"SELECT FUNNEL_COUNT(STEPS({STEPS}), CORRELATE_BY(who)) FROM shop", [([3, 3, 1],)]),
        (f"SET enableNullHandling = true; SELECT FUNNELCOUNT(STEPS({STEPS}), CORRELATEBY(who)) FROM shop", [([2, 2, 1],)]),
        # who is unknown of two rows: that makes no event less
        (f"SET enableNullHandling = true; SELECT funnelEventsFunctionEval(at, 2, 2, {STEPS.rpartition(',')[0]}, 2, who, at) "
         "FROM shop WHERE at > 4", [(["1, 4", "null", "5", "null", "6"],)]),
        (f"SELECT FUNNELCOUNT(STEPS({STEPS}), CORRELATEBY(who, at)) FROM shop", [([3, 0, 0],)]),
        ("SELECT FUNNELCOUNT(STEPS(at > 0, at > 8), CORRELATEBY(who)), what FROM shop GROUP BY what ORDER BY what",
         [([1, 1], "buy"), ([4, 1], "cart"), ([3, 0], "view")]),
        (f"SELECT FUNNELCOUNT(STEPS({STEPS}), CORRELATEBY(who)) FROM shop WHERE at > 100", [([0, 0, 0],)]),
    ],
)  # fmt: skip
def test_answers(db: Database, sql: str, rows: list[object]) -> None:
    assert db.sql(sql).rows() == rows


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("FUNNELCOUNT(STEPS(at > 1))", "CORRELATEBY"),
        ("FUNNELCOUNT(STEPS(), CORRELATEBY(who))", "STEPS"),
        ("FUNNELCOUNT(who)", "its arguments are"),
        ("FUNNELCOUNT(STEPS(at > 1), CORRELATEBY(who), SETTINGS('sorted'))", "needs 'partitioned'"),
        ("FUNNELCOUNT(STEPS(at > 1), CORRELATEBY(who), SETTINGS('foo'))", "unknown setting 'foo'"),
        ("FUNNELCOUNT(STEPS(at > 1), CORRELATEBY(NULL))", "NULL"),
        ("funnelStepDurationStats(at, 9, 1, at > 1)", "functions are missing"),
        ("funnelStepDurationStats(at, 9, 1, at > 1, 'durationFunctions=percentile101')", "unknown function"),
        ("funnelEventsFunctionEval(at, 9, 1, at > 1, 2, who)", "the number of fields is 2"),
    ],
)
def test_wrong_calls(db: Database, call: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        db.sql(f"SELECT {call} FROM shop")


@pytest.mark.parametrize("source", ["shop", "(SELECT * FROM shop LIMIT 1000) q", "shop JOIN (VALUES (1)) one ON at > 0"])
@pytest.mark.parametrize(
    ("what", "rows"),
    [
        (f"FUNNELCOUNT(STEPS({STEPS}), CORRELATEBY(who))", [([3, 3, 1],)]),
        (f"FUNNEL_COUNT(STEPS({STEPS}), CORRELATE_BY(who, at), SETTINGS('set'))", [([3, 0, 0],)]),
        (f"FUNNELCOUNT(STEPS({STEPS}), CORRELATEBY(who)) FILTER (WHERE at < 9)", [([3, 2, 0],)]),
    ],
)
def test_keys_are_counted_in_queries_of_several_tables(db: Database, what: str, rows: list[object], source: str) -> None:
    assert db.sql(f"SELECT {what} FROM {source}", useMultistageEngine=True).rows() == rows
