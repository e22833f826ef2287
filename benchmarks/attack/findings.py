"""Findings of an attack."""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

_SHOWN = 20
_TEXT_MAX = 600


class Verdict(Enum):
    """The outcome of an input."""

    REFUSED = "refused"
    ANSWERED = "answered"
    WRONG = "wrong"


@dataclass
class Findings:
    """The verdicts on the inputs of one kind, and the details of the first failures."""

    kind: str
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    slowest: str = ""

    def refused(self) -> None:
        """Count an input that was rightly refused."""
        self.verdicts[Verdict.REFUSED] += 1

    def answered(self) -> None:
        """Count an input that was rightly accepted."""
        self.verdicts[Verdict.ANSWERED] += 1

    def wrongly(self, number: int, what: Any, problem: str) -> None:
        """Count an input, the `number`-th of its kind, that revealed a defect."""
        self.verdicts[Verdict.WRONG] += 1
        if len(self.wrong) < _SHOWN:
            self.wrong.append(f"{self.kind} {number}: {problem[:_TEXT_MAX]}; input: {str(what)[:_TEXT_MAX]}")

    def took(self, seconds: float, what: Any) -> None:
        """Record the response time of an input."""
        if seconds > self.slowest_s:
            self.slowest_s, self.slowest = seconds, str(what)[:_TEXT_MAX]

    def merge(self, other: "Findings") -> None:
        """Add the findings for another part of the inputs."""
        self.verdicts += other.verdicts
        self.wrong += other.wrong
        self.took(other.slowest_s, other.slowest)

    @property
    def total(self) -> int:
        """The number of inputs."""
        return self.verdicts.total()
