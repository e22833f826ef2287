"""OpenTelemetry spans of queries through brokers and servers. When off, nothing is imported or kept.

Configured by OpenTelemetry's own variables: if `OTEL_EXPORTER_OTLP_ENDPOINT` (or `…_TRACES_ENDPOINT`) or
`OTEL_TRACES_EXPORTER` is set, and `OTEL_SDK_DISABLED` is not `true`, a process exports its spans there.

    gamay.query                 at the broker; from the text to the response
      gamay.server_call         at the broker; one for each server that is asked, also instead of another
        gamay.execute           at the server
          gamay.SERVER_PRUNE …  at the server; the operators that `trace=true` shows, those of a segment with its name

The context goes from broker to server in the header of the call's frame, as `traceparent` of the W3C.
"""

import importlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeAlias

from gamay.base.errors import InvalidConfigError

Phase: TypeAlias = Callable[[str, float, Mapping[str, object]], None]
"""A function of (operator, seconds that it took, ending now, attributes)."""

_NOTHING: AbstractContextManager[None] = nullcontext()
_TRACE_PARENT = "traceparent"
_tracer: Any = None


def configure(role: str, instance: str, environment: Mapping[str, str] = os.environ) -> Callable[[], None]:
    """Export spans as the environment says; return a function that flushes them and stops. Raises InvalidConfigError."""
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").lower()
    has_endpoint = any(environment.get(f"OTEL_EXPORTER_OTLP_{of_traces}ENDPOINT") for of_traces in ("", "TRACES_"))
    is_disabled = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if is_disabled or exporter == "none" or not (exporter or has_endpoint):
        return lambda: None
    if exporter not in ("", "otlp", "console"):
        raise InvalidConfigError(f"OTEL_TRACES_EXPORTER cannot be '{exporter}', it must be otlp, console or none")
    try:
        sdk = importlib.import_module("opentelemetry.sdk.trace.export")
        if exporter == "console":
            sink = sdk.ConsoleSpanExporter()
        else:
            sink = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter").OTLPSpanExporter()
    except ImportError as error:
        raise InvalidConfigError(
            f"OpenTelemetry is configured, but not installed: pip install 'gamay[tracing]' ({error})"
        ) from None
    return start(sdk.BatchSpanProcessor(sink), role, instance)


def start(processor: Any, role: str, instance: str) -> Callable[[], None]:
    """Pass spans to a processor of OpenTelemetry's SDK from now on; return a function that flushes them and stops."""
    global _tracer
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    resource = Resource.create(
        {"service.name": os.environ.get("OTEL_SERVICE_NAME", f"gamay-{role}"), "service.instance.id": instance}
    )
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(processor)
    _tracer = provider.get_tracer("gamay")

    def stop() -> None:
        global _tracer
        _tracer = None
        provider.shutdown()

    return stop


def is_on() -> bool:
    """Whether spans are recorded."""
    return _tracer is not None


def begin(name: str) -> Any:
    """Start and return a span, which `end` may end on any thread; None when off."""
    return None if _tracer is None else _tracer.start_span(name)


def end(span: Any, error: str | None = None, **attributes: object) -> None:
    """End a span that `begin` returned. error: why its operation failed."""
    if span is None:
        return
    span.set_attributes({name: value for name, value in attributes.items() if value is not None})
    if error is not None:
        _fail(span, error)
    span.end()


def within(span: Any) -> AbstractContextManager[object]:
    """Return a context in which new spans are children of a span that `begin` returned."""
    if span is None:
        return _NOTHING
    from opentelemetry.trace import use_span

    return use_span(span, record_exception=False, set_status_on_exception=False)


def span(name: str, parent: str = "", **attributes: object) -> AbstractContextManager[None]:
    """Return a context that records a span. parent: the context of another process's span; empty for the current span."""
    return _NOTHING if _tracer is None else _span(name, parent, attributes)


@contextmanager
def _span(name: str, parent: str, attributes: Mapping[str, object]) -> Iterator[None]:
    context = None
    if parent:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        context = TraceContextTextMapPropagator().extract({_TRACE_PARENT: parent})
    with _tracer.start_as_current_span(name, context, attributes=dict(attributes), record_exception=False) as current:
        try:
            yield
        except Exception as error:
            _fail(current, str(error))
            raise


def context() -> str:
    """Return the context of the current span as `traceparent`; empty when off."""
    if _tracer is None:
        return ""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get(_TRACE_PARENT, "")


def phases() -> Phase | None:
    """Return a function that records finished phases of any thread as children of the current span; None when off."""
    tracer = _tracer
    if tracer is None:
        return None
    from opentelemetry.context import get_current

    parent = get_current()

    def phase(operator: str, took_s: float, attributes: Mapping[str, object]) -> None:
        now_ns = time.time_ns()
        made = tracer.start_span(f"gamay.{operator}", parent, start_time=now_ns - round(took_s * 1e9))
        made.set_attributes({f"gamay.{name.lower()}": value for name, value in attributes.items()})
        made.end(now_ns)

    return phase


def _fail(span: Any, error: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_status(Status(StatusCode.ERROR, error))
