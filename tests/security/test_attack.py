"""A short run of `benchmarks.attack`: some inputs of every kind, to a cluster of processes."""

from pathlib import Path

import pytest
from benchmarks.attack.campaign import SHARES, attack
from benchmarks.attack.findings import Verdict
from benchmarks.cluster.zookeeper import ZooKeeperProcess, what_is_missing

INPUTS = 1_000


@pytest.mark.skipif(what_is_missing() is not None, reason=str(what_is_missing()))
def test_nothing_that_is_sent_breaks_a_process_or_another_answer(tmp_path: Path) -> None:
    zookeeper = ZooKeeperProcess(tmp_path)
    zookeeper.start()
    try:
        outcome = attack(tmp_path, zookeeper, INPUTS, 1, list(SHARES))
    finally:
        zookeeper.stop()
    assert not outcome.all_problems, "\n".join(outcome.all_problems)
    assert len(outcome.seen.seconds) > 100
    for kind, found in outcome.findings.items():
        assert found.total >= INPUTS * SHARES[kind] * 0.9, kind
    # most inputs are wrong; some of each must be right for what lies behind the checks to be reached
    for kind in ("requests", "queries", "HTTP bytes", "frames", "segments", "Flight calls", "cookies", "indexes"):
        assert min(outcome.findings[kind].verdicts[verdict] for verdict in (Verdict.REFUSED, Verdict.ANSWERED)) > 0, kind
