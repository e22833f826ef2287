"""Token buckets against a naive twin, and the quotas of tables, databases and applications."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.base.errors import ErrorCode, QueryError
from gamay.broker.admit.quota import Quotas, TokenBucket, rate_of


@dataclass
class Table:
    table: str = "trips_OFFLINE"
    queries_per_s: float | None = None


def passes(quotas: Quotas, *routes: Table, now_s: float, options: Mapping[str, str] | None = None) -> bool:
    """Tell whether a query is let in."""
    try:
        quotas.admit_application(options or {}, now_s)
        quotas.admit(routes, now_s)
    except QueryError as error:
        return error.code is not ErrorCode.TOO_MANY_REQUESTS
    return True


def test_a_refusal_says_which_quota_is_used_up() -> None:
    quotas = Quotas()
    table = Table(queries_per_s=0.5)
    quotas.admit([table], 0.0)
    with pytest.raises(QueryError, match=r"exceeds query quota for table 'trips_OFFLINE': 0\.5 a second") as raised:
        quotas.admit([table], 1.0)
    assert raised.value.code is ErrorCode.TOO_MANY_REQUESTS


def test_what_is_used_of_a_quota_counts_what_was_refused() -> None:
    quotas = Quotas()
    table = Table(queries_per_s=4.0)
    came = [100.0 + i / 10 for i in range(8)] + [101.5, 101.9]
    assert sum(passes(quotas, table, now_s=now) for now in came) < len(came)

    def measured(now_s: float) -> dict[str, float]:
        return {one.name.removeprefix("pinot_broker_"): one.value for one in quotas.measure(now_s)}

    assert measured(101.95) == {
        "queryRateLimitDisabled": False,
        "queryQuotaCapacityUtilizationRate": 200.0,
        "maxBurstQps": 8,
    }
    assert measured(102.0)["queryQuotaCapacityUtilizationRate"] == 50.0
    assert measured(159.9)["maxBurstQps"] == 8
    assert measured(160.1)["maxBurstQps"] == 2
    assert measured(162.1)["maxBurstQps"] == 0


@given(
    rate=st.floats(0.05, 50),
    gaps=st.lists(st.floats(0, 3), max_size=60),
)
def test_no_stretch_of_time_has_more_than_the_rate_and_one_burst(rate: float, gaps: list[float]) -> None:
    bucket = TokenBucket(rate, 0.0)
    now, taken = 0.0, []
    for gap in gaps:
        now += gap
        if bucket.take(now):
            taken.append(now)
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            allowed = max(1.0, rate) + rate * (taken[last] - taken[first])
            assert last - first + 1 <= allowed + 1e-6


@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0, 3.0, 250.0])
def test_an_even_stream_at_the_rate_always_passes(rate: float) -> None:
    bucket = TokenBucket(rate, 0.0)
    assert all(bucket.take(number / rate) for number in range(1000))


def test_a_burst_of_a_second_passes_and_no_more() -> None:
    bucket = TokenBucket(5.0, 0.0)
    assert [bucket.take(10.0) for _ in range(7)] == [True] * 5 + [False] * 2
    assert [bucket.take(10.2), bucket.take(10.2)] == [True, False]
    assert not bucket.take(10.1)  # times of several threads may be out of order


def test_a_new_rate_holds_at_once_and_keeps_what_was_saved_up() -> None:
    bucket = TokenBucket(2.0, 0.0)
    assert [bucket.take(0.0) for _ in range(3)] == [True, True, False]
    bucket.set_rate(10.0, 0.5)  # one token came at the old rate
    assert [bucket.take(0.5), bucket.take(0.5), bucket.take(0.6)] == [True, False, True]


def test_tables_are_counted_for_themselves() -> None:
    quotas = Quotas()
    quick, slow, free = Table("a_OFFLINE", 2.0), Table("b_OFFLINE", 0.5), Table("c_OFFLINE")
    assert [passes(quotas, quick, now_s=0.0) for _ in range(3)] == [True, True, False]
    assert [passes(quotas, slow, now_s=time) for time in (0.0, 1.0, 2.0)] == [True, False, True]
    assert all(passes(quotas, free, now_s=0.0) for _ in range(1000))
    quick.queries_per_s = 100.0
    assert [passes(quotas, quick, now_s=1.0) for _ in range(4)].count(True) >= 2


def test_each_half_of_a_hybrid_table_has_a_quota() -> None:
    quotas = Quotas()
    offline, realtime = Table("trips_OFFLINE", 4.0), Table("trips_REALTIME", 3.0)
    assert [passes(quotas, offline, realtime, now_s=0.0) for _ in range(4)] == [True, True, True, False]
    assert not passes(quotas, realtime, now_s=0.0)
    assert not passes(quotas, offline, now_s=0.0)  # the query that the other half refused counts
    realtime.queries_per_s = None
    assert [passes(quotas, offline, realtime, now_s=5.0) for _ in range(5)] == [True] * 4 + [False]


def test_a_query_of_a_hybrid_table_is_one_query_of_its_application_and_database() -> None:
    halves = (Table("sales.a_OFFLINE"), Table("sales.a_REALTIME"))
    for setting in ("databaseMaxQueriesPerSecond", "applicationMaxQueriesPerSecond"):
        quotas = Quotas()
        quotas.apply({setting: "2"})
        options = {"applicationName": "board"}
        assert [passes(quotas, *halves, now_s=0.0, options=options) for _ in range(3)] == [True, True, False]


def test_a_query_without_a_table_is_one_of_its_application() -> None:
    quotas = Quotas()
    quotas.apply({"applicationMaxQueriesPerSecond": "1"})
    assert [passes(quotas, now_s=0.0, options={"applicationName": "board"}) for _ in range(2)] == [True, False]
    assert passes(quotas, now_s=0.0)


def test_the_settings_limit_databases_and_applications() -> None:
    quotas = Quotas()
    quotas.apply({"databaseMaxQueriesPerSecond": "1", "applicationMaxQueriesPerSecond": "2"})
    assert [passes(quotas, Table("sales.a_OFFLINE"), now_s=0.0), passes(quotas, Table("sales.b_OFFLINE"), now_s=0.0)] == [
        True,
        False,
    ]
    assert passes(quotas, Table("a_OFFLINE"), now_s=0.0)  # of the default database
    quotas.apply({"applicationMaxQueriesPerSecond": "2"})
    board = {"applicationName": "board"}
    assert [passes(quotas, Table(), now_s=5.0, options=board) for _ in range(3)] == [True, True, False]
    assert passes(quotas, Table(), now_s=5.0, options={"applicationName": "other"})
    assert passes(quotas, Table(), now_s=5.0)
    quotas.apply({"applicationMaxQueriesPerSecond": "nonsense"})
    assert passes(quotas, Table(), now_s=5.0, options=board)


def test_a_broker_can_let_everything_pass() -> None:
    quotas = Quotas()
    table = Table(queries_per_s=1.0)
    assert [passes(quotas, table, now_s=0.0) for _ in range(2)] == [True, False]
    quotas.is_enabled = False
    assert passes(quotas, table, now_s=0.0)


def test_rates_are_positive_numbers() -> None:
    assert [rate_of(text) for text in (None, "3", "0.25", "0", "-1", "inf", "nan", "x")] == [
        None, 3.0, 0.25, None, None, None, None, None,
    ]  # fmt: skip
