"""A short run of `python -m benchmarks.chaos`: processes are killed, paused and restarted during queries."""

import os
from pathlib import Path
from typing import Any

import pytest
from benchmarks.chaos import Chaos

_SECONDS = float(os.environ.get("GAMAY_CHAOS_SECONDS", "15"))


@pytest.mark.chaos
def test_answers_are_exact_or_say_that_they_are_not(tmp_path: Path, own_zookeeper: Any) -> None:
    outcome = Chaos(tmp_path, own_zookeeper, seed=3, rows=500, patience=6).run(_SECONDS)
    assert outcome.tally.problems == []
    assert outcome.tally.kinds["exact"] > 100
    assert outcome.faults
    assert outcome.upkeep
