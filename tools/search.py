"""Search for failures with random seeds until the time is used up; the test suite itself is the same at every run.

    python tools/search.py --minutes 30

Runs the properties of each folder, the generated queries, the fuzzer, the histories and the simulations in turn, each time
with another seed. Prints each failure with the command that repeats it; exits 1 when something failed.
"""

import argparse
import itertools
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gamay.base.rng import new_rng

ROOT = Path(__file__).parent.parent
_NO_TESTS = 5
_LINES_SHOWN = 80
_SEED_MAX = 10**9
"""Of each seed, of which the next few hundred are taken as well."""


@dataclass(frozen=True)
class Family:
    """Tests that draw their inputs from one seed. seed: the environment variable for it, None for Hypothesis' option."""

    paths: tuple[str, ...]
    seed: str | None = "GAMAY_FIRST_SEED"

    def command(self, seed: int) -> tuple[dict[str, str], list[str]]:
        """Return the environment and the command that run it with a seed."""
        pytest = ["-m", "pytest", "--tb=short", "-p", "no:cacheprovider"]
        if self.seed is not None:
            return {self.seed: str(seed)}, [*pytest, *self.paths]
        profile = ["-m", "hypothesis", "--hypothesis-profile=search", f"--hypothesis-seed={seed}"]
        return {}, [*pytest, *profile, *self.paths]


GENERATED = (
    Family(("tests/simulation/test_completion_simulation.py", "tests/simulation/test_task_simulation.py")),
    Family(("tests/reference_evaluator",)),
    Family(("tests/fuzz",), "GAMAY_FUZZ_SEED"),
    Family(
        (
            "tests/oracle/test_generated_queries.py",
            "tests/oracle/test_generated_flights.py",
            "tests/oracle/test_few_groups.py",
            "tests/relational/test_against_duckdb.py",
            "tests/relational/test_random_tables.py",
        )
    ),
    Family(("tests/upsert/test_histories.py", "tests/simulation/test_rebalance_steps.py")),
    Family(("tests/realtime/test_replicas.py",), "GAMAY_LOSS_SEED"),
    Family(("tests/realtime/test_realtime_cluster.py",), "GAMAY_KILL_SEED"),
)


def families() -> Iterator[Family]:
    """Yield the families in turn, without end; those of properties alternate with the others."""
    files = (path for path in (ROOT / "tests").rglob("test_*.py") if "from hypothesis" in path.read_text())
    folders = sorted({path.relative_to(ROOT).parts[1] for path in files})
    properties = (Family((f"tests/{folder}",), None) for folder in itertools.cycle(folders))
    for generated in itertools.cycle(GENERATED):
        yield next(properties)
        yield generated
        yield next(properties)


def run(environment: dict[str, str], command: list[str], seconds: float) -> tuple[int | None, str]:
    """Return the exit status and output of Python with these arguments; the status is None after a timeout."""
    process = subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, env={**os.environ, **environment}, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return None, output
    return process.returncode, output


def main() -> int:
    """Search, and return 1 if a test failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    end_s = time.monotonic() + 60 * parser.parse_args().minutes
    rng, failed = new_rng(), 0
    for family in families():
        began_s = time.monotonic()
        if began_s >= end_s:
            break
        environment, arguments = family.command(rng.randrange(_SEED_MAX))
        status, output = run(environment, arguments, end_s - began_s)
        written = " ".join([*(f"{name}={value}" for name, value in environment.items()), "python", shlex.join(arguments)])
        verdict = "unfinished" if status is None else "passed" if status in (0, _NO_TESTS) else "FAILED"
        print(f"{verdict} after {time.monotonic() - began_s:.0f} s: {written}", flush=True)
        if verdict == "FAILED":
            failed += 1
            print("\n".join(output.splitlines()[-_LINES_SHOWN:]), flush=True)
    print(f"{failed} of the runs above failed" if failed else "nothing failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
