"""Continuous queries through all brokers, each answer checked when it arrives."""

import http.client
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from benchmarks.cluster.facts import Questions, Versions
from benchmarks.cluster.processes import RoleProcess

EXACT, PARTIAL, WRONG, REFUSED = "exact", "partial", "wrong", "refused"
_log = logging.getLogger(__name__)
_THREADS = 2
_PAUSE_S = 0.01
_WAITS_S = 20.0
_LATE_S = 12.0  # queries end after 10 s, and say so
_KEPT = 4000
_QUIET_S = 1.5
_TABLE_UNKNOWN = 190


@dataclass(frozen=True, slots=True)
class Answered:
    """One query: when it was sent and answered, in seconds, and its outcome."""

    begin_s: float
    end_s: float
    kind: str


@dataclass
class Tally:
    """The outcomes of all queries; guarded by the lock of `Asking`."""

    kinds: dict[str, int] = field(default_factory=lambda: dict.fromkeys((EXACT, PARTIAL, WRONG, REFUSED), 0))
    problems: list[str] = field(default_factory=list)
    reasons: dict[str, int] = field(default_factory=dict)
    partial_during: dict[str, int] = field(default_factory=dict)
    slowest_s: float = 0.0


class Asking:
    """Queries sent between `start` and `stop` by two threads per broker. A stopped broker refuses, which is no fault.

    patience: by how much answers may take longer than they should. during: what happens to the cluster, for the tally.
    """

    def __init__(
        self, brokers: Sequence[RoleProcess], questions: Questions, versions: Versions, seed: int, patience: float = 1.0
    ) -> None:
        self._patience = patience
        self.tally = Tally()
        self.during = "nothing"
        self._questions = questions
        self._versions = versions
        self._answers: dict[str, deque[Answered]] = {broker.name: deque(maxlen=_KEPT) for broker in brokers}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(broker, random.Random(f"{seed} {broker.name} {i}")), daemon=True)
            for broker in brokers
            for i in range(_THREADS)
        ]

    def start(self) -> None:
        """Start sending queries."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop sending queries."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def full_since(self, since_s: float, brokers: Iterable[RoleProcess], enough: int = 4) -> float | None:
        """Return for how long after a moment answers through some broker were incomplete, in seconds.

        None while not all of them have given `enough` whole answers in a row to what they were asked since then, and for
        `_QUIET_S` no others.
        """
        longest, quiet_s = 0.0, time.monotonic() - _QUIET_S
        for broker in brokers:
            with self._lock:
                answers = [answer for answer in self._answers[broker.name] if answer.begin_s >= since_s]
            if len(answers) < enough or any(answer.kind != EXACT for answer in answers[-enough:]):
                return None
            last_s = max((answer.end_s for answer in answers if answer.kind != EXACT), default=since_s)
            if last_s > quiet_s:
                return None
            longest = max(longest, last_s - since_s)
        return longest

    def note(self, problem: str) -> None:
        """Record the violation of an invariant."""
        _log.error("%s", problem)
        with self._lock:
            self.tally.problems.append(problem)

    def _run(self, broker: RoleProcess, rng: random.Random) -> None:
        connection: http.client.HTTPConnection | None = None
        while not self._stopping.is_set():
            question = self._questions.one(rng)
            begin_s = time.monotonic()
            was_up = broker.is_up
            try:
                connection = connection or http.client.HTTPConnection(
                    "localhost", broker.port, timeout=_WAITS_S * self._patience
                )
                body = orjson.dumps({"sql": question.sql})
                connection.request("POST", "/query/sql", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                text = answer.read()
            except (OSError, http.client.HTTPException) as error:
                if connection is not None:
                    connection.close()
                connection = None
                end_s = time.monotonic()
                self._count(broker, Answered(begin_s, end_s, REFUSED), "", f"no answer: {type(error).__name__}")
                if was_up and broker.is_up and isinstance(error, TimeoutError):
                    self.note(f"{broker.name} did not answer within {_WAITS_S * self._patience:.0f} s: {question.sql}")
                self._stopping.wait(0.1)
                continue
            end_s = time.monotonic()
            kind, problem, reason = self._judged(question, answer.status, text, begin_s, end_s)
            if was_up and broker.is_up and end_s - begin_s > _LATE_S * self._patience:
                self.note(f"an answer of {broker.name} took {end_s - begin_s:.1f} s: {question.sql}")
            self._count(broker, Answered(begin_s, end_s, kind), problem and f"{broker.name}: {problem}", reason)
            self._stopping.wait(_PAUSE_S)

    def _judged(self, question: Any, status: int, text: bytes, begin_s: float, end_s: float) -> tuple[str, str, str]:
        """Return the verdict on an answer, what is wrong with it, and why it is incomplete."""
        if status == 503:
            return REFUSED, "", "503"
        if status != 200:
            return WRONG, f"status {status}: {text[:200]!r}", ""
        answer = orjson.loads(text)
        if answer["exceptions"] or answer.get("partialResult"):
            codes = sorted({one["errorCode"] for one in answer["exceptions"]})
            if _TABLE_UNKNOWN in codes:
                return WRONG, f"told that there is no such table: {answer['exceptions']}", ""
            return PARTIAL, "", f"error {', '.join(map(str, codes))}"
        if answer["numServersResponded"] < answer["numServersQueried"]:
            return WRONG, f"{answer['numServersResponded']} of {answer['numServersQueried']} servers, and nothing said", ""
        problem = self._questions.problem(question, answer["resultTable"]["rows"], self._versions, begin_s, end_s)
        if problem is None:
            return EXACT, "", ""
        more = {name: answer[name] for name in ("numSegmentsQueried", "numSegmentsProcessed", "totalDocs", "requestId")}
        return WRONG, f"{problem}; {more}", ""

    def _count(self, broker: RoleProcess, answer: Answered, problem: str, reason: str) -> None:
        if problem:
            _log.error("%s", problem)
        with self._lock:
            self._answers[broker.name].append(answer)
            self.tally.kinds[answer.kind] += 1
            if answer.kind != REFUSED:
                self.tally.slowest_s = max(self.tally.slowest_s, answer.end_s - answer.begin_s)
            if problem:
                self.tally.problems.append(problem)
            if answer.kind == PARTIAL:
                self.tally.partial_during[self.during] = self.tally.partial_during.get(self.during, 0) + 1
            if reason:
                self.tally.reasons[reason] = self.tally.reasons.get(reason, 0) + 1
