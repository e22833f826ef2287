"""SIGKILL at random moments of a push, of a load and of metadata writes; then restart and look for damage.

    python -m benchmarks.kill [--rounds 50] [--seed 7]

Each round runs a cluster in a process of its own, kills it at a random moment, starts it again in another process and
compares what it answers with what had been acknowledged. Each phase keeps its data folder over all of its rounds, so that
damage would also pile up. Prints a table, and exits with status 1 when anything was lost or half there.
"""

import argparse
import io
import json
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from gamay.embedded.cluster import EmbeddedCluster
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.segment.write.builder import SegmentBuilder
from gamay.storage.archive import pack

ROWS = 20_000
SEGMENTS = 40
LONG_MS = 60_000
"""Time limits that are written as something to be found again are above this: tables are asked, too."""
TABLE = "kill"
SCHEMA: dict[str, Any] = {
    "schemaName": TABLE,
    "dimensionFieldSpecs": [{"name": "segment", "dataType": "INT"}, {"name": "name", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}],
}
CONFIG: dict[str, Any] = {
    "tableName": TABLE,
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "1"},
    "tenants": {},
    "tableIndexConfig": {"invertedIndexColumns": ["name"]},
    "metadata": {},
}

Say = Callable[[str], None]
Work = Callable[[Path, Path, list[str], Say], None]
Acknowledged = dict[str, Any]


@dataclass
class Outcome:
    """The results of the rounds of one phase."""

    rounds: int = 0
    killed_in_work: int = 0
    acknowledged: int = 0
    lost: int = 0
    partly_there: int = 0
    not_started: int = 0
    restart_s: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def start(data_dir: Path) -> EmbeddedCluster:
    """Open the cluster of a round; kernels are compiled by the queries, as they are not under test."""
    return EmbeddedCluster(data_dir, 0, 0, 0, threads=1, warm_up=False).start()


def client(cluster: EmbeddedCluster) -> httpx.Client:
    """Return a client of the cluster's controller."""
    return httpx.Client(base_url=cluster.controller_url, timeout=60, trust_env=False)


def build_archives(folder: Path) -> dict[str, Any]:
    """Write `SEGMENTS` archives of `ROWS` rows each; segment i has i in every row. Return their number."""
    schema, config = Schema.from_json(SCHEMA).value, TableConfig.from_json(CONFIG).value
    pipeline = Pipeline(schema, config)
    for number in range(SEGMENTS):
        builder = SegmentBuilder(schema, config, f"{TABLE}_{number}", folder / "built")
        rows = pa.table(
            {
                "segment": pa.array([number] * ROWS, pa.int32()),
                "name": [f"name {(number * 7 + i) % 5000}" for i in range(ROWS)],
                "n": pa.array(range(ROWS), pa.int64()),
            }
        )
        for batch in rows.to_batches():
            builder.append(pipeline.apply(batch))
        pack(builder.build(), folder / f"{TABLE}_{number}.tar.gz")
    shutil.rmtree(folder / "built")
    return {"archives": SEGMENTS}


def push_one(api: httpx.Client, archive: Path) -> None:
    """Push one archive; raises if it is not acknowledged."""
    file = io.BytesIO(archive.read_bytes())
    answer = api.post("/v2/segments", params={"tableName": TABLE}, files={"file": (archive.name, file)})
    answer.raise_for_status()


# what is killed


def push(data_dir: Path, archives: Path, _: list[str], say: Say) -> None:
    """Push segments forever, deleting and pushing again once all exist."""
    with start(data_dir) as cluster, client(cluster) as api:
        say("ready")
        there = set(api.get(f"/segments/{TABLE}").json()[0]["OFFLINE"])
        while True:
            for number in range(SEGMENTS):
                name = f"{TABLE}_{number}"
                if name in there:
                    continue
                push_one(api, archives / f"{name}.tar.gz")
                say(f"+{name}")
            for name in sorted(there or {f"{TABLE}_0"}):
                say(f"?{name}")
                api.delete(f"/segments/{TABLE}/{name}", params={"retention": "0d"}).raise_for_status()
                say(f"-{name}")
            there = set()


def load(data_dir: Path, _: Path, __: list[str], say: Say) -> None:
    """Reload every segment: the server's copies are gone, so each is unpacked, checked and opened."""
    shutil.rmtree(data_dir / "server", ignore_errors=True)
    say("ready")
    with start(data_dir) as cluster, client(cluster) as api:
        while True:
            api.post(f"/segments/{TABLE}/reload", params={"forceDownload": "true"}).raise_for_status()
            time.sleep(0.05)


