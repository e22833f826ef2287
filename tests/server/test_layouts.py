"""Segments follow the index settings of their table: what a change of them makes stale, and what a reload makes of it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gamay.base.clock import ManualClock
from gamay.ingest.pipeline import Pipeline
from gamay.model.schema import Schema
from gamay.model.table_config import TableConfig
from gamay.segment.builder import SegmentBuilder
from gamay.segment.reader import ImmutableSegment, open_segment
from gamay.server.rebuild import TableLayout, rebuild

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "a", "dataType": "STRING"},
            {"name": "tags", "dataType": "STRING", "singleValueField": False},
        ],
        "metricFieldSpecs": [{"name": "m", "dataType": "LONG"}],
        "dateTimeFieldSpecs": [
            {"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"},
            {"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"},
        ],
    }
).value
ROWS = pa.table(
    {
        "a": [f"v{i % 7}" for i in range(100)],
        "tags": [[f"t{i % 3}"] for i in range(100)],
        "m": [i * 31 % 101 for i in range(100)],
        "ts": [1_700_000_000_000 + i * 17 % 100 for i in range(100)],
        "day": [19_000 + i * 7 % 13 for i in range(100)],
    }
)


def config(indexing: dict[str, Any] | None = None, *fields: dict[str, Any]) -> TableConfig:
    document = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1", "timeColumnName": "ts"},
        "tenants": {},
        "tableIndexConfig": indexing or {},
        "fieldConfigList": list(fields),
    }
    parsed = TableConfig.from_json(document)
    assert not parsed.unrecognized
    return parsed.value


def build(table_config: TableConfig, folder: Path, name: str = "s") -> ImmutableSegment:
    builder = SegmentBuilder(SCHEMA, table_config, name, folder, clock=ManualClock())
    for batch in ROWS.to_batches():
        builder.append(Pipeline(SCHEMA, table_config).apply(batch))
    return open_segment(builder.build())


CHANGES = [
    ({"noDictionaryColumns": ["a"]}, {"noDictionaryConfig": {"a": "GZIP"}}),
    ({"noDictionaryConfig": {"m": "ZSTANDARD"}}, {"noDictionaryConfig": {"m": "SNAPPY"}}),
    ({}, {"columnMinMaxValueGeneratorMode": "NONE"}),
    ({"columnMinMaxValueGeneratorMode": "TIME"}, {"columnMinMaxValueGeneratorMode": "NON_METRIC"}),
]


@pytest.mark.parametrize(("before", "after"), [*CHANGES, *((b, a) for a, b in CHANGES[1:])])
def test_a_rebuilt_segment_is_as_if_built_by_the_new_settings(
    before: dict[str, Any], after: dict[str, Any], tmp_path: Path
) -> None:
    old, new = build(config(before), tmp_path / "old"), build(config(after), tmp_path / "new")
    layout = TableLayout(SCHEMA, config(after))
    assert not layout.matches(old.info)
    assert layout.matches(new.info)
    assert layout.fingerprint() != TableLayout(SCHEMA, config(before)).fingerprint()
    rebuilt = open_segment(rebuild(old, layout, tmp_path / "rebuilt"))
    assert layout.matches(rebuilt.info)
    assert rebuilt.info.crc == new.info.crc


MODES = {
    None: {"a", "tags", "m", "ts", "day"},
    "ALL": {"a", "tags", "m", "ts", "day"},
    "NON_METRIC": {"a", "tags", "ts", "day"},
    "TIME": {"ts", "day"},
    "NONE": {"ts"},
}


@pytest.mark.parametrize("mode", MODES)
def test_which_columns_tell_their_least_and_greatest_value(mode: str | None, tmp_path: Path) -> None:
    chosen = {} if mode is None else {"columnMinMaxValueGeneratorMode": mode}
    info, plain = build(config(chosen), tmp_path / "a").info, build(config(), tmp_path / "b").info
    for name, column in info.columns.items():
        known = plain.columns[name].stats
        bounds = (known.minimum, known.maximum) if name in MODES[mode] else (None, None)
        assert (column.stats.minimum, column.stats.maximum) == bounds
    assert (info.start_time_ms, info.end_time_ms) == (plain.start_time_ms, plain.end_time_ms)
    assert info.start_time_ms is not None


def test_bounds_of_compared_columns_are_always_kept() -> None:
    given = {"upsertConfig": {"mode": "FULL", "comparisonColumns": ["day"]}, "primaryKeyColumns": ["a"]}
    none = {"tableIndexConfig": {"columnMinMaxValueGeneratorMode": "NONE"}}
    keyed = TableConfig.from_json({**config().to_json(), **none, **given}).value
    assert {name for name in SCHEMA.column_names if keyed.keeps_bounds(SCHEMA, name)} == {"ts", "day"}
