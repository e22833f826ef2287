"""Inputs for a running cluster, by kind."""

import random
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Protocol, Self

from benchmarks.attack.cookies import Cookies
from benchmarks.attack.findings import Findings
from benchmarks.attack.flight_calls import FlightCalls
from benchmarks.attack.frames import Frames
from benchmarks.attack.over_http import OddRequests, Queries, Uploads
from benchmarks.attack.target import Doors
from benchmarks.attack.wire import WireBytes


class Attack(Protocol):
    """A source of inputs of one kind, each generated from its number and judged by the response."""

    def send(self, number: int, rng: random.Random, findings: Findings) -> None:
        """Send an input, and record its outcome."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


ONLINE: dict[str, Callable[[Doors, int], Attack]] = {
    "requests": OddRequests,
    "HTTP bytes": WireBytes,
    "queries": Queries,
    "frames": Frames,
    "uploads": Uploads,
    "Flight calls": FlightCalls,
    "cookies": Cookies,
}


def run(doors: Doors, kind: str, seed: int, numbers: Iterable[int]) -> Findings:
    """Send the inputs with these numbers; return the findings."""
    findings = Findings(kind)
    with ONLINE[kind](doors, seed) as attack:
        for number in numbers:
            attack.send(number, random.Random(f"{seed} {kind} {number}"), findings)
    return findings
