"""Random histories of a partition: the engine on two replicas against a plain model, and rows that cannot be merged.

`python -m benchmarks.upsert_histories --count 50000` runs that many.
"""

import random
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.naive.upsert_histories import History, MemorySegment, Replica, conformed
from tests.seeds import count_of, seeds
from tests.waiting import PATIENCE_S

from gamay.model.table.table_config import TableConfig
from gamay.upsert.config.parallel import Phase, must_wait
from gamay.upsert.config.settings import UpsertSettings
from gamay.upsert.spi import SegmentSource

HISTORIES = count_of("GAMAY_UPSERT_HISTORIES", 250)


@pytest.mark.parametrize("part", range(10))
def test_histories(part: int, tmp_path: Path) -> None:
    for number in seeds(HISTORIES, part, 10):
        History(number).run(tmp_path / str(number))


# Some twenty of these differed: late rows of the copy won; keys were forgotten by the times of rows that were given back,
# from 20159 on with their generation.
@pytest.mark.parametrize("first", [0, 26, 93, 214, 223, 286, 322, 462, 20159])
def test_histories_with_commits_at_will(first: int, tmp_path: Path) -> None:
    for number in range(first, first + 12):
        History(number, protects=True).run(tmp_path / str(number))


@pytest.mark.parametrize("number", [3007844, 3012305])
def test_a_new_copy_with_several_comparison_columns_waits_for_its_snapshot(number: int, tmp_path: Path) -> None:
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
    assert done.wait(PATIENCE_S)
    thread.join()


class Picky:
    """A merger that adds values, and refuses some."""

    def __init__(self, keys: list[str], comparisons: list[str], config: Any) -> None:
        assert (keys, comparisons) == (["k"], ["c"])

    def merge(self, previous: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, Any]:
        if new["rid"] == 3:
            raise ValueError("three")
        return {"rid": "seven" if new["rid"] == 7 else previous["rid"] + new["rid"]}


def settings_of(number: int, **changes: Any) -> UpsertSettings:
    """Return the settings of the table of history `number`, with the given changes, and without other optional ones."""
    _, config, schema = History(0)._table(random.Random(number))
    assert config.upsert is not None
    plain = {
        "mode": "PARTIAL", "comparison_columns": ("c",), "partial_upsert_strategies": {}, "metadata_ttl": 0,
        "delete_record_column": None, "out_of_order_record_column": None, "deleted_keys_ttl": 0,
        "drop_out_of_order_record": False,
    }  # fmt: skip
    found = UpsertSettings.of(replace(config, upsert=replace(config.upsert, **{**plain, **changes})), schema)
    assert found is not None
    return found


def rows_of(settings: UpsertSettings, *rows: tuple[int, int, int]) -> list[dict[str, Any]]:
    """Return rows of (key, comparison value, rid)."""
    names = [spec.name for spec in settings.schema.stored_fields]
    is_text = settings.schema.field("k").data_type.is_text
    return [{**dict.fromkeys(names), "k": f"{k}" if is_text else k, "c": c, "rid": rid} for k, c, rid in rows]


def test_rows_that_the_merger_refuses_are_left_out(tmp_path: Path) -> None:
    settings = settings_of(5, partial_upsert_merger_class=f"{Picky.__module__}.{Picky.__name__}")
    replica = Replica(settings, tmp_path, random.Random(1), reorders=False)
    replica._begin()
    rows = rows_of(settings, (1, 1, 1), (1, 2, 2), (1, 3, 3), (1, 4, 7), (1, 5, 10))
    prepared = replica.consuming.prepare(conformed(settings.schema, rows))
    assert prepared.batch.column("rid").to_pylist() == [1, 3, 13]
    assert prepared.kept.tolist() == [0, 1, 4]
    assert sorted(prepared.rejected) == [2, 3]
    assert "ValueError('three')" in prepared.rejected[2]
    assert "seven" in prepared.rejected[3]
    replica.rows = prepared.batch
    replica.consuming.publish(prepared)
    assert replica.visible().column("rid").to_pylist() == [13]
    assert replica.table.partitions()[0].counters.rejected == 2


