"""Faults of a cluster's processes: they are killed, suspended, shut down, and restarted."""

import logging
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from benchmarks.cluster.asking import Asking
from benchmarks.cluster.processes import Processes, RoleProcess, WaitedInVainError, until
from benchmarks.cluster.zookeeper import ZooKeeperProcess

_log = logging.getLogger(__name__)
_LIMIT_S = 120.0


@dataclass(slots=True)
class Times:
    """The durations of the effects of one kind of fault, in seconds; limit_s: the maximum allowed."""

    limit_s: float | None
    took_s: list[float] = field(default_factory=list)


Fault: TypeAlias = Callable[[], None]


class Faults:
    """Injects one fault after the other, and measures how long answers are incomplete.

    patience: by how much recoveries may take longer than they should, on a machine that others use, too.
    """

    def __init__(
        self, processes: Processes, zookeeper: ZooKeeperProcess, asking: Asking, seed: int, patience: float = 1.0
    ) -> None:
        self.times: dict[str, Times] = {}
        self.counts: dict[str, int] = {}
        self._processes = processes
        self._zookeeper = zookeeper
        self._asking = asking
        self._rng = random.Random(seed)
        self._patience = patience
        often: Sequence[Fault] = (self.server_killed, self.server_stopped, self.leader_killed, self.broker_killed)
        seldom: Sequence[Fault] = (
            self.server_leaves, self.leader_stopped, self.follower_killed, self.broker_stopped, self.zookeeper_restarted,
            self.two_servers_killed, self.all_killed,
        )  # fmt: skip
        self._every = (*often, *seldom)
        self._weights = [2] * len(often) + [1] * len(seldom)

    def run(self, until_s: float, stopping: threading.Event | None = None) -> None:
        """Inject faults until a moment: first each kind once, in random order, then at random."""
        first = self._rng.sample(self._every, len(self._every))
        while time.monotonic() < until_s:
            fault = first.pop() if first else self._rng.choices(self._every, self._weights)[0]
            self.one(fault)
            time.sleep(self._rng.uniform(0.5, 2.0))

    def one(self, fault: Fault) -> None:
        """Inject one fault; record a problem if the cluster does not recover."""
        name = fault.__name__.replace("_", " ")
        self.counts[name] = self.counts.get(name, 0) + 1
        _log.info("FAULT %s", name)
        self._asking.during = name
        try:
            fault()
        except WaitedInVainError as error:
            self._asking.note(f"{name}: {error}")

    # what happens

    def server_killed(self) -> None:
        """Kill a server and restart it."""
        self._away(self._rng.choice(self._processes.servers), "server killed", RoleProcess.kill, 10)

    def server_leaves(self) -> None:
        """Shut a server down in an orderly way and restart it."""
        self._away(
            self._rng.choice(self._processes.servers), "server leaves", lambda process: process.kill(signal.SIGTERM), 10
        )

    def server_stopped(self) -> None:
        """Pause a server for some seconds: shorter or longer than its session."""
        self._still(self._rng.choice(self._processes.servers), "server stands still", 10)

    def broker_killed(self) -> None:
        """Kill a broker and restart it: the other answers."""
        self._away(self._rng.choice(self._processes.brokers), "broker killed", RoleProcess.kill, 5)

    def broker_stopped(self) -> None:
        """Pause a broker; when it resumes, its state is out of date."""
        self._still(self._rng.choice(self._processes.brokers), "broker stands still", 5)

    def leader_killed(self) -> None:
        """Kill the lead controller; another takes over."""
        self._without_leader("leader killed", RoleProcess.kill)

    def leader_stopped(self) -> None:
        """Pause the lead controller for longer than its session."""
        self._without_leader("leader stands still", lambda process: process.send(signal.SIGSTOP))

    def follower_killed(self) -> None:
        """Kill the controller that does not lead."""
        leader = self._leader()
        others = [process for process in self._processes.controllers if process is not leader]
        self._away(self._rng.choice(others), "other controller killed", RoleProcess.kill, 5)

    def zookeeper_restarted(self) -> None:
        """Kill ZooKeeper and restart it after a while; answers must not be affected."""
        began_s = time.monotonic()
        self._zookeeper.stop()
        time.sleep(self._rng.uniform(0.5, 12))
        self._recovered("ZooKeeper away", began_s, 1)
        back_s = time.monotonic()
        self._zookeeper.start()
        self._leads_again("ZooKeeper back: leader", back_s, 20)
        time.sleep(3)  # processes look at everything again
        self._recovered("ZooKeeper back", back_s, 10)

    def two_servers_killed(self) -> None:
        """Kill two of the servers at once: some segments have no replica, which answers report."""
        victims = self._rng.sample(self._processes.servers, 2)
        for victim in victims:
            victim.kill()
        time.sleep(self._rng.uniform(0, 6))
        for victim in victims:
            victim.start()
        for victim in victims:
            victim.wait_ready()
        self._recovered("two servers back", time.monotonic(), 10)

    def all_killed(self) -> None:
        """Kill every process at once, including ZooKeeper, as in a power failure."""
        for process in self._processes.all:
            process.kill()
        self._zookeeper.stop()
        self._zookeeper.start()
        for process in self._rng.sample(self._processes.all, len(self._processes.all)):
            process.start()
        for process in self._processes.all:
            process.wait_ready()
        self._recovered("all killed, and back", time.monotonic(), 20)

    # how

    def _away(self, process: RoleProcess, what: str, end: Callable[[RoleProcess], object], limit_s: float) -> None:
        """End a process, wait until answers are complete, restart it."""
        _log.info("%s", process.instance)
        end(process)
        self._recovered(what, time.monotonic(), limit_s)
        time.sleep(self._rng.uniform(0, 6))
        back_s = time.monotonic()
        process.start()
        self._note(f"{process.role} starts", process.wait_ready(), None)
        self._recovered(f"{process.role} back", back_s, 10 + self._times(f"{process.role} starts").took_s[-1])

    def _still(self, process: RoleProcess, what: str, limit_s: float) -> None:
        _log.info("%s", process.instance)
        began_s = time.monotonic()
        process.send(signal.SIGSTOP)
        time.sleep(self._rng.uniform(0.5, 4))
        if self._rng.random() < 0.5:
            self._recovered(what, began_s, limit_s)
            time.sleep(self._rng.uniform(0, 10))
        back_s = time.monotonic()
        process.send(signal.SIGCONT)
        self._recovered(f"{process.role} goes on", back_s, 10)

    def _without_leader(self, what: str, end: Callable[[RoleProcess], object]) -> None:
        leader = self._leader()
        end(leader)
        began_s = time.monotonic()
        self._recovered(what, began_s, 5)
        self._leads_again(f"{what}: another leads", began_s, 15, but=leader)
        time.sleep(self._rng.uniform(0, 3))
        back_s = time.monotonic()
        if what == "leader killed":
            leader.start()
            self._note("controller starts", leader.wait_ready(), None)
        else:
            leader.send(signal.SIGCONT)
        self._recovered("controller back", back_s, 20)

    def _leader(self) -> RoleProcess:
        until(lambda: self._processes.leader() is not None, _LIMIT_S, "a controller leads")
        return self._processes.leader() or self._processes.controllers[0]

    def _leads_again(self, what: str, since_s: float, limit_s: float, but: RoleProcess | None = None) -> None:
        """Wait until another controller leads and does its work."""

        def leads() -> bool:
            leader = self._processes.leader()
            return leader is not None and leader is not but and leader.is_up and leader.is_ready()

        until(leads, _LIMIT_S, f"{what}: a controller leads")
        self._note(what, time.monotonic() - since_s, limit_s)

    def _recovered(self, what: str, since_s: float, limit_s: float) -> None:
        """Wait until every running broker gives complete answers; record how long that took."""
        took_s: list[float] = []

        def full() -> bool:
            found = self._asking.full_since(since_s, [broker for broker in self._processes.brokers if broker.is_up])
            took_s.append(found or 0.0)
            return found is not None

        until(full, _LIMIT_S, f"{what}: answers are whole again")
        self._note(what, took_s[-1], limit_s)

    def _note(self, what: str, took_s: float, limit_s: float | None) -> None:
        times = self._times(what)
        times.took_s.append(took_s)
        _log.info("%s: %.2f s", what, took_s)
        if limit_s is not None:
            times.limit_s = max(times.limit_s or 0, limit_s)
            if took_s > limit_s * self._patience:
                self._asking.note(f"{what}: after {took_s:.1f} s, not {limit_s:.0f}")

    def _times(self, what: str) -> Times:
        return self.times.setdefault(what, Times(None))
