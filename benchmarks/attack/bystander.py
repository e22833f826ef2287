"""A bystander: a user who sends small, valid queries during an attack."""

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx

from benchmarks.attack.target import ROWS, Doors, token
from benchmarks.cluster.facts import Questions, Versions

_PAUSE_S = 0.02
_SHOWN = 20


@dataclass
class Seen:
    """The response times in seconds, and the wrong answers."""

    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def quantile_ms(self, share: float) -> float:
        """Return a quantile of the response times in milliseconds."""
        ordered: Sequence[float] = sorted(self.seconds)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def ask(doors: Doors, seed: int, until: threading.Event) -> Seen:
    """Query until stopped."""
    seen, rng, questions, versions = Seen(), random.Random(seed), Questions(ROWS), Versions()
    with httpx.Client(base_url=doors.urls["broker"], headers={"authorization": token("admin")}, timeout=60) as client:
        while not until.wait(_PAUSE_S):
            question = questions.one(rng)
            began_s = time.monotonic()
            try:
                answer = client.post("/query/sql", json={"sql": question.sql}).json()
            except (httpx.TransportError, ValueError) as error:
                problem: str | None = repr(error)
            else:
                ended_s = time.monotonic()
                seen.seconds.append(ended_s - began_s)
                if answer["exceptions"] or answer["partialResult"]:
                    problem = str(answer["exceptions"])
                else:
                    rows = answer["resultTable"]["rows"]
                    problem = questions.problem(question, rows, versions, began_s, ended_s)
            if problem is not None and len(seen.wrong) < _SHOWN:
                seen.wrong.append(f"bystander: {question.sql}: {problem}")
    return seen