@pytest.mark.parametrize("protects", [False, True])
@pytest.mark.parametrize("reloads", [False, True])
def test_rows_count_again_that_taken_back_rows_had_replaced(tmp_path: Path, *, protects: bool, reloads: bool) -> None:
    settings = settings_of(5, mode="FULL", drop_out_of_order_record=True, delete_record_column="d")
    replica = Replica(settings, tmp_path, random.Random(1), reorders=False)
    replica.host = replace(replica.host, protects=lambda: protects)
    replica._open()
    replica._begin()
    replica.add(rows_of(settings, (1, 1, 1), (2, 1, 2)))
    replica.commit()
    replica.add(rows_of(settings, (2, 2, 20), (3, 2, 30)))
    replica.commit()
    replica.add(rows_of(settings, (3, 3, 31), (1, 5, 10), (2, 5, 21), (4, 5, 40), (1, 6, 11)))
    if reloads:
        replica.reload(0, compacts=False)
    # another replica has committed only the first row of these
    short = MemorySegment(replica.name, settings.schema, replica.rows.slice(0, 1))
    replica.sealed[replica.name] = short
    replica.docs[replica.name] = replica.table.load(SegmentSource(short, 1, 1), lambda _: None)
    replica.name = ""
    found = sorted(replica.visible().column("rid").to_pylist())
    assert found == ([1, 20, 31] if protects else [31])
    counters = replica.table.partitions()[0].counters
    assert counters.keys_not_replaced == (1 if protects else 3)
    assert replica.table.num_keys == len(found)
    replica.sequence += 1
    replica._begin()
    replica.add(rows_of(settings, (1, 5, 10), (2, 1, 22)))
    assert sorted(replica.visible().column("rid").to_pylist()) == ([10, 20, 31] if protects else [10, 22, 31])


@pytest.mark.parametrize(
    ("stream", "upsert", "policy"),
    [
        ({}, {}, "ALLOW_ALWAYS"),
        ({}, {"metadataTTL": 3}, "DISALLOW_ALWAYS"),
        ({}, {"mode": "PARTIAL"}, "DISALLOW_ALWAYS"),
        ({}, {"dropOutOfOrderRecord": True}, "DISALLOW_ALWAYS"),
        ({}, {"outOfOrderRecordColumn": "o"}, "DISALLOW_ALWAYS"),
        ({}, {"mode": "PARTIAL", "allowPartialUpsertConsumptionDuringCommit": True}, "ALLOW_ALWAYS"),
        ({"pauselessConsumptionEnabled": True}, {"mode": "PARTIAL"}, "ALLOW_DURING_BUILD_ONLY"),
        ({"pauselessConsumptionEnabled": True}, {}, "ALLOW_ALWAYS"),
        ({"parallelSegmentConsumptionPolicy": "ALLOW_DURING_DOWNLOAD_ONLY"}, {}, "ALLOW_DURING_DOWNLOAD_ONLY"),
    ],
)
def test_policies(stream: dict[str, Any], upsert: dict[str, Any], policy: str) -> None:
    schema = History(0)._table(random.Random(1))[2]
    document = {
        "tableName": "t", "tableType": "REALTIME", "tenants": {}, "tableIndexConfig": {},
        "segmentsConfig": {"timeColumnName": "c"}, "upsertConfig": upsert,
        "ingestionConfig": {"streamIngestionConfig": {"streamConfigMaps": [{}], **stream}},
    }  # fmt: skip
    settings = UpsertSettings.of(TableConfig.from_json(document).value, schema)
    assert settings is not None
    assert settings.parallel_policy == policy


@pytest.mark.parametrize(
    ("policy", "waits"),
    [
        ("ALLOW_ALWAYS", (False, False, False, False)),
        ("DISALLOW_ALWAYS", (False, True, True, True)),
        ("ALLOW_DURING_BUILD_ONLY", (False, True, False, True)),
        ("ALLOW_DURING_DOWNLOAD_ONLY", (False, True, True, False)),
    ],
)
def test_who_waits(policy: str, waits: tuple[bool, ...]) -> None:
    before = ([], [Phase.CONSUMING], [Phase.BUILDING], [Phase.DOWNLOADING])
    assert tuple(must_wait(policy, phases) for phases in before) == waits
