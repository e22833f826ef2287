"""`trace=true` describes each operator, and nothing is recorded without it; counters agree with a naive count."""

import json
from typing import Any

import pytest

from gamay.base.clock import SYSTEM_CLOCK, ManualClock
from gamay.query.bind.binder import bind
from gamay.query.execute.executor import execute
from gamay.query.execute.server_result import ServerResult
from gamay.query.limits.deadline import Deadline
from gamay.query.trace import Trace
from gamay.sql.parser import parse_query


def run(trips: Any, sql: str) -> ServerResult:
    """Run a query on the segments of a table."""
    return execute(bind(parse_query(sql), trips.schema), trips.segments, trips.pool, Deadline.after_ms(60_000, SYSTEM_CLOCK))


QUERIES = [
    ("SELECT city, SUM(day) FROM trips WHERE price > 3 GROUP BY city", "GROUP_BY"),
    ("SELECT MAX(price) FROM trips WHERE kind = 2 AND city <> 'Oslo'", "AGGREGATE"),
    ("SELECT COUNT(*) FROM trips WHERE kind = 2", "AGGREGATE"),
    ("SELECT DISTINCT city FROM trips WHERE price > 3 LIMIT 1000", "DISTINCT"),
    ("SELECT day, city FROM trips WHERE price > 3 LIMIT 1000", "SELECT"),
    ("SELECT day, city FROM trips WHERE price > 3 ORDER BY price LIMIT 7", "SELECT_ORDERBY"),
    ("SELECT city, kind, COUNT(*) FROM trips WHERE price > 3 GROUP BY ROLLUP(city, kind)", "GROUP_BY"),
]


@pytest.mark.parametrize(("sql", "operator"), QUERIES)
def test_each_operator_is_told_with_its_rows(trips: Any, sql: str, operator: str) -> None:
    result = run(trips, f"SET trace = true; {sql}")
    assert result.trace is not None
    spans = json.loads(result.trace.to_json())
    assert spans[0]["Operator"] == "SERVER_PRUNE"
    assert spans[-1]["Operator"] == "SERVER_COMBINE"
    of_segments = [span for span in spans if span["Operator"] == operator]
    assert len(of_segments) == result.stats.num_segments_processed
    assert len({span["Segment"] for span in of_segments}) == len(of_segments)
    assert sum(span["Rows"] for span in of_segments) == result.stats.num_docs_scanned
    assert sum(span["EntriesInFilter"] for span in of_segments) == result.stats.num_entries_scanned_in_filter
    assert sum(span["EntriesPostFilter"] for span in of_segments) == result.stats.num_entries_scanned_post_filter
    assert len([span for span in spans if span["Operator"] == "FILTER"]) == len(of_segments)
    assert all(span["TimeMs"] >= 0 for span in spans)


@pytest.mark.parametrize(("sql", "_"), QUERIES)
def test_without_the_option_nothing_is_noted(trips: Any, sql: str, _: str) -> None:
    assert run(trips, sql).trace is None
    assert run(trips, f"SET trace = false; {sql}").trace is None


def test_spans_are_measured_by_the_clock() -> None:
    clock = ManualClock()
    trace = Trace(clock, "Server_a_1")
    begun = trace.now_s()
    key = object()
    trace.begin(key, "s0")
    clock.advance(0.25)
    trace.span("PRUNE", begun, Segments=3)
    clock.advance(0.5)
    trace.end(key, "GROUP_BY", 7)
    trace.end(key, "GROUP_BY", 7)  # it ended already
    assert json.loads(trace.to_json()) == [
        {"Operator": "PRUNE", "TimeMs": 250.0, "Segments": 3},
        {"Operator": "GROUP_BY", "TimeMs": 750.0, "Rows": 7, "Segment": "s0"},
    ]


def test_processor_time_is_that_of_the_threads_that_worked(trips: Any) -> None:
    result = run(trips, "SELECT city, SUM(price) FROM trips GROUP BY city")
    assert 0 < result.stats.offline_thread_cpu_time_ns < 60_000_000_000
