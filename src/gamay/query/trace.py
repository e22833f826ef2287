"""`trace=true`: duration and output rows of each operator. No overhead when off."""

import threading
from dataclasses import dataclass, field
from typing import Any

import orjson

from gamay.base.clock import Clock
from gamay.base.spans import Phase


@dataclass(slots=True)
class Trace:
    """The finished operators of one server or broker; thread-safe.

    name: of the server or broker. phase: also called for each operator.
    """

    clock: Clock
    name: str = ""
    _spans: list[dict[str, Any]] = field(default_factory=list)
    _open: dict[int, tuple[str, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    phase: Phase | None = None

    def now_s(self) -> float:
        """Return the start time for a span."""
        return self.clock.monotonic_s()

    def span(self, operator: str, begun_s: float, rows: int | None = None, **more: object) -> None:
        """Record an operator that began at a time and ends now. rows: its number of output rows."""
        took_s = self.now_s() - begun_s
        span: dict[str, Any] = {"Operator": operator, "TimeMs": round(took_s * 1000, 3)}
        if rows is not None:
            span["Rows"] = rows
            more["Rows"] = rows
        if self.phase is not None:
            self.phase(operator, took_s, more)
        with self._lock:
            self._spans.append(span | more)

    def begin(self, key: object, segment: str) -> None:
        """Record the start of reading the rows identified by `key`."""
        with self._lock:
            self._open[id(key)] = (segment, self.now_s())

    def end(self, key: object, operator: str, rows: int, **more: object) -> None:
        """Record the end of reading the rows identified by `key`."""
        with self._lock:
            begun = self._open.pop(id(key), None)
        if begun is not None:
            segment, begun_s = begun
            self.span(operator, begun_s, rows, Segment=segment, **more)

    def spans(self) -> list[dict[str, Any]]:
        """Return the operators in the order in which they finished."""
        with self._lock:
            return list(self._spans)

    def to_json(self) -> str:
        """Return the operators as the JSON text of `traceInfo`: a list in the order in which they finished."""
        return orjson.dumps(self.spans()).decode()
