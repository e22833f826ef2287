"""Random histories of a partition: the engine on two replicas against a plain model, and rows that cannot be merged.

`python -m benchmarks.upsert_histories --count 50000` runs that many.
"""

import os
import random
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.naive.upsert_histories import History, Replica, conformed

from gamay.upsert.settings import UpsertSettings

HISTORIES = int(os.environ.get("GAMAY_UPSERT_HISTORIES", "500"))


@pytest.mark.parametrize("part", range(10))
def test_histories(part: int, tmp_path: Path) -> None:
    for number in range(part, HISTORIES, 10):
        History(number).run(tmp_path / str(number))


def test_a_load_waits_for_the_batch_that_was_prepared(tmp_path: Path) -> None:
    history = History(0)
    options, config, schema = history._table(random.Random(1))
    settings = UpsertSettings.of(config, schema)
    assert settings is not None
    replica = Replica(settings, tmp_path, random.Random(1), reorders=False)
    replica._begin()
    replica.add([history._row(random.Random(2), options, 5)])
    replica.commit()
    prepared = replica.consuming.prepare(conformed(schema, [history._row(random.Random(3), options, 9)]))
    done = threading.Event()
    thread = threading.Thread(target=lambda: (replica.reload(0, compacts=False), done.set()))
    thread.start()
    assert not done.wait(0.05)
    replica.consuming.publish(prepared)
    assert done.wait(10)
    thread.join()


class Picky:
    """A merger that adds up, and refuses what it does not like."""

    def __init__(self, keys: list[str], comparisons: list[str], config: Any) -> None:
        assert (keys, comparisons) == (["k"], ["c"])

    def merge(self, previous: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, Any]:
        if new["rid"] == 3:
            raise ValueError("three")
        return {"rid": "seven" if new["rid"] == 7 else previous["rid"] + new["rid"]}


def test_rows_that_the_merger_refuses_are_left_out(tmp_path: Path) -> None:
    _, config, schema = History(0)._table(random.Random(5))
    assert config.upsert is not None
    path = f"{Picky.__module__}.{Picky.__name__}"
    upsert = replace(
        config.upsert, mode="PARTIAL", comparison_columns=("c",), partial_upsert_strategies={}, metadata_ttl=0,
        partial_upsert_merger_class=path, delete_record_column=None, out_of_order_record_column=None, deleted_keys_ttl=0,
    )  # fmt: skip
    settings = UpsertSettings.of(replace(config, upsert=upsert), schema)
    assert settings is not None
    replica = Replica(settings, tmp_path, random.Random(1), reorders=False)
    replica._begin()
    names = [spec.name for spec in schema.stored_fields]
    key = {"k": "a" if schema.field("k").data_type.is_text else 1}
    rows = [{**dict.fromkeys(names), **key, "c": at, "rid": rid} for at, rid in ((1, 1), (2, 2), (3, 3), (4, 7), (5, 10))]
    prepared = replica.consuming.prepare(conformed(schema, rows))
    assert prepared.batch.column("rid").to_pylist() == [1, 3, 13]
    assert prepared.kept.tolist() == [0, 1, 4]
    assert sorted(prepared.rejected) == [2, 3]
    assert "ValueError('three')" in prepared.rejected[2]
    assert "seven" in prepared.rejected[3]
    replica.rows = prepared.batch
    replica.consuming.publish(prepared)
    assert replica.visible().column("rid").to_pylist() == [13]
    assert replica.table.partitions()[0].counters.rejected == 2
