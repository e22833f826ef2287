"""Segments follow the index settings of their table: which changes make them outdated, and the result of a reload."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gamay.base.clock import SYSTEM_CLOCK, ManualClock
from gamay.base.ids import RANDOM_IDS
from gamay.cluster.records.records import SegmentRecord
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.query.layout.rebuild import TableLayout, rebuild
from gamay.segment.encode.metadata import Encoding
from gamay.segment.read.reader import ImmutableSegment, open_segment
from gamay.segment.write import forms
from gamay.segment.write.builder import SegmentBuilder
from gamay.server.loading.loader import SegmentLoader
from gamay.server.loading.sources import SegmentSources
from gamay.storage.archive import pack

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "a", "dataType": "STRING"},
            {"name": "tags", "dataType": "STRING", "singleValueField": False},
        ],
        "metricFieldSpecs": [{"name": "m", "dataType": "DOUBLE"}],
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
    indexing = dict(indexing or {})
    document = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1", "timeColumnName": "ts"},
        "tenants": {},
        "fieldConfigList": [*fields, *indexing.pop("fieldConfigList", ())],
        "tableIndexConfig": indexing,
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
    ({}, {"fieldConfigList": [{"name": "a", "properties": {"forwardIndexBitPacked": "true"}}]}),
    (
        {"invertedIndexColumns": ["a"]},
        {"invertedIndexColumns": ["a"], "fieldConfigList": [{"name": "a", "indexes": {"forward": {"disabled": True}}}]},
    ),
    ({"columnMinMaxValueGeneratorMode": "TIME"}, {"columnMinMaxValueGeneratorMode": "NON_METRIC"}),
    ({}, {"fieldConfigList": [{"name": "ts", "timestampConfig": {"granularities": ["DAY", "SECOND"]}}]}),
    (
        {"fieldConfigList": [{"name": "ts", "timestampConfig": {"granularities": ["DAY", "SECOND"]}}]},
        {"fieldConfigList": [{"name": "ts", "timestampConfig": {"granularities": ["WEEK", "DAY"]}}]},
    ),
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
    rebuilt = open_segment(rebuild(old, layout, tmp_path / "rebuilt", SYSTEM_CLOCK))
    assert layout.matches(rebuilt.info)
    assert rebuilt.info.crc == new.info.crc


def test_metrics_may_have_a_dictionary_or_not_until_the_config_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = build(config(), tmp_path / "kept").info
    monkeypatch.setattr(forms, "CACHED_BYTES", 0)
    dropped = build(config(), tmp_path / "dropped").info
    assert (kept.columns["m"].encoding, dropped.columns["m"].encoding) == (Encoding.DICTIONARY, Encoding.RAW)
    said = {"fieldConfigList": [{"name": "m", "encodingType": "DICTIONARY"}]}
    for wanted, matches in (({}, (True, True)), (said, (True, False))):
        layout = TableLayout(SCHEMA, config(wanted))
        assert (layout.matches(kept), layout.matches(dropped)) == matches


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


class Loading:
    """A pushed segment, and a server's loader of it; the table's config can be changed."""

    def __init__(self, folder: Path) -> None:
        self.config = config()
        segment = build(self.config, folder / "built")
        archive = pack(segment.path, folder / "s.tar.gz")
        self.record = SegmentRecord("s", crc=segment.info.crc, total_docs=segment.num_docs, download_url=str(archive))
        self._loader = SegmentLoader(
            folder / "server", SegmentSources(), lambda _: TableLayout(SCHEMA, self.config), ManualClock(), RANDOM_IDS
        )

    def load(self, table_config: TableConfig, tier: str = "") -> ImmutableSegment:
        self.config = table_config
        return self._loader.load("t_OFFLINE", self.record.with_changes(tier=tier)).segment


@pytest.fixture
def loading(tmp_path: Path) -> Loading:
    return Loading(tmp_path)


def test_a_segment_is_stored_as_its_tier_says(loading: Loading) -> None:
    chosen = config(
        {"tierOverwrites": {"cold": {"noDictionaryConfig": {"m": "GZIP"}}, "hot": {"rangeIndexColumns": ["m"]}}},
        {"name": "a", "indexes": {"inverted": {}}, "tierOverwrites": {"cold": {"indexes": {}, "encodingType": "RAW"}}},
    )
    stored = {tier: loading.load(chosen, tier).info.columns for tier in ("", "cold", "hot", "other")}
    assert {tier: columns["m"].codec for tier, columns in stored.items()} == {
        "": None, "cold": "GZIP", "hot": None, "other": None,
    }  # fmt: skip
    assert {tier: "range" in columns["m"].index_sizes() for tier, columns in stored.items()} == {
        "": False, "cold": False, "hot": True, "other": False,
    }  # fmt: skip
    assert {tier: "inverted" in columns["a"].index_sizes() for tier, columns in stored.items()} == {
        "": True, "cold": False, "hot": True, "other": True,
    }  # fmt: skip
    assert stored["cold"]["a"].codec == "LZ4"


def test_overwrites_that_were_stored_unvalidated_and_cannot_be_read_are_left_out(loading: Loading) -> None:
    broken = config({"invertedIndexColumns": ["a"], "tierOverwrites": {"cold": {"loadMode": 7}}})
    assert "inverted" in loading.load(broken, "cold").info.columns["a"].index_sizes()


def test_segments_stay_as_pushed_where_preprocessing_is_skipped(loading: Loading) -> None:
    pushed = loading.record.crc
    assert loading.load(config({"invertedIndexColumns": ["a"], "skipSegmentPreprocess": True})).info.crc == pushed
    assert loading.load(config({"invertedIndexColumns": ["a"]})).info.crc != pushed


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="Linux tells what is mapped")
@pytest.mark.parametrize(("mode", "is_mapped"), [(None, True), ("MMAP", True), ("HEAP", False)])
def test_the_load_mode_says_whether_files_are_mapped(loading: Loading, mode: str | None, is_mapped: bool) -> None:
    segment = loading.load(config({} if mode is None else {"loadMode": mode}))
    assert segment.column("m").values(0, 1).values.tolist() == [0]
    assert (str(segment.path) in Path("/proc/self/maps").read_text()) == is_mapped