def write_metadata(data_dir: Path, archives: Path, known: list[str], say: Say) -> None:
    """Change the cluster's records forever: settings, schemas, tables, and segments registered without being copied."""
    counter = max((int(name[1:]) for name in known if name.startswith("c")), default=0)
    with start(data_dir) as cluster, client(cluster) as api:
        say("ready")
        while True:
            counter += 1
            api.post("/cluster/configs", json={"counter": str(counter)}).raise_for_status()
            say(f"+c{counter}")
            name = f"t{counter}"
            api.post("/schemas", json={**SCHEMA, "schemaName": name}).raise_for_status()
            api.post("/tables", json={**CONFIG, "tableName": name}).raise_for_status()
            say(f"+{name}")
            api.put(
                f"/tables/{name}", json={**CONFIG, "tableName": name, "query": {"timeoutMs": LONG_MS + counter}}
            ).raise_for_status()
            say(f"+u{counter}")
            if counter % 2:
                say(f"?{name}")
                api.delete(f"/tables/{name}", params={"retention": "0d"}).raise_for_status()
                api.delete(f"/schemas/{name}").raise_for_status()
                say(f"-{name}")


# what is looked at after the restart


def check_segments(data_dir: Path, expected: Acknowledged) -> dict[str, Any]:
    """Compare the queryable segments with those acknowledged; they must have all their rows, with the right sum."""
    cluster = start(data_dir)
    query = f"SELECT segment, COUNT(*), SUM(n) FROM {TABLE} GROUP BY segment LIMIT 100000"
    response = cluster.core.runner.run(query)
    found = {f"{TABLE}_{row[0]}": (row[1], row[2]) for row in (response.table.rows() if response.table else [])}
    with client(cluster) as api:
        listed = set(api.get(f"/segments/{TABLE}").json()[0]["OFFLINE"])
        states = {s["segmentName"]: s["segmentStatus"] for s in api.get(f"/tables/{TABLE}/segmentsStatus").json()}
    whole = (ROWS, ROWS * (ROWS - 1) / 2)
    problems = [f"{name} has {got} instead of {whole}" for name, got in found.items() if got != whole]
    problems += [f"{name} is listed, but does not answer" for name in sorted(listed - found.keys())]
    problems += [f"{name} answers, but is not listed" for name in sorted(found.keys() - listed)]
    problems += [f"{name} is {state}" for name, state in states.items() if state != "GOOD"]
    problems += [f"the query is answered with {error}" for error in response.exceptions]
    copies = {path.name.partition("__")[0] for path in (data_dir / "deepstore" / f"{TABLE}_OFFLINE").glob("*")}
    problems += [f"{name} has a copy that nothing refers to" for name in sorted(copies - listed)]
    problems += [f"{path.name} is left in tmp" for path in (data_dir / "tmp").iterdir()]
    cluster.stop()
    there = set(expected["there"]) - set(expected["unsure"])
    return {"lost": sorted(there - found.keys()), "problems": problems, "there": sorted(found), "unsure": []}


def check_metadata(data_dir: Path, expected: Acknowledged) -> dict[str, Any]:
    """Compare settings and tables with those acknowledged; a table exists with schema, state and route, or not at all."""
    cluster = start(data_dir)
    with client(cluster) as api:
        counter = int(api.get("/cluster/configs").json().get("counter", "0"))
        tables, schemas = set(api.get("/tables").json()["tables"]), set(api.get("/schemas").json())
        configs = {name: api.get(f"/tables/{name}").json()["OFFLINE"] for name in sorted(tables)}
        states = {name: api.get(f"/tables/{name}/idealstate").status_code for name in sorted(tables)}
    there, unsure = set(expected["there"]), set(expected["unsure"])
    lost = [name for name in sorted(there - unsure) if name.startswith("t") and name not in tables]
    lost += [name for name in there if name.startswith("c") and int(name[1:]) > counter]
    for name in sorted(there - unsure):
        table = f"t{name[1:]}"
        if name.startswith("u") and table in configs and table not in unsure:
            lost += [name] if (configs[table].get("query") or {}).get("timeoutMs") != LONG_MS + int(name[1:]) else []
    problems = [f"table {name} has no schema" for name in sorted(tables - schemas)]
    problems += [f"table {name} has no ideal state" for name, status in states.items() if status != 200]
    for name in sorted(tables - {TABLE}):
        response = cluster.core.runner.run(f"SELECT COUNT(*) FROM {name}")
        problems += [f"table {name}: {error}" for error in response.exceptions]
    gone = expected.get("gone", [])
    problems += [f"table {name} was deleted, and is back" for name in gone if name in tables]
    cluster.stop()
    return {"lost": lost, "problems": problems, "there": [f"c{counter}", *sorted(tables - {TABLE})], "unsure": []}


PHASES: dict[str, tuple[Work, Callable[[Path, Acknowledged], dict[str, Any]], float]] = {
    "push": (push, check_segments, 1.0),
    "load": (load, check_segments, 1.0),
    "metadata write": (write_metadata, check_metadata, 1.0),
}


# processes


