"""Segments that were added recently."""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.naive.upsert_histories import MemorySegment, conformed

from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.upsert.config.settings import UpsertSettings
from gamay.upsert.partitions.views import NewSegments
from gamay.upsert.persist.snapshots import SnapshotFolder
from gamay.upsert.spi import SegmentSource
from gamay.upsert.tables.table import TableUpsert


def test_new_segments_are_named_for_a_while() -> None:
    rng, now_s = random.Random(1), [100.0]
    clock: Any = SimpleNamespace(monotonic_s=lambda: now_s[0])
    new, never, added = NewSegments(3000, clock), NewSegments(0, clock), list[tuple[str, float]]()
    for _ in range(500):
        name, action = f"s{rng.randrange(12)}", rng.random()
        added = [one for one in added if one[0] != name] if action < 0.7 else added
        if action < 0.5:
            new.note(name)
            never.note(name)
            added.append((name, now_s[0]))
        elif action < 0.7:
            new.forget(name)
        else:
            now_s[0] += rng.choice([0.0, 0.5, 1.0])
        assert new.names() == [name for name, at_s in added if now_s[0] - at_s < 3]
        assert never.names() == []


def test_segments_that_replace_rows_are_new_from_that_moment_whatever_they_are_called(tmp_path: Path) -> None:
    """A broker may know only the first: without the second, the key whose row it replaced would be missing."""
    schema = Schema.from_json(
        {"schemaName": "t", "dimensionFieldSpecs": [{"name": "id", "dataType": "INT"}], "primaryKeyColumns": ["id"],
         "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:DAYS"}]}
    ).value  # fmt: skip
    config = TableConfig.from_json(
        {"tableName": "t", "tableType": "OFFLINE", "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
         "tenants": {}, "tableIndexConfig": {}, "upsertConfig": {"mode": "FULL"}}
    ).value  # fmt: skip
    settings = UpsertSettings.of(config, schema)
    assert settings is not None
    clock: Any = SimpleNamespace(monotonic_s=lambda: 0.0)
    table = TableUpsert(settings, SnapshotFolder(tmp_path), clock)
    seen: dict[str, list[str]] = {}
    for name, partition in (("first", 0), ("other", 1), ("second", 0)):
        segment: Any = MemorySegment(name, schema, conformed(schema, [{"id": 2, "ts": len(seen)}]))
        segment.column("id").stats.partition = SimpleNamespace(partitions=(partition,))
        table.load(
            SegmentSource(segment, len(seen), 1), lambda _, name=name: seen.update({name: table.new_beside(["first"])})
        )
    assert seen == {"first": [], "other": [], "second": ["second"]}
    assert table.new_beside(["first", "other"]) == ["second"]
    assert table.new_beside(["other"]) == []
