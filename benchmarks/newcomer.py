"""A new user's path, timed: from `pip install` to the first answer about their CSV file, in Python, shell and console.

    python -m benchmarks.newcomer                     # a wheel, a new environment, everything downloaded
    python -m benchmarks.newcomer --python .venv/bin/python   # in an environment that has Gamay: no installation

Each of the three ways may take three commands or clicks at most, and a minute once the kernels are compiled. Exits with 1
where one takes more. What was measured goes to build/newcomer.json, too.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
from tests.console.browser import PATIENCE_MS, launched

from benchmarks.cluster.ports import free_port
from gamay.base.rng import new_rng

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "build" / "newcomer.json"
ROWS, CITIES = 10_000, ("Oslo", "Rome", "Lima")
SECONDS_MAX, ACTS_MAX = 60.0, 3
QUERY = "SELECT city, COUNT(*) AS n FROM trips GROUP BY city ORDER BY n DESC"
IN_PYTHON = f'''
import gamay
db = gamay.connect("first.db")
db.create_table("trips", "trips.csv")
print(db.sql("{QUERY}").rows())
'''


@dataclass(frozen=True)
class Step:
    """A step of the tour. acts: commands or clicks."""

    name: str
    acts: int
    seconds: float
    is_timed: bool = True


def write_trips(path: Path) -> dict[str, int]:
    """Write a CSV file as any program would; return the number of rows per city."""
    rng, counts = new_rng(1), dict.fromkeys(CITIES, 0)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["day", "city", "fare"])
        for number in range(ROWS):
            city = rng.choice(CITIES)
            counts[city] += 1
            rows.writerow([f"2024-05-{number % 28 + 1:02d}", city, round(rng.random() * 50, 2)])
    return counts


def installed(folder: Path) -> tuple[Path, list[Step]]:
    """Build a wheel and install it into a new environment; return its Python, and the cost."""
    started = time.monotonic()
    run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", str(ROOT), "-w", str(folder)], folder)
    built = Step("build the wheel", 1, time.monotonic() - started, is_timed=False)
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    os.environ.pop("PYTHONPATH", None)  # what is installed is to run, not the sources
    started = time.monotonic()
    (wheel,) = folder.glob("*.whl")
    run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)], folder)
    return python, [built, Step("pip install", 1, time.monotonic() - started, is_timed=False)]


def run(command: Sequence[str], folder: Path) -> str:
    """Run a command in a folder, and return its output. Raises CalledProcessError."""
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@contextmanager
def served(gamay: Path, folder: Path) -> Iterator[str]:
    """Run a cluster in a separate process; yield the address of its console once it answers queries."""
    controller = str(free_port())
    ports = ("--controller-port", controller, "--broker-port", str(free_port()), "--server-port", str(free_port()))
    process = subprocess.Popen(
        [str(gamay), "start", "all", "--data-dir", "console.db", *ports], cwd=folder, stdout=subprocess.DEVNULL
    )
    url = f"http://localhost:{controller}"
    try:
        until = time.monotonic() + SECONDS_MAX
        while not answers(f"{url}/health"):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("the cluster does not start")
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def answers(url: str) -> bool:
    """Return whether an address answers with success."""
    try:
        return httpx.get(url, timeout=1).status_code == 200
    except httpx.HTTPError:
        return False


def in_console(gamay: Path, folder: Path) -> Step:
    """Start a cluster, and make a table of the file in the browser: choose it, make the table, see its rows; then ask."""
    started = time.monotonic()
    with served(gamay, folder) as url, launched() as browser:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(f"{url}/#/new-table")
        page.get_by_label("File", exact=True).set_input_files(folder / "trips.csv")
        page.get_by_role("button", name="Make the table and load the file").click()
        page.get_by_role("heading", name="trips").wait_for()
        page.get_by_role("link", name="Query", exact=True).last.click()
        page.locator(".cm-content").click()
        page.keyboard.press("Control+Enter")
        page.get_by_role("gridcell", name="Oslo").first.wait_for()
        return Step("console: choose the file, make the table, query", 3, time.monotonic() - started)


def walk(python: Path, folder: Path) -> list[Step]:
    """Take the three tours in an environment. Raises AssertionError for a wrong answer."""
    counts = write_trips(folder / "trips.csv")
    gamay, steps = python.parent / "gamay", []
    started = time.monotonic()
    run([str(gamay), "warmup"], folder)
    steps.append(Step("gamay warmup, once", 1, time.monotonic() - started, is_timed=False))
    started = time.monotonic()
    shown = run([str(python), "-c", IN_PYTHON], folder)
    assert all(f"{count}" in shown for count in counts.values()), shown
    steps.append(Step("Python: connect, create_table, sql", 3, time.monotonic() - started))
    started = time.monotonic()
    shown = run([str(gamay), "sql", "-c", QUERY.replace("trips", "'trips.csv' t"), "--output", "csv"], folder)
    assert all(f"{city},{count}" in shown for city, count in counts.items()), shown
    steps.append(Step("shell: gamay sql -c", 1, time.monotonic() - started))
    steps.append(in_console(gamay, folder))
    return steps


def main() -> int:
    """Walk, print, and say whether it was short enough."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--python", type=Path, help="of an environment that has Gamay; without it one is made")
    given = parser.parse_args().python
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python, steps = (given.absolute(), []) if given else installed(folder)
        steps += walk(python, folder)
    for step in steps:
        print(f"{step.name:50} {step.acts} {'step' if step.acts == 1 else 'steps'} {step.seconds:6.1f} s")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps([asdict(step) for step in steps], indent=1) + "\n")
    return int(any(step.is_timed and (step.seconds > SECONDS_MAX or step.acts > ACTS_MAX) for step in steps))


if __name__ == "__main__":
    sys.exit(main())
