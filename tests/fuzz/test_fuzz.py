"""Thousands of abnormal queries: each is answered in time, with a suitable code and message.

`GAMAY_FUZZ_INPUTS` is their number and `GAMAY_FUZZ_SEED` chooses others. They run in a separate process, so that its
death is reported with the input that caused it.
"""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
INPUTS = int(os.environ.get("GAMAY_FUZZ_INPUTS", "2000"))
SEED = int(os.environ.get("GAMAY_FUZZ_SEED", "1"))


def test_what_is_said_to_mistakes() -> None:
    """`GAMAY_UPDATE=1` rewrites the messages; review the difference."""
    command = [sys.executable, "-m", "tests.fuzz.fuzz_worker", "--inputs=0", f"--messages={HERE / 'messages.jsonl'}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert not [f"{line['request']}\n{line['detail']}" for line in found if "request" in line]
    assert found[-1]["summary"]["failures"] == {}


def test_no_text_breaks_the_broker(tmp_path: Path) -> None:
    state = tmp_path / "state"
    command = [sys.executable, "-m", "tests.fuzz.fuzz_worker", f"--inputs={INPUTS}", f"--seed={SEED}"]
    options = [f"--state={state}", f"--cases={HERE / 'cases.jsonl'}"]
    done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    failures = [f"input {line['number']}: {line['request']}\n{line['detail']}" for line in lines if "request" in line]
    at = struct.unpack("<q", state.read_bytes())[0] if state.exists() else None
    assert done.returncode == 0, (
        f"the process ended with {done.returncode} at input {at} of seed {SEED}:\n{done.stderr[-5000:]}"
    )
    assert not failures, "\n\n".join(failures)
    summary = lines[-1]["summary"]
    assert summary["inputs"] == INPUTS
    # most inputs are wrong; enough must be right for the engine to be reached
    assert summary["codes"]["-1"] > INPUTS / 10
