"""Query, change and damage a cluster of processes at the same time: every answer is exact, or reports that it is not.

    python -m benchmarks.chaos [--minutes 30] [--seed 7] [--rows 20000] [--patience 1.0] [--folder F] [--write-docs]

2 controllers, 2 brokers, 4 servers and a ZooKeeper, each a process; a table with two replicas. Queries go on through both
brokers while processes are killed (SIGKILL), stand still (SIGSTOP), leave (SIGTERM) and come back, ZooKeeper is restarted,
segments are replaced, refreshed and reloaded, and the table is rebalanced. Whatever happens:

* an answer is exact, or says that it is partial; it shows replaced segments all old or all new, and one version of each;
* answers are whole again within 10 s after a server has died, within 5 s after a controller has;
* in the end every segment is there, ONLINE on both of its servers, and nothing else is left in the deep store.

Prints tables, and exits with status 1 when something of that was not so; the folder with all logs then stays, and the
page is not written.
"""

import argparse
import logging
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks import report
from benchmarks.cluster.asking import EXACT, PARTIAL, REFUSED, WRONG, Asking, Tally
from benchmarks.cluster.facts import PARTS, TABLE, Questions, Versions
from benchmarks.cluster.faults import Faults, Times
from benchmarks.cluster.processes import Processes, RoleProcess, WaitedInVainError, until
from benchmarks.cluster.upkeep import Upkeep
from benchmarks.cluster.zookeeper import ZooKeeperProcess, what_is_missing

_CONVERGE_S = 90
_SETTLE_EVERY_S = 20
_ASKED, _SLOWEST, _LOST = "asked", "slowest answer, s", "segments lost, or not ONLINE in the end"
_KINDS = {
    EXACT: "exact",
    PARTIAL: "partial, and said so",
    WRONG: "wrong",
    REFUSED: "refused, by brokers that were dead or not yet ready",
}
_EVENTS = {
    "a server killed": "server killed",
    "a server leaves": "server leaves",
    "a server stands still": "server stands still",
    "a server that was killed or left is back": "server back",
    "two servers that were killed at once are back": "two servers back",
    "the lead controller killed": "leader killed",
    "… and another leads": "leader killed: another leads",
    "the lead controller stands still": "leader stands still",
    "… and another leads meanwhile": "leader stands still: another leads",
    "ZooKeeper away": "ZooKeeper away",
    "ZooKeeper back: a controller leads": "ZooKeeper back: leader",
    "everything killed, from the moment that all are ready": "all killed, and back",
}
SHAPES = {
    "chaos": report.Shape(("queries", "number"), (_ASKED, *_KINDS.values(), _SLOWEST, _LOST)),
    "chaos: recovery": report.Shape(
        ("until answers are whole again, for 1.5 s", "times", "median s", "longest s"), tuple(_EVENTS)
    ),
}


@dataclass
class Outcome:
    """The results of a run."""

    tally: Tally
    faults: dict[str, int]
    upkeep: dict[str, int]
    times: dict[str, Times]
    lost: int


