"""A short run of `python -m benchmarks.upsert_consistency`: counts while segments are committed and servers die."""

import os
from pathlib import Path
from typing import Any

import pytest
from benchmarks.upsert_consistency import run

_SECONDS = float(os.environ.get("GAMAY_CHAOS_SECONDS", "10"))


@pytest.mark.chaos
def test_counts_are_exact_or_partial_and_said_so(tmp_path: Path, own_zookeeper: Any) -> None:
    asking = run(tmp_path, own_zookeeper, _SECONDS, seed=3, mode="SYNC", quiet=False)
    assert asking.wrong == []
    assert asking.answers["right"]
