"""SIGKILL of drivers, executors and Python workers at random moments of writes, replacements, streams and pushes.

    python -m benchmarks.spark_chaos [--rounds 50] [--seed 7] [--kinds write replace stream push]

Spark is a standalone master with two workers, tasks are run twice by forced speculation, and the cluster is one in this
process. In each round a driver does one thing, and it, an executor or a Python worker is killed at a random moment of that;
then it is done again until it succeeds, by the same driver unless that was killed. Meanwhile a reader asks for counts and
sums, which are those from before or those from after; in the end they are those from after, and the table has no segment
that is neither shown nor replaced. Prints a table, and exits with status 1 when anything was wrong.
"""

import argparse
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks.cluster.standalone import standalone
from gamay.client import ControllerClient, connect
from gamay.embedded.cluster import EmbeddedCluster

ROWS, PARTITIONS = 20_000, 6
KINDS = ("write", "replace", "stream", "push")
VICTIMS = {
    "driver": "benchmarks.spark_chaos",
    "executor": "CoarseGrainedExecutorBackend",
    "Python worker": "-m gamay.spark.session.daemon",  # Java of a driver names the module, too
}
BEGUN, DONE, FAILED = "begun", "done", "failed"
TRIES, DRIVER_S, SETTLE_S = 5, 300.0, 60.0
SCHEMA = {"dimensionFieldSpecs": [{"name": "n", "dataType": "LONG"}, {"name": "v", "dataType": "LONG"}]}
BATCH = {"batchIngestionConfig": {"segmentIngestionType": "REFRESH", "consistentDataPush": True}}
SPECULATION = {
    "spark.speculation": "true", "spark.speculation.interval": "50ms", "spark.speculation.multiplier": "1.001",
    "spark.speculation.quantile": "0.1", "spark.speculation.minTaskRuntime": "10ms", "spark.executor.memory": "600m",
    "spark.python.daemon.module": "gamay.spark.session.daemon", "spark.driver.host": "127.0.0.1",
}  # fmt: skip
State = tuple[int, int]


@dataclass
class Findings:
    """The results of the rounds of one kind."""

    rounds: int = 0
    killed: dict[str, int] = field(default_factory=dict)
    repeated: int = 0
    asked: int = 0
    problems: list[str] = field(default_factory=list)


# -- the driver, a process of its own


def drive(controller: str, master: str, folder: Path) -> None:
    """Run the rounds read from standard input, a kind and a number each, and report the start and the outcome of each."""
    from gamay.spark import local_session, register
    from gamay.spark.session.gateway import has_ended

    spark = local_session("gamay-chaos", configs={"spark.master": master, **SPECULATION})
    register(spark)
    for line in sys.stdin:
        kind, number = line.split()
        print(BEGUN, flush=True)
        try:
            act(spark, kind, controller, folder, int(number))
        except Exception:  # noqa: BLE001 - it is done again
            traceback.print_exc()
            print(FAILED, flush=True)
            if has_ended(spark):
                break
        else:
            print(DONE, flush=True)
    spark.stop()


def act(spark: Any, kind: str, controller: str, folder: Path, number: int) -> None:
    """Run one round on Spark."""
    from gamay.spark import run_job
    from gamay.spark.building import push

    push.FEWEST_FOR_EXECUTORS = 1 if number % 2 else 1000  # executors push in every second round
    options = {"controller": controller, "table": kind, "jobId": f"round-{number}"}
    rows = spark.range(number * ROWS, (number + 1) * ROWS, 1, PARTITIONS)
    if kind == "write":
        rows.selectExpr("id AS n", f"{number} AS v").write.format("gamay").mode("append").options(**options).save()
    elif kind == "replace":
        replaced = rows.selectExpr(f"id - {number * ROWS} AS n", f"{number} AS v").write.format("gamay").mode("overwrite")
        replaced.options(**options, replaceWhere=f"n >= 0 AND n < {ROWS}").save()
    elif kind == "stream":
        del options["jobId"]
        stream = spark.readStream.schema("n LONG, v LONG").parquet(str(folder / "stream"))
        query = stream.repartition(PARTITIONS).writeStream.format("gamay").options(**options)
        query.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
    else:
        run_job(
            {
                "jobType": "SegmentCreationAndTarPush", "inputDirURI": str(folder / "push"), "overwriteOutput": True,
                "outputDirURI": str(folder / "segments"), "tableSpec": {"tableName": kind},
                "pinotClusterSpecs": [{"controllerURI": controller}], "pushJobSpec": {"pushParallelism": 2},
            },
            spark,
        )  # fmt: skip