class Chaos:
    """One run in a folder. rows: of each of the table's parts; patience: as for `Faults`."""

    def __init__(self, folder: Path, zookeeper: ZooKeeperProcess, seed: int, rows: int, patience: float) -> None:
        self.processes = Processes(folder, f"{zookeeper.hosts}/chaos")
        self.versions = Versions()
        self.asking = Asking(self.processes.brokers, Questions(rows), self.versions, seed, patience)
        self.upkeep = Upkeep(self.processes, folder / "built", self.versions, self.asking, rows, seed + 1)
        self.faults = Faults(self.processes, zookeeper, self.asking, seed, patience)
        self._lost = 0
        self._deep_store = folder / "deepstore" / f"{TABLE}_OFFLINE"
        (folder / "built").mkdir()

    def run(self, seconds: float) -> Outcome:
        """Run everything concurrently for the given time, then compare the final state with the expected one."""
        try:
            self.processes.start()
            self.upkeep.prepare()
            until(lambda: not self._not_settled(), _CONVERGE_S, "the first segments are online")
            self._until_brokers_know()
            self.asking.start()
            self.upkeep.start()
            stop = threading.Event()
            settling = threading.Thread(target=self._settle_at_times, args=(stop,), daemon=True)
            settling.start()
            self.faults.run(time.monotonic() + seconds)
            stop.set()
            settling.join()
            self.upkeep.stop()
            self._conclude()
        except WaitedInVainError as error:
            self.asking.note(str(error))
        finally:
            self.processes.stop()
        return Outcome(self.asking.tally, self.faults.counts, self.upkeep.counts, self.faults.times, self._lost)

    def _until_brokers_know(self) -> None:
        """Wait until brokers know the new table; earlier answers are not judged."""

        def known() -> bool:
            paths = [broker.http.get(f"/debug/routingTable/{TABLE}") for broker in self.processes.brokers]
            return all(sum(map(len, p.json().get(f"{TABLE}_OFFLINE", {}).values())) == 8 for p in paths if p.is_success)

        until(known, _CONVERGE_S, "brokers know the table")

    def _settle_at_times(self, stop: threading.Event) -> None:
        """Whenever everything happens to be idle, allow only the newest versions in answers from then on."""
        while not stop.wait(_SETTLE_EVERY_S):
            with self.upkeep.held():
                try:
                    quiet = all(process.is_up for process in self.processes.all) and not self._not_settled()
                    quiet = quiet and all(self._shows_newest(broker) for broker in self.processes.brokers)
                except Exception:  # noqa: BLE001 - something is dead just now: another time, then
                    continue
                if quiet and all(process.is_up for process in self.processes.all):
                    self.versions.settle(time.monotonic())

    def _shows_newest(self, broker: RoleProcess) -> bool:
        sql = f"SELECT part, MIN(version) FROM {TABLE} GROUP BY part LIMIT 100"
        answer = broker.http.post("/query/sql", json={"sql": sql}).json()
        shown = answer.get("resultTable", {}).get("rows", [])
        return not answer["exceptions"] and {(p, v) for p, v in shown} == {
            (p, self.versions.newest(p)) for p in range(PARTS)
        }

    def _not_settled(self) -> list[str]:
        """Return the deviations from the expected final state, by the records and by the segments each server reports."""
        names = self.upkeep.names()
        call = self.processes.call
        ideal, view = (call("GET", f"/tables/{TABLE}/{what}").json()["OFFLINE"] for what in ("idealstate", "externalview"))
        crcs = {name: str(crc) for name, crc in call("GET", f"/segments/{TABLE}/crc").json().items()}
        found = [f"segment {name} is lost" for name in sorted(names - ideal.keys())]
        for name in sorted(ideal):
            states = view.get(name, {})
            if set(states) != set(ideal[name]) or set(states.values()) != {"ONLINE"} or len(states) != 2:
                found.append(f"segment {name} is {states} instead of {ideal[name]}")
        for server in self.processes.servers:
            loaded = server.http.get(f"/tables/{TABLE}_OFFLINE/segments/crc")
            has = {name: str(crc) for name, crc in loaded.json().items()} if loaded.is_success else {}
            wanted = {name: crcs[name] for name, states in ideal.items() if server.instance in states and name in crcs}
            if has != wanted:
                found.append(f"{server.name} has {has} instead of {wanted}")
        return found

    def _conclude(self) -> None:
        """Check that, with everything running, the cluster becomes idle and complete."""
        left: list[str] = []

        def at_rest() -> bool:
            self.upkeep.clean()
            left[:] = self._not_settled()
            self._lost = sum(one.startswith("segment ") for one in left)
            there = set(self.processes.call("GET", f"/segments/{TABLE}").json()[0]["OFFLINE"])
            left.extend(f"segment {name} should be gone" for name in there - self.upkeep.names())
            left.extend(f"{one.name} shows old versions" for one in self.processes.brokers if not self._shows_newest(one))
            status = self.processes.call("GET", "/cluster/status").json()
            left.extend(str(problem) for problem in status["problems"])
            return not left

        for process in self.processes.all:
            process.wait_ready()
        try:
            until(at_rest, _CONVERGE_S, "the cluster comes to rest")
        except WaitedInVainError as error:
            for one in (str(error), *left):
                self.asking.note(one)
        self.versions.settle(time.monotonic())
        began_s = time.monotonic()
        until(
            lambda: self.asking.full_since(began_s, self.processes.brokers, 20) is not None, 30, "the last answers are whole"
        )
        self.asking.stop()
        names = {path.name.partition("__")[0] for path in self._deep_store.iterdir()}
        if names != self.upkeep.names():
            self.asking.note(f"the deep store has {sorted(names)} instead of {sorted(self.upkeep.names())}")


