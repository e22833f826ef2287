"""SIGKILL at random moments: acknowledged pushes are queryable, others are complete or absent.

`GAMAY_KILLS` is the number of kills per test.
"""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.seeds import count_of

import gamay

WORKER = Path(__file__).with_name("kill_worker.py")
ROWS = 200
KILLS = count_of("GAMAY_KILLS", 3)


def run_and_kill(arguments: list[str], rng: random.Random) -> list[str]:
    """Run the worker, kill it at a random moment after it is ready, and return what it acknowledged."""
    process = subprocess.Popen([sys.executable, str(WORKER), *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(rng.uniform(0.0, 0.25))
    process.send_signal(signal.SIGKILL)
    rest = process.stdout.read()
    process.wait()
    # A line that the kill cut short was written before it, so what it begins to say was acknowledged too; it is left out.
    return [line for line in rest.splitlines(keepends=True) if line.endswith("\n")]


@pytest.mark.chaos
def test_acknowledged_pushes_survive(
    tmp_path: Path, open_api: Callable[[Path], Any], make_segment: Callable[..., Path]
) -> None:
    rng = random.Random(7)
    data_dir = tmp_path / "data"
    first = open_api(data_dir)
    first.create()
    first.stop()
    archives = [str(make_segment(f"trips_{i}", [i] * ROWS)) for i in range(60)]
    acknowledged: set[str] = set()
    for _ in range(KILLS):
        start = min(len(acknowledged), len(archives) - 10)
        lines = run_and_kill(["push", str(data_dir), str(start), *archives], rng)
        acknowledged |= {line.strip() for line in lines} - {"end"}
        api = open_api(data_dir)
        assert api.cluster.ready
        found = {f"trips_{value}": count for value, count in api.rows("SELECT n, count(*) FROM trips GROUP BY n LIMIT 1000")}
        assert acknowledged <= found.keys()
        assert set(found.values()) <= {ROWS}
        listed = set(api.controller.get("/segments/trips").json()[0]["OFFLINE"])
        assert listed == found.keys()
        copies = {p.name.partition("__")[0] for p in (data_dir / "deepstore" / "trips_OFFLINE").glob("*")}
        assert copies == listed
        assert list((data_dir / "tmp").iterdir()) == []
        api.stop()


@pytest.mark.chaos
def test_acknowledged_appends_survive(tmp_path: Path) -> None:
    rng = random.Random(11)
    data_dir = tmp_path / "data"
    schema = {
        "dimensionFieldSpecs": [{"name": "batch", "dataType": "INT"}, {"name": "n", "dataType": "INT"}],
    }
    with gamay.connect(data_dir) as database:
        database.create_table("numbers", pa.table({"batch": [-1] * 10, "n": list(range(10))}), schema=schema)
    acknowledged = {-1}
    for _ in range(KILLS):
        lines = run_and_kill(["append", str(data_dir), str(max(acknowledged) + 1000)], rng)
        acknowledged |= {int(line) for line in lines}
        with gamay.connect(data_dir) as database:
            found = dict(database.sql("SELECT batch, count(*) FROM numbers GROUP BY batch LIMIT 100000").rows())
        assert acknowledged <= found.keys()
        assert set(found.values()) == {10}
        acknowledged |= found.keys()
