"""SIGKILL of minions at random moments of MergeRollupTasks: rows stay the same, and no leftovers remain.

    python -m benchmarks.minion_chaos [--rounds 50] [--seed 7]

A controller, a broker, a server, two minions and a ZooKeeper, each a process. In each round the segments of a new day are
pushed and merged; a minion is killed at a random moment of that, and started again. A reader asks for counts and sums all
the time. In the end the task is COMPLETED, the lineage has no open entry, every segment is shown or replaced, and the deep
store has the copies of these and no others. Prints what it did, and exits with status 1 when anything was wrong.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from benchmarks.cluster.processes import Processes, RoleProcess, WaitedInVainError, until
from benchmarks.cluster.zookeeper import ZooKeeperProcess, what_is_missing

TASK, TABLE = "MergeRollupTask", "m_OFFLINE"
DAY_MS = 86_400_000
FIRST_MS = 19_000 * DAY_MS
ROWS, PARTS = 2_000, 3
PATIENCE_S = 300
SCHEMA = {
    "schemaName": "m",
    "dimensionFieldSpecs": [{"name": "k", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
}
LEVELS = {"d.bucketTimePeriod": "1d", "d.bufferTimePeriod": "1d", "d.maxNumRecordsPerSegment": "1000"}
CONFIG = {
    "tableName": "m", "tableType": "OFFLINE", "tenants": {}, "tableIndexConfig": {},
    "segmentsConfig": {"timeColumnName": "ts", "replication": "1", "segmentPushType": "APPEND"},
    "task": {"taskTypeConfigsMap": {TASK: LEVELS}},
}  # fmt: skip


class Chaos:
    """One run in a folder. problems: deviations from the expected state; killed: the number of minions."""

    def __init__(self, folder: Path, zookeeper: ZooKeeperProcess, seed: int) -> None:
        self._folder, self._rng = folder, random.Random(seed)
        zk = f"{zookeeper.hosts}/chaos"
        self._processes = Processes(folder, zk, controllers=1, brokers=1, servers=1)
        self._minions = [
            RoleProcess("minion", number, folder, zk, "--data-dir", str(folder / f"minion{number}")) for number in range(2)
        ]
        self._typical_s = 2.0
        self.killed = self.asked = 0
        self.problems: list[str] = []

    def run(self, rounds: int) -> None:
        """Run the rounds; no minion is killed in the first one."""
        everything = [*self._processes.all, *self._minions]
        try:
            for process in everything:
                process.start()
            for process in everything:
                process.wait_ready()
            self._call("POST", "/schemas", json=SCHEMA)
            self._call("POST", "/tables", json=CONFIG)
            for number in range(rounds):
                self._push(number)
                with self._reading(self._total()):
                    self._merge(number)
                self.problems += [f"round {number}: {problem}" for problem in self._left()]
                if number % 10 == 9:
                    print(f"{number + 1} rounds, {self.killed} killed, {len(self.problems)} problems", flush=True)
        except WaitedInVainError as error:
            self.problems.append(str(error))
        finally:
            for process in everything:
                process.kill()

    def _call(self, method: str, path: str, **more: Any) -> Any:
        answer = self._processes.call(method, path, timeout_s=PATIENCE_S, **more)
        answer.raise_for_status()
        return answer.json()

    def _total(self) -> list[Any]:
        sql = "SELECT COUNT(*), SUM(n), MIN(ts), MAX(ts) FROM m"
        answer = self._processes.brokers[0].http.post("/query/sql", json={"sql": sql}).json()
        self.asked += 1
        return list(answer["resultTable"]["rows"][0]) if not answer["exceptions"] else [0]

    def _push(self, day: int) -> None:
        """Push the segments of a day, and wait until they are queryable."""
        for part in range(PARTS):
            begin = FIRST_MS + day * DAY_MS + part * DAY_MS // PARTS
            times = (begin + i * (DAY_MS // PARTS // ROWS) for i in range(ROWS))
            lines = b"\n".join(orjson.dumps({"k": f"k{i % 9}", "n": i, "ts": ts}) for i, ts in enumerate(times))
            params = {"tableNameWithType": TABLE, "batchConfigMapStr": '{"inputFormat": "json"}'}
            self._call("POST", "/ingestFromFile", params=params, files={"file": ("rows.json", lines)})
        until(lambda: self._total()[0] == (day + 1) * PARTS * ROWS, PATIENCE_S, f"the rows of day {day} are shown")

    def _merge(self, number: int) -> None:
        begun, is_killed = time.monotonic(), False
        job = self._call("POST", "/tasks/schedule", params={"taskType": TASK, "tableName": TABLE}).get(TASK)
        if job is None:
            self.problems.append(f"round {number}: there is nothing to merge")
            return
        if number:
            time.sleep(self._rng.uniform(0, self._typical_s))
            names = {minion.instance: minion for minion in self._minions}
            subtasks = self._call("GET", f"/tasks/task/{job}/debug", params={"verbosity": 1})["subtaskInfos"]
            busy = [names[one["participant"]] for one in subtasks if one.get("participant") in names]
            victim = self._rng.choice(busy or self._minions)
            victim.kill()
            self.killed, is_killed = self.killed + 1, True
            victim.start()
        until(lambda: self._call("GET", f"/tasks/task/{job}/state") == "COMPLETED", PATIENCE_S, f"{job} is done")
        if not is_killed:
            self._typical_s = time.monotonic() - begun
        for minion in self._minions:
            minion.wait_ready()

    @contextmanager
    def _reading(self, expected: list[Any]) -> Iterator[None]:
        stop = threading.Event()

        def read() -> None:
            while not stop.wait(0.05):
                if (found := self._total()) != expected:
                    self.problems.append(f"a reader saw {found}, not {expected}")

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield
        finally:
            stop.set()
            reader.join()

    def _left(self) -> list[str]:
        """Return what dead minions left behind."""
        document = self._processes.call("GET", "/segments/m/lineage", params={"type": "OFFLINE"})
        entries = orjson.loads(document.content)["lineageEntries"].values() if document.content else []
        replaced = {name for one in entries if one["state"] == "COMPLETED" for name in one["segmentsFrom"]}
        names, shown = (
            set(self._call("GET", "/segments/m", params={"type": "OFFLINE", **more})[0]["OFFLINE"])
            for more in ({}, {"excludeReplacedSegments": "true"})
        )
        copies = {
            path.name.partition(".tar")[0].rpartition("__")[0] for path in (self._folder / "deepstore" / TABLE).iterdir()
        }
        return [
            *(f"entry {one['segmentsTo']} is {one['state']}" for one in entries if one["state"] == "IN_PROGRESS"),
            *(f"segment {name} is hidden" for name in sorted(names - shown - replaced)),
            *(f"copy {name} belongs to nobody" for name in sorted(copies - names)),
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    if missing := what_is_missing():
        sys.exit(missing)
    with tempfile.TemporaryDirectory(prefix="gamay-minions-") as path:
        (Path(path) / "zookeeper").mkdir()
        zookeeper = ZooKeeperProcess(Path(path) / "zookeeper")
        zookeeper.start()
        try:
            chaos = Chaos(Path(path), zookeeper, arguments.seed)
            chaos.run(arguments.rounds)
        finally:
            zookeeper.stop()
    print(
        f"{arguments.rounds} rounds, {chaos.killed} minions killed, {chaos.asked:,} answers, {len(chaos.problems)} problems"
    )
    print("\n".join(chaos.problems[:20]))
    sys.exit(bool(chaos.problems))


if __name__ == "__main__":
    main()