# -- what kills it


def below(root: int) -> dict[int, str]:
    """Return the command lines of a process and its descendants, by their ids."""
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                commands[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:  # it has ended
                parents.pop(int(entry.name), None)

    def is_below(pid: int) -> bool:
        while pid and pid != root:
            pid = parents.get(pid, 0)
        return bool(pid)

    return {pid: command for pid, command in commands.items() if is_below(pid)}


def kill(victim: str, driver: int) -> bool:
    """Kill a driver with its Java process, or another victim below this process; return whether there was one."""
    found = below(driver if victim == "driver" else os.getpid())
    chosen = [pid for pid, command in found.items() if victim == "driver" or VICTIMS[victim] in command]
    for pid in chosen if victim == "driver" else chosen[-1:]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return bool(chosen)


class Chaos:
    """The rounds of one kind. expected: the states that the reader may see now."""

    def __init__(self, kind: str, cluster: EmbeddedCluster, master: str, folder: Path, rng: random.Random) -> None:
        self._kind, self._cluster, self._master, self._folder, self._rng = kind, cluster, master, folder, rng
        self._typical_s = 5.0  # of the work of a round
        self._driver: subprocess.Popen[bytes] | None = None
        self.found = Findings()
        with ControllerClient(cluster.controller_url) as client:
            client.add_schema({"schemaName": kind, **SCHEMA})
            ingestion = BATCH if kind == "push" else {}
            client.add_table(
                {
                    "tableName": kind, "tableType": "OFFLINE", "tenants": {}, "tableIndexConfig": {},
                    "segmentsConfig": {"replication": "1"}, "ingestionConfig": ingestion,
                }
            )  # fmt: skip
        cluster.core.wait_until_routed(f"{kind}_OFFLINE")

    def state(self, number: int) -> State:
        """Return rows and the sum of `v` after a round; -1: before the first one."""
        if number < 0:
            return 0, 0
        if self._kind in ("replace", "push"):
            return ROWS, number * ROWS
        return (number + 1) * ROWS, sum(range(number + 1)) * ROWS

    def run(self, rounds: int, say: Callable[[str], None]) -> Findings:
        """Run the rounds, the first without a kill. Undisturbed rounds determine how long rounds take."""
        for number in range(rounds):
            self._prepare(number)
            with self._reading({self.state(number - 1), self.state(number)}):
                self._until_done(number)
                self._settle(self.state(number))
            self._check_orphans(number)
            self.found.rounds += 1
            if self.found.rounds % 10 == 0:
                killed, problems = sum(self.found.killed.values()), len(self.found.problems)
                say(f"{self._kind}: {self.found.rounds} rounds, {killed} killed, {problems} problems")
        return self.found

    def _prepare(self, number: int) -> None:
        if self._kind not in ("stream", "push"):
            return
        target = self._folder / self._kind
        target.mkdir(exist_ok=True)
        for part in range(PARTITIONS):
            size = ROWS // PARTITIONS + (part < ROWS % PARTITIONS)
            table = pa.table({"n": pa.array(range(size), pa.int64()), "v": pa.array([number] * size, pa.int64())})
            name = f"{number}-{part}" if self._kind == "stream" else str(part)
            pq.write_table(table, target / f".{name}.parquet")
            (target / f".{name}.parquet").rename(target / f"{name}.parquet")

    def _until_done(self, number: int) -> None:
        for attempt in range(TRIES):
            victim = self._rng.choice(list(VICTIMS)) if number and not attempt else None
            if self._attempt(number, victim):
                return
            self.found.repeated += 1
        self.found.problems.append(f"{self._kind} {number}: not done in {TRIES} tries, see {self._log}")

    @property
    def _log(self) -> Path:
        return self._folder / f"driver-{self._kind}.log"

    def _attempt(self, number: int, victim: str | None) -> bool:
        driver = self._driver or self._start_driver()
        self._driver = driver
        assert driver.stdin is not None
        told: queue.Queue[str] = queue.Queue()
        listener = threading.Thread(target=self._listen, args=(driver, told), daemon=True)
        listener.start()
        try:
            driver.stdin.write(f"{self._kind} {number}\n".encode())
            driver.stdin.flush()
            assert told.get(timeout=DRIVER_S) == BEGUN
            begun, is_killed = time.monotonic(), False
            if victim is not None:
                time.sleep(self._rng.uniform(0, self._typical_s))
                is_killed = told.empty() and kill(victim, driver.pid)
                self.found.killed[victim] = self.found.killed.get(victim, 0) + is_killed
            outcome = told.get(timeout=DRIVER_S)
        except (queue.Empty, OSError):
            kill("driver", driver.pid)
            outcome = ""
        if outcome == DONE and not is_killed:
            self._typical_s = time.monotonic() - begun
        if outcome not in (DONE, FAILED):
            self.close()
        return outcome == DONE

    def _start_driver(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "benchmarks.spark_chaos", "--drive", self._cluster.controller_url]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [*command, self._master, str(self._folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )

    @staticmethod
    def _listen(driver: "subprocess.Popen[bytes]", told: "queue.Queue[str]") -> None:
        """Forward a driver's reports on one round; empty: it has ended."""
        assert driver.stdout is not None
        while (line := driver.stdout.readline().decode().strip()) not in ("", DONE, FAILED):
            if line == BEGUN:
                told.put(line)
        told.put(line)

    def close(self) -> None:
        """End the driver, if there is one."""
        if self._driver is not None:
            with self._driver as driver, suppress(BrokenPipeError):
                assert driver.stdin is not None
                driver.stdin.close()
            self._driver = None

    def _asked(self, connection: Any) -> State:
        ((count, total),) = connection.execute(f"SELECT COUNT(*), SUM(v) FROM {self._kind}").rows()
        self.found.asked += 1
        return int(count), int(total or 0)

    @contextmanager
    def _reading(self, expected: set[State]) -> Iterator[None]:
        stop = threading.Event()

        def read() -> None:
            with connect(self._cluster.broker_url, None) as connection:
                while not stop.wait(0.02):
                    state = self._asked(connection)
                    if state not in expected:
                        self.found.problems.append(f"{self._kind}: a reader saw {state}, not one of {sorted(expected)}")

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield
        finally:
            stop.set()
            reader.join()

    def _settle(self, wanted: State) -> None:
        give_up, state = time.monotonic() + SETTLE_S, None
        with connect(self._cluster.broker_url, None) as connection:
            while time.monotonic() < give_up:
                if (state := self._asked(connection)) == wanted:
                    return
                time.sleep(0.05)
        self.found.problems.append(f"{self._kind}: {state} after all, not {wanted}")

    def _check_orphans(self, number: int) -> None:
        with ControllerClient(self._cluster.controller_url) as client:
            replaced = {
                name
                for entry in client.lineage(self._kind).values()
                if entry["state"] == "COMPLETED"
                for name in entry["segmentsFrom"]
            }
            shown = set(client.list_segments(self._kind, queried_only=True))
            orphans = set(client.list_segments(self._kind)) - shown - replaced
        if orphans:
            self.found.problems.append(f"{self._kind} {number}: {len(orphans)} orphans, such as {min(orphans)}")


def campaign(kinds: list[str], rounds: int, seed: int, say: Callable[[str], None]) -> dict[str, Findings]:
    """Run the rounds of each kind, and return the results."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="gamay-chaos-") as path, standalone(Path(path)) as master:
        cluster = EmbeddedCluster(Path(path) / "data", 0, 0, 0, threads=1, warm_up=False).start()
        try:
            for kind in kinds:
                chaos = Chaos(kind, cluster, master, Path(path), random.Random(f"{seed} {kind}"))
                try:
                    found[kind] = chaos.run(rounds, say)
                finally:
                    chaos.close()
                say(f"{kind}: {rounds} rounds, {len(found[kind].problems)} problems")
                for problem in found[kind].problems[:20]:
                    say(problem)
        finally:
            cluster.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=KINDS)
    parser.add_argument("--drive", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.drive:
        controller, master, folder = arguments.drive
        drive(controller, master, Path(folder))
        return
    table = Table("kind", "rounds", "killed", "done again", "asked", "problems")
    found = campaign(arguments.kinds, arguments.rounds, arguments.seed, lambda text: print(text, flush=True))
    for kind, one in found.items():
        killed = ", ".join(f"{count} × {victim}" for victim, count in sorted(one.killed.items()))
        table.add_row(kind, str(one.rounds), killed, str(one.repeated), f"{one.asked:,}", str(len(one.problems)))
    Console(width=140).print(table)
    sys.exit(any(one.problems for one in found.values()))


if __name__ == "__main__":
    main()
