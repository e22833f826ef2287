"""Run all attacks on one cluster, and collect their findings."""

import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from os import nice
from pathlib import Path

from benchmarks.attack import bystander, offline, online
from benchmarks.attack.findings import Findings
from benchmarks.attack.target import Target
from benchmarks.cluster.processes import WaitedInVainError
from benchmarks.cluster.template import FORKS
from benchmarks.cluster.zookeeper import ZooKeeperProcess

SHARES = {
    "requests": 0.12, "HTTP bytes": 0.30, "queries": 0.10, "frames": 0.25, "uploads": 0.005, "Flight calls": 0.06,
    "cookies": 0.04, "segments": 0.09, "indexes": 0.01, "archives": 0.02, "records": 0.005,
    "constants": 0.02,
}  # fmt: skip
"""Of all inputs; fewer of what takes long."""

_WAVES = 10
_REST_S = 10.0
_GROWTH_MAX = 1.25


@dataclass
class Outcome:
    """The results of a run."""

    findings: dict[str, Findings]
    seen: bystander.Seen = field(default_factory=bystander.Seen)
    resident: list[dict[str, int]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def all_problems(self) -> list[str]:
        """All deviations from the expected results."""
        wrong = [text for findings in self.findings.values() for text in findings.wrong]
        return [*self.problems, *wrong, *self.seen.wrong]


def attack(folder: Path, zookeeper: ZooKeeperProcess, inputs: int, seed: int, kinds: Sequence[str]) -> Outcome:
    """Run all attacks in a folder; return the results."""
    counts = {kind: max(_WAVES, int(inputs * SHARES[kind])) for kind in kinds}
    outcome = Outcome({kind: Findings(kind) for kind in kinds})
    if sent := {kind: count for kind, count in counts.items() if kind in online.ONLINE}:
        target = Target(folder, f"{zookeeper.hosts}/attack")
        try:
            target.start()
            _send(target, sent, seed, outcome)
            time.sleep(_REST_S)
            outcome.resident.append(target.resident_bytes())
            outcome.problems += _grown(outcome.resident)
        except WaitedInVainError as error:
            outcome.problems.append(str(error))
        finally:
            target.stop()
        outcome.problems += list(target.logged())[:_WAVES]
    for kind in counts.keys() & offline.OFFLINE.keys():
        _try(kind, seed, counts[kind], folder / f"{kind}.at", outcome)
    return outcome


def _send(target: Target, counts: dict[str, int], seed: int, outcome: Outcome) -> None:
    """Send all inputs in consecutive waves; record the memory of the processes after each."""
    stop = threading.Event()
    with ThreadPoolExecutor(1) as thread, ExitStack() as stack:
        seen = thread.submit(bystander.ask, target.doors, seed, stop)
        stack.callback(stop.set)
        pools = {kind: stack.enter_context(ProcessPoolExecutor(1, FORKS, nice, (19,))) for kind in counts}
        for wave in range(_WAVES):
            numbers = {kind: range(wave * n // _WAVES, (wave + 1) * n // _WAVES) for kind, n in counts.items()}
            for future in [pools[kind].submit(online.run, target.doors, kind, seed, some) for kind, some in numbers.items()]:
                part = future.result()
                outcome.findings[part.kind].merge(part)
            target.restore()
            outcome.resident.append(target.resident_bytes())
            print(f"wave {wave + 1} of {_WAVES}: {outcome.resident[-1]}", file=sys.stderr, flush=True)
    outcome.seen = seen.result()


def _try(kind: str, seed: int, count: int, at: Path, outcome: Outcome) -> None:
    """Try inputs in a separate process; report the input at which it died, if it did."""
    with ProcessPoolExecutor(1, FORKS) as pool:
        future = pool.submit(offline.run, kind, seed, range(count), at)
        error = future.exception()
    if error is None:
        outcome.findings[kind].merge(future.result())
    else:
        number = at.read_text().split("\n")[0] if at.exists() else "none"
        outcome.problems.append(f"{kind}: the process ended at input {number} of seed {seed}: {error!r}")


def _grown(resident: Sequence[dict[str, int]]) -> list[str]:
    """Return the processes that grew since the first half, in which caches are filled and kernels compiled."""
    last, half = resident[-1], {role: max(one[role] for one in resident[: _WAVES // 2]) for role in resident[0]}
    return [
        f"{role} has {last[role] >> 20} MB in the end, and had {half[role] >> 20} at most in the first half"
        for role in half
        if last[role] > _GROWTH_MAX * half[role]
    ]