def forked(body: Callable[[Say], None]) -> tuple[int, int]:
    """Run `body` in a child of this process; return its id and the end of a pipe with its output, by lines.

    Forking from a process that has only imported Gamay saves every round the seconds of importing it.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    os.close(reading)
    status = 1
    try:
        with os.fdopen(writing, "w", buffering=1) as pipe:
            body(partial(print, file=pipe))
        status = 0
    except BaseException:  # noqa: BLE001 - the child must end here, whatever happens, and say why
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def whole_lines(reading: int, first: bytes = b"") -> list[str]:
    """Read to the end; a line truncated by the kill is dropped."""
    with os.fdopen(reading, "rb") as pipe:
        text = (first + pipe.read()).decode()
    return text.splitlines() if text.endswith("\n") else text.splitlines()[:-1]


def run_and_kill(body: Callable[[Say], None], delay_s: float) -> tuple[list[str], bool]:
    """Kill a child a number of seconds after it is ready; return what it acknowledged, and whether the kill ended it."""
    child, reading = forked(body)
    first = os.read(reading, 1 << 16)
    time.sleep(delay_s)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    lines = whole_lines(reading, first)
    return lines[1:], os.WIFSIGNALED(status) and lines[:1] == ["ready"]


def ask(body: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    """Return a child's result, or None if it failed."""
    child, reading = forked(lambda say: say(json.dumps(body())))
    lines = whole_lines(reading)
    _, status = os.waitpid(child, 0)
    found: dict[str, Any] | None = json.loads(lines[-1]) if status == 0 and lines else None
    return found


def acknowledge(before: Acknowledged, lines: list[str]) -> Acknowledged:
    """Return the expected state after the lines of one round; `unsure`: the deletion in progress at the kill."""
    there, unsure, gone = set(before["there"]), set(before["unsure"]), set(before.get("gone", []))
    for line in lines:
        kind, name = line[0], line[1:]
        if kind == "+":
            there.add(name)
        elif kind == "?":
            unsure.add(name)
        else:
            there.discard(name)
            unsure.discard(name)
            gone.add(name)
    return {"there": sorted(there), "unsure": sorted(unsure), "gone": sorted(gone)}


def run_phase(name: str, folder: Path, archives: Path, rounds: int, rng: random.Random) -> Outcome:
    """Run all rounds of one phase in a separate data folder."""
    work, check, span_s = PHASES[name]
    data_dir, outcome = folder / name.replace(" ", "-"), Outcome()
    known: Acknowledged = ask(partial(prepare, data_dir, archives, name == "load")) or sys.exit("cannot prepare")
    for _ in range(rounds):
        acknowledged = list(known["there"])
        lines, killed = run_and_kill(partial(work, data_dir, archives, acknowledged), rng.uniform(0.0, span_s))
        outcome.rounds += 1
        outcome.killed_in_work += killed
        outcome.acknowledged += sum(line[0] in "+-" for line in lines)
        expected = acknowledge(known, lines)
        started_s = time.monotonic()
        found = ask(partial(check, data_dir, expected))
        outcome.restart_s.append(time.monotonic() - started_s)
        if found is None:
            outcome.not_started += 1
            outcome.problems.append(f"round {outcome.rounds}: the restart failed")
            break
        outcome.lost += len(found["lost"])
        outcome.partly_there += len(found["problems"])
        outcome.problems += [f"round {outcome.rounds}: {text}" for text in (*found["lost"], *found["problems"])]
        known = found
    return outcome


def prepare(data_dir: Path, archives: Path, filled: bool) -> Acknowledged:
    """Create the table, with all its segments if the phase needs them."""
    with start(data_dir) as cluster, client(cluster) as api:
        api.post("/schemas", json=SCHEMA).raise_for_status()
        api.post("/tables", json=CONFIG).raise_for_status()
        names = [f"{TABLE}_{number}" for number in range(SEGMENTS if filled else 0)]
        for name in names:
            push_one(api, archives / f"{name}.tar.gz")
        return {"there": names, "unsure": []}


def show(outcomes: dict[str, Outcome]) -> None:
    """Print one row for each phase, and every problem."""
    console = Console()
    table = Table(title="SIGKILL, restart, compare")
    for heading in ("phase", "rounds", "killed", "acked", "lost", "half there", "no start", "restart s"):
        table.add_column(heading, justify="left" if heading == "phase" else "right")
    for name, outcome in outcomes.items():
        median = sorted(outcome.restart_s)[len(outcome.restart_s) // 2] if outcome.restart_s else 0.0
        counts = (outcome.rounds, outcome.killed_in_work, outcome.acknowledged, outcome.lost, outcome.partly_there)
        table.add_row(name, *map(str, counts), str(outcome.not_started), f"{median:.2f}")
    console.print(table)
    for name, outcome in outcomes.items():
        for problem in outcome.problems:
            console.print(f"{name}, {problem}", markup=False)


def main() -> int:
    """Run all phases; return the status of the process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50, help="of each phase")
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    rng = random.Random(arguments.seed)
    outcomes: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="gamay-kill-") as name:
        folder = Path(name)
        archives = folder / "archives"
        archives.mkdir()
        if ask(partial(build_archives, archives)) is None:
            return 1
        for phase in PHASES:
            outcomes[phase] = run_phase(phase, folder, archives, arguments.rounds, rng)
    show(outcomes)
    return int(any(o.problems for o in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
