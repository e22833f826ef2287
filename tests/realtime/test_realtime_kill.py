"""A short run of `benchmarks.realtime_kill`: Kafka, two replicas, and kills of servers, controllers and the broker."""

from pathlib import Path

import pytest
from benchmarks.realtime_kill import Run, block, expected
from tools import kafka

PARTITIONS = 2


def test_what_is_expected_is_what_is_sent() -> None:
    import orjson

    rows = [orjson.loads(message) for p in range(PARTITIONS) for message in block(p, 0, 3000)]
    sums = [sum(row[name] for row in rows) for name in ("n", "v")]
    assert expected(3000, PARTITIONS) == [len(rows), *sums, len({row["k"] for row in rows}), max(row["n"] for row in rows)]


@pytest.mark.kafka
@pytest.mark.chaos
def test_each_message_counts_once_while_processes_and_the_broker_are_killed(tmp_path: Path, zookeeper_hosts: str) -> None:
    if reason := kafka.missing():
        pytest.skip(reason)
    run = Run(tmp_path, zookeeper_hosts, "kafka", 4000, PARTITIONS, 700, seed=3)
    outcome = run.run(every_s=2, rate=1000)
    assert outcome.problems == []
    assert sum(outcome.kills.values()) >= 5
    assert outcome.answers["whole"] > 0
    assert outcome.commits >= 2 * (4000 // 700)
