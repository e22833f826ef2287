"""The unit tests of the console's sources, if Node.js and the packages of `npm ci` are available."""

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

CONSOLE = Path(__file__).resolve().parents[2] / "console"


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no Node.js")
@pytest.mark.skipif(not (CONSOLE / "node_modules").exists(), reason="no packages: npm ci in console/")
def test_the_sources_pass_their_own_tests() -> None:
    run = subprocess.run(["npm", "test"], cwd=CONSOLE, capture_output=True, text=True, timeout=PATIENCE_S)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]