def show(outcome: Outcome) -> None:
    """Print events, reasons for inexact answers, recovery times and their limits, and every problem."""
    console, tally = Console(), outcome.tally
    reasons = ", ".join(f"{reason}: {count:,}" for reason, count in sorted(tally.reasons.items()))
    console.print(f"not exact because of: {reasons or 'nothing'}", markup=False)
    during = ", ".join(f"{name}: {count:,}" for name, count in sorted(tally.partial_during.items()))
    console.print(f"partial while: {during or 'nothing'}", markup=False)
    for what, times in sorted(outcome.times.items()):
        limit = "" if times.limit_s is None else f", {times.limit_s:.0f} s allowed"
        console.print(f"{what}: {len(times.took_s)} times, {max(times.took_s):.2f} s at most{limit}", markup=False)
    for title, counts in (("faults", outcome.faults), ("upkeep", outcome.upkeep)):
        console.print(f"{title}: " + ", ".join(f"{name}: {count}" for name, count in sorted(counts.items())), markup=False)
    for problem in tally.problems[:50]:
        console.print(f"PROBLEM  {problem}", markup=False)
    console.print(f"{len(tally.problems)} problems")


def tables_of(outcome: Outcome) -> tuple[report.Report, report.Report]:
    """Return the tables of answers and of recovery times; faults that did not occur have none."""
    answers, recovery = (report.Report(name, shape) for name, shape in SHAPES.items())
    answers.add(_ASKED, f"{sum(outcome.tally.kinds.values()):,}")
    for kind, case in _KINDS.items():
        answers.add(case, f"{outcome.tally.kinds[kind]:,}")
    answers.add(_SLOWEST, f"{outcome.tally.slowest_s:.1f}")
    answers.add(_LOST, str(outcome.lost))
    for case, event in _EVENTS.items():
        took_s = outcome.times[event].took_s if event in outcome.times else []
        spread = (f"{statistics.median(took_s):.2f}", f"{max(took_s):.2f}") if took_s else ("", "")
        recovery.add(case, str(len(took_s)), *spread)
    return answers, recovery


def main() -> int:
    """Run; return the status of the process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long faults follow one another")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--rows", type=int, default=20_000, help="of each of the 8 segments")
    parser.add_argument("--patience", type=float, default=1.0, help="how many times longer recoveries may take")
    parser.add_argument("--folder", type=Path, help="for data and logs; a temporary one unless given")
    arguments = report.arguments_of(parser)
    if reason := what_is_missing():
        print(f"no ZooKeeper: {reason}", file=sys.stderr)
        return 2
    folder: Path = arguments.folder or Path(tempfile.mkdtemp(prefix="gamay-chaos-"))
    (folder / "zookeeper").mkdir(parents=True)
    logging.basicConfig(filename=folder / "events.log", level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    zookeeper = ZooKeeperProcess(folder / "zookeeper")
    zookeeper.start()
    try:
        chaos = Chaos(folder, zookeeper, arguments.seed, arguments.rows, arguments.patience)
        outcome = chaos.run(arguments.minutes * 60)
    finally:
        zookeeper.stop()
    show(outcome)
    for table in tables_of(outcome):
        table.finish(writes=arguments.write_docs and not outcome.tally.problems)
    if outcome.tally.problems:
        print(f"all logs are in {folder}")
    else:
        shutil.rmtree(folder)
    return int(bool(outcome.tally.problems))


if __name__ == "__main__":
    sys.exit(main())
