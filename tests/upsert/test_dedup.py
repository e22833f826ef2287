"""Dedup tables, which drop rows with a known key: the segments whose keys are considered."""

from typing import Any

import pyarrow as pa
import pytest
from tests.naive.upsert_histories import MemorySegment

from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.table.upsert_defaults import ServerDefaults
from gamay.upsert.config.settings import DedupSettings
from gamay.upsert.spi import SegmentSource
from gamay.upsert.tables.dedup import TableDedup

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "id", "dataType": "STRING"}],
        "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
        "primaryKeyColumns": ["id"],
    }
).value


def batch(*keys: str) -> pa.RecordBatch:
    return pa.record_batch({"id": list(keys), "ts": list(range(len(keys)))})


@pytest.mark.parametrize(
    ("setting", "default", "ignores"),
    [("ENABLE", False, True), ("DEFAULT", True, True), ("DEFAULT", False, False), ("DISABLE", True, False)],
)
def test_keys_of_segments_on_tiers_may_not_matter(setting: str, default: bool, ignores: bool) -> None:
    document = {
        "tableName": "t", "tableType": "REALTIME", "segmentsConfig": {"timeColumnName": "ts"}, "tenants": {},
        "tableIndexConfig": {}, "dedupConfig": {"ignoreNonDefaultTiers": setting},
    }  # fmt: skip
    settings = DedupSettings.of(TableConfig.from_json(document).value, SCHEMA, ServerDefaults(dedup_ignores_tiers=default))
    assert settings is not None
    table, shown = TableDedup(settings), []
    for name, key in (("t__0__0__20260101T0000Z", "a"), ("t__0__1__20260101T0000Z", "b")):
        segment: Any = MemorySegment(name, SCHEMA, batch(key))
        table.load(SegmentSource(segment, 1, 1), shown.append)
        if key == "a":  # it is loaded again when it was moved
            table.load(SegmentSource(segment, 1, 1, "cold"), shown.append)
    assert shown == [None] * 3
    consuming = table.consume(0, "t__0__2__20260101T0000Z", 1, lambda: segment, shown.append)
    kept = consuming.prepare(batch("a", "b", "c")).batch.column("id").to_pylist()
    assert kept == (["a", "c"] if ignores else ["c"])
