"""The log of queries: which lines are written, and their contents."""

import logging

import pytest

from gamay.broker.answer.query_log import LOGGER, QueryLog, line
from gamay.query.answer.response import BrokerResponse, QueryStats

SQL = 'SELECT "x"\nFROM t'


def response(time_used_ms: int) -> BrokerResponse:
    """Return a response with the given duration."""
    stats = QueryStats(num_docs_scanned=4, total_docs=9, num_segments_queried=3, num_segments_matched=1)
    stats.offline_thread_cpu_time_ns = 12_340_000
    return BrokerResponse(stats=stats, time_used_ms=time_used_ms, request_id="71")


def test_a_line_says_what_a_query_was_and_cost() -> None:
    text = line(SQL, "t_OFFLINE", response(1500))
    for part in ("requestId=71 ", "table=t_OFFLINE ", "timeMs=1500 ", "docs=4/9 ", "segments=3/0/1 ", "cpuMs=12.3 "):
        assert part in text
    assert text.endswith(r'exceptions=0 client=- query="SELECT \"x\"\nFROM t"')
    assert line("x" * 50, None, response(1), 10).endswith('query="xxxxxxxxxx…"')
    failed = BrokerResponse(exceptions=[(245, "too much"), (250, "too late")], client_request_id="a b")
    assert 'exceptions=245,250 client="a b"' in line(SQL, None, failed)


def test_slow_queries_are_logged_and_others_only_where_settings_ask(caplog: pytest.LogCaptureFixture) -> None:
    log = QueryLog(1000)
    assert log.from_ms == 1000
    log.write(SQL, "t", response(999), 1.0)
    log.write(SQL, "t", response(1000), 1.0)
    assert [r.levelno for r in caplog.records if r.name == LOGGER] == [logging.WARNING]
    caplog.clear()
    log.apply({"pinot.broker.query.log.maxRatePerSecond": "2", "gamay.broker.query.log.slowMs": "50"})
    assert log.from_ms == 0
    for _ in range(5):
        log.write(SQL, "t", response(10), 2.0)
    log.write(SQL, "t", response(60), 2.0)
    shown = [r.getMessage() for r in caplog.records if r.name == LOGGER]
    assert [text.split()[0] for text in shown] == ["query", "query", "slow"]
    assert shown[-1].endswith("linesDropped=3")
    log.apply({})
    assert log.from_ms == 1000


def test_without_a_threshold_nothing_is_slow(caplog: pytest.LogCaptureFixture) -> None:
    log = QueryLog(None)
    log.write(SQL, "t", response(10**9), 1.0)
    assert not [r for r in caplog.records if r.name == LOGGER]
