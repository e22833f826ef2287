"""`trace=true`: which operator took how long, and how many rows came out of it. Costs nothing where it is off."""

import threading
from dataclasses import dataclass, field
from typing import Any

import orjson

from gamay.base.clock import Clock
from gamay.base.spans import Phase


@dataclass(slots=True)
class Trace:
    """The operators of one server or broker, as they end; written to from any thread.

    name: of the server or broker. phase: is told of each operator, too.
    """

    clock: Clock
    name: str = ""
    _spans: list[dict[str, Any]] = field(default_factory=list)
    _open: dict[int, tuple[str, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    phase: Phase | None = None

    def now_s(self) -> float:
        """Return the time from which a span is measured."""
        return self.clock.monotonic_s()

    def span(self, operator: str, begun_s: float, rows: int | None = None, **more: object) -> None:
        """Note an operator that began at a time and ends now. rows: what came out of it."""
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
        """Note that the rows that `key` stands for are read from now on."""
        with self._lock:
            self._open[id(key)] = (segment, self.now_s())

    def end(self, key: object, operator: str, rows: int, **more: object) -> None:
        """Note that the rows that `key` stands for have been read."""
        with self._lock:
            begun = self._open.pop(id(key), None)
        if begun is not None:
            segment, begun_s = begun
            self.span(operator, begun_s, rows, Segment=segment, **more)

    def spans(self) -> list[dict[str, Any]]:
        """Return the operators in the order in which they ended."""
        with self._lock:
            return list(self._spans)

    def to_json(self) -> str:
        """Return the operators as the JSON text of `traceInfo`: a list in the order in which they ended."""
        return orjson.dumps(self.spans()).decode()
