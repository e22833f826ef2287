"""OpenTelemetry spans, from the broker to the segments on servers."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.broker.conftest import Cluster

from gamay.base import spans
from gamay.base.errors import InvalidConfigError

SQL = "SELECT COUNT(*) FROM t WHERE n < 500"


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    stop = spans.start(SimpleSpanProcessor(exporter), "broker", "Broker_x_1")
    yield exporter
    stop()


def tree(found: tuple[ReadableSpan, ...]) -> dict[str, list[ReadableSpan]]:
    """Return the spans by name; each must be of one trace, and lie within its parent."""
    by_id = {span.context.span_id: span for span in found}
    assert len({span.context.trace_id for span in found}) == 1
    for span in found:
        if span.parent is not None:
            parent = by_id[span.parent.span_id]
            assert parent.start_time is not None
            assert span.start_time is not None
            assert span.start_time >= parent.start_time - 5_000_000  # phases are measured by another clock
    named: dict[str, list[ReadableSpan]] = {}
    for span in found:
        named.setdefault(span.name, []).append(span)
    return named


@pytest.mark.parametrize("waits", [False, True])
def test_a_query_is_a_tree(replicated: Cluster, exported: InMemorySpanExporter, waits: bool) -> None:
    answer: Any = replicated.runner.run(SQL) if waits else replicated.ask(SQL)
    named = tree(exported.get_finished_spans())
    (query,) = named["gamay.query"]
    calls, executions = named["gamay.server_call"], named["gamay.execute"]
    assert query.parent is None
    assert query.attributes is not None
    assert query.attributes["statement"] == SQL
    assert query.attributes["request_id"] == (answer.request_id if waits else answer["requestId"])
    assert len(calls) == len(executions) > 1
    assert {call.parent and call.parent.span_id for call in calls} == {query.context.span_id}
    assert {e.parent and e.parent.span_id for e in executions} == {call.context.span_id for call in calls}
    assert sum(int(str((call.attributes or {})["segments"])) for call in calls) == 6
    of_servers = {execution.context.span_id for execution in executions}
    phases = [
        s for name, found in named.items() for s in found if name[6:].isupper() or "gamay.segment" in (s.attributes or {})
    ]
    assert len(named["gamay.SERVER_PRUNE"]) == len(executions)
    assert {phase.parent and phase.parent.span_id for phase in phases} == of_servers
    assert len({(phase.attributes or {}).get("gamay.segment") for phase in phases} - {None}) == 6
    if not waits:
        assert "traceInfo" not in answer or not answer["traceInfo"]  # not requested


def test_what_fails_says_so(replicated: Cluster, exported: InMemorySpanExporter) -> None:
    replicated.ask("SELECT CAST(k AS INT) FROM t LIMIT 5")
    (query,) = tree(exported.get_finished_spans())["gamay.query"]
    assert not query.status.is_ok
    assert query.status.description


def test_where_nothing_is_configured_nothing_is_imported() -> None:
    code = (
        "import sys, gamay.broker.http.app, gamay.server.answering.listener; from gamay.base import spans; "
        "spans.configure('broker', 'b', {})(); assert not spans.is_on(); "
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_variables_of_open_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    for off in ({"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}):
        spans.configure("broker", "b", off)()
        assert not spans.is_on()
    with pytest.raises(InvalidConfigError, match="must be otlp, console or none"):
        spans.configure("broker", "b", {"OTEL_TRACES_EXPORTER": "jaeger"})
    stop = spans.configure("broker", "b", {"OTEL_TRACES_EXPORTER": "console"})
    assert spans.is_on()
    stop()
    assert not spans.is_on()
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(InvalidConfigError, match=r"gamay\[tracing\]"):
        spans.configure("broker", "b", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"})
