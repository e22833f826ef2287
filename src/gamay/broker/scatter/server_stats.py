"""Load and latency of each server as this broker sees them, and the ranking of replicas. Times are arguments."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from gamay.broker.routes.selection import Rank
from gamay.model import cluster_settings as settings


class AdaptiveKind(Enum):
    """Criterion by which replicas are ranked."""

    NO_OP = "NO_OP"
    NUM_INFLIGHT_REQ = "NUM_INFLIGHT_REQ"
    LATENCY = "LATENCY"
    HYBRID = "HYBRID"


@dataclass(frozen=True, slots=True)
class AdaptiveSettings:
    """The settings under `pinot.broker.adaptive.server.selector`."""

    kind: AdaptiveKind = AdaptiveKind.NO_OP
    collects: bool = False
    alpha: float = 0.666
    decay_ms: int = 10_000
    warmup_ms: int = 0
    initial: float = 1.0
    exponent: float = 3.0
    floor: float = 0.0

    @classmethod
    def of(cls, values: Mapping[str, str]) -> "AdaptiveSettings":
        """Return the values of the cluster's settings."""
        kind = AdaptiveKind(settings.ADAPTIVE_TYPE.text(values).upper())
        return cls(
            kind,
            kind is not AdaptiveKind.NO_OP or settings.ADAPTIVE_STATS.flag(values),
            settings.ADAPTIVE_ALPHA.decimal(values),
            settings.ADAPTIVE_DECAY_MS.whole(values),
            settings.ADAPTIVE_WARMUP_MS.whole(values),
            settings.ADAPTIVE_INITIAL.decimal(values),
            settings.ADAPTIVE_EXPONENT.decimal(values),
            settings.ADAPTIVE_FLOOR.decimal(values),
        )


class MovingAverage:
    """An exponentially weighted average: `average = alpha * value + (1 - alpha) * average`.

    Without new values it decays, as if a 0 were added every `decay_ms`. During the first `warmup_ms` it keeps its initial
    value.
    """

    __slots__ = ("_average", "_changed_ms", "_settings", "_warm_ms")

    def __init__(self, settings_: AdaptiveSettings, now_ms: float) -> None:
        self._settings = settings_
        self._average = settings_.initial
        self._changed_ms = now_ms
        self._warm_ms = now_ms + settings_.warmup_ms

    def add(self, value: float, now_ms: float) -> None:
        """Add a value."""
        average = self.at(now_ms)
        if now_ms >= self._warm_ms:
            alpha = self._settings.alpha
            average = alpha * value + (1 - alpha) * average
        self._average, self._changed_ms = average, now_ms

    def at(self, now_ms: float) -> float:
        """Return the average at a time."""
        window = self._settings.decay_ms
        if window <= 0 or now_ms < self._warm_ms:
            return self._average
        windows = int((now_ms - self._changed_ms) // window)
        return self._average * (1 - self._settings.alpha) ** windows if windows > 0 else self._average


class _Server:
    """One server. in_flight: unanswered queries. The averages are of that number when a query is sent, and of
    milliseconds."""

    __slots__ = ("in_flight", "in_flight_average", "latency_average")

    def __init__(self, settings_: AdaptiveSettings, now_ms: float) -> None:
        self.in_flight = 0
        self.in_flight_average = MovingAverage(settings_, now_ms)
        self.latency_average = MovingAverage(settings_, now_ms)


class ServerStats:
    """Statistics of a broker's servers; thread-safe."""

    def __init__(self) -> None:
        self._settings = AdaptiveSettings()
        self._servers: dict[str, _Server] = {}
        self._lock = threading.Lock()

    @property
    def collects(self) -> bool:
        """Whether statistics are collected."""
        return self._settings.collects

    def apply(self, values: Mapping[str, str]) -> None:
        """Apply the cluster's settings; on a change the averages are reset."""
        chosen = AdaptiveSettings.of(values)
        with self._lock:
            if chosen != self._settings:
                self._settings = chosen
                self._servers.clear()

    def sent(self, server: str, now_ms: float) -> None:
        """Record that a query was sent."""
        with self._lock:
            known = self._server(server, now_ms)
            known.in_flight += 1
            known.in_flight_average.add(known.in_flight, now_ms)

    def ended(self, server: str, latency_ms: float, now_ms: float) -> None:
        """Record that a query ended, answered or not."""
        with self._lock:
            known = self._server(server, now_ms)
            known.in_flight = max(0, known.in_flight - 1)
            known.latency_average.add(latency_ms, now_ms)

    def rank(self, now_ms: float) -> Rank | None:
        """Return the ranking of servers, lowest is best; None if replicas take turns."""
        if self._settings.kind is AdaptiveKind.NO_OP:
            return None
        with self._lock:
            scores = {name: self._score(known, now_ms) for name, known in self._servers.items()}
            unknown = self._score(_Server(self._settings, now_ms), now_ms)
        return lambda server: scores.get(server, unknown)

    def snapshot(self, now_ms: float) -> dict[str, dict[str, Any]]:
        """Return the statistics of each server, in the form of `/debug/serverRoutingStats`."""
        with self._lock:
            return {
                name: {
                    "numInFlightRequests": known.in_flight,
                    "inFlightRequestsEMA": known.in_flight_average.at(now_ms),
                    "latencyEMA": known.latency_average.at(now_ms),
                    "hybridScore": self._hybrid(known, now_ms),
                }
                for name, known in sorted(self._servers.items())
            }

    def _server(self, name: str, now_ms: float) -> _Server:
        known = self._servers.get(name)
        if known is None:
            known = self._servers[name] = _Server(self._settings, now_ms)
        return known

    def _score(self, known: _Server, now_ms: float) -> float:
        if self._settings.kind is AdaptiveKind.NUM_INFLIGHT_REQ:
            return known.in_flight
        if self._settings.kind is AdaptiveKind.LATENCY:
            return known.latency_average.at(now_ms)
        return self._hybrid(known, now_ms)

    def _hybrid(self, known: _Server, now_ms: float) -> float:
        queue = self._settings.floor + known.in_flight + known.in_flight_average.at(now_ms)
        score: float = queue**self._settings.exponent * known.latency_average.at(now_ms)
        return score
