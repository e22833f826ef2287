"""The helper's predictions from a small sample, against the memory of consuming segments with many more rows."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from benchmarks.provisioning import random_table, real_bytes
from typer.testing import CliRunner

from gamay.base.errors import InvalidConfigError
from gamay.cli.admin import app
from gamay.functions.arrow import conformed_schema
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.segment.mutable import MutableSegment
from gamay.segment.mutable.sizing import Sizing
from gamay.server.provisioning.plan import Line, Load, MeasuredSample, measure, plan, sample_of_segment
from gamay.server.provisioning.sample_rows import made_up_rows, split_characteristics

NOW_MS = 1_700_000_000_000
DOCUMENT = {
    "schemaName": "trips",
    "dimensionFieldSpecs": [
        {"name": "city", "dataType": "STRING", "cardinality": 300, "averageLength": 12},
        {"name": "user", "dataType": "STRING", "cardinality": 500_000, "averageLength": 20},
        {"name": "tags", "dataType": "INT", "singleValueField": False, "cardinality": 50, "numValuesPerEntry": 3},
    ],
    "metricFieldSpecs": [{"name": "fare", "dataType": "DOUBLE", "cardinality": 100_000}],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:SECONDS", "cardinality": 5000}
    ],
}
CONFIG = {
    "tableName": "trips",
    "tableType": "REALTIME",
    "segmentsConfig": {"timeColumnName": "ts", "replication": "2", "retentionTimeUnit": "DAYS", "retentionTimeValue": "3"},
    "tenants": {},
    "tableIndexConfig": {"invertedIndexColumns": ["city"], "noDictionaryColumns": ["fare"], "streamConfigs": {}},
    "metadata": {},
    "fieldConfigList": [{"name": "ts", "timestampConfig": {"granularities": ["SECOND", "MINUTE"]}}],
}
PLAIN, KNOWN = split_characteristics(DOCUMENT)
SCHEMA = Schema.from_json(PLAIN).value
TABLE = TableConfig.from_json(CONFIG).value
CARDINALITIES = {name: own["cardinality"] for name, own in KNOWN.items()}


def taken(rows: pa.Table, folder: Path) -> tuple[int, int]:
    """Bytes that a consuming segment of the rows reserves, and those of the sealed one."""
    segment = MutableSegment("s", SCHEMA, TABLE, folder, Sizing(rows.num_rows))
    for batch in rows.combine_chunks().to_batches(5000):
        segment.append(batch)
    reserved = sum(use.reserved for parts in segment.memory().values() for use in parts.values())
    built = segment.seal(folder / "sealed", durable=False)
    segment.close()
    return reserved, sum(path.stat().st_size for path in built.iterdir())


@pytest.mark.parametrize("known", [True, False])
def test_a_sample_predicts_what_ten_times_as_many_rows_take(tmp_path: Path, known: bool) -> None:
    many = made_up_rows(SCHEMA, KNOWN, 100_000, NOW_MS)
    sample = measure(SCHEMA, TABLE, many.slice(0, 10_000), tmp_path, CARDINALITIES if known else None)
    reserved, sealed = taken(many, tmp_path / "many")
    assert sample.consuming_bytes(100_000) == pytest.approx(reserved, rel=0.35)
    assert sample.sealed_bytes(100_000) == pytest.approx(sealed, rel=0.25)


def test_made_up_rows_look_as_they_should() -> None:
    rows = made_up_rows(SCHEMA, KNOWN, 20_000, NOW_MS)
    assert rows.schema.equals(conformed_schema(SCHEMA))
    assert len(rows["city"].unique()) == 300
    assert set(np.char.str_len(rows["city"].to_numpy().astype(str))) == {12}
    assert {len(tags) for tags in rows["tags"].to_pylist()} == {3}
    assert rows.equals(made_up_rows(SCHEMA, KNOWN, 20_000, NOW_MS))
    with pytest.raises(InvalidConfigError, match="no 'cardinality' of n"):
        split_characteristics({"dimensionFieldSpecs": [{"name": "n", "dataType": "INT"}]})
    with pytest.raises(InvalidConfigError, match="'cardinality' of 'n' must be 1 at least"):
        split_characteristics({"dimensionFieldSpecs": [{"name": "n", "dataType": "INT", "cardinality": 0}]})


def test_hosts_share_partitions_and_replicas() -> None:
    sample = MeasuredSample(1000, Line(500, 1000, 5_000, 10_000), Line(500, 1000, 1_000, 2_000))
    load = Load(partitions=8, rate=1.0, replicas=2, retention_hours=24, host_bytes=10**9)
    cell = plan(sample, load, num_hosts=4, hours=6)
    rows = 6 * 3600
    assert cell.segment_bytes == 2 * rows
    assert cell.consuming_bytes == 10 * rows * 4  # 16 replicas of partitions on 4 hosts
    assert cell.active_bytes == cell.consuming_bytes + 3 * 2 * rows * 4
    assert (cell.segments, cell.fits) == (16, True)
    assert not plan(sample, load, num_hosts=1, hours=6).fits  # two replicas need two hosts
    assert not plan(sample, Load(8, 1.0, 2, 24, 1000), num_hosts=4, hours=6).fits


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["realtime-provisioning", *map(str, arguments)])


def test_the_command_prints_its_tables(tmp_path: Path) -> None:
    (tmp_path / "table.json").write_text(json.dumps(CONFIG))
    (tmp_path / "data.json").write_text(json.dumps(DOCUMENT))
    (tmp_path / "schema.json").write_text(json.dumps(PLAIN))
    base = (
        "--table-config-file",
        tmp_path / "table.json",
        "--num-partitions",
        4,
        "--num-hosts",
        "1,2,4",
        "--num-hours",
        "2,4",
    )
    made = run(*base, "--ingestion-rate", 100, "--schema-with-metadata-file", tmp_path / "data.json", "--num-rows", 2000)
    assert made.exit_code == 0, made.output
    for title in ("Memory used per host", "Optimal segment size", "Consuming memory per host", "queried per host"):
        assert title in made.output
    assert "2 replicas, completed segments kept 72 h" in made.output
    assert "  2 -------> NA        |" in made.output  # two replicas do not fit one host
    segment = MutableSegment("trips__0__0__20260101T0000Z", SCHEMA, TABLE, tmp_path / "work")
    rows = made_up_rows(SCHEMA, KNOWN, 3000, NOW_MS)
    for batch in rows.to_batches():
        segment.append(batch)
    folder = segment.seal(tmp_path / "built")
    assert sample_of_segment(folder, SCHEMA).sort_by("user").equals(rows.sort_by("user"))
    sampled = ("--sample-completed-segment-dir", folder, "--schema-file", tmp_path / "schema.json")
    from_segment = run(*base, *sampled, "--period-sample-segment-consumed", "1h", "--push-frequency", "daily")
    assert from_segment.exit_code == 0, from_segment.output
    assert "Measured on 3000 rows" in from_segment.output
    for wrong in (
        (*base, "--ingestion-rate", 1),
        (*base, *sampled),
        (*base, *sampled, "--ingestion-rate", 1, "--push-frequency", "x"),
        (*base, *sampled, "--ingestion-rate", 1, "--num-hosts", "a"),
    ):
        assert isinstance(run(*wrong).exception, InvalidConfigError), wrong


ROWS = 60_000


@pytest.mark.parametrize("seed", [1, 2, 4, 6, 8, 9, 10, 12])  # 8, 9, 10: with a sorted column
def test_random_tables_are_predicted_within_a_third_from_a_sample(tmp_path: Path, seed: int) -> None:
    table = random_table(seed)
    rows = table.rows(ROWS, seed)
    real = real_bytes(table, rows)
    for number in (2_000, 10_000):
        segment = MutableSegment("s", table.schema, table.config, tmp_path / f"of {number}", Sizing(number))
        for batch in rows.slice(0, number).combine_chunks().to_batches():
            segment.append(batch)
        first = sample_of_segment(segment.seal(tmp_path / f"sealed {number}", durable=False), table.schema)
        segment.close()
        sample = measure(table.schema, table.config, first, tmp_path / str(number))
        told = (sample.consuming_bytes(ROWS), sample.sealed_bytes(ROWS))
        assert told == (pytest.approx(real[0], rel=1 / 3), pytest.approx(real[1], rel=1 / 3)), number


def test_cardinalities_predict_many_times_the_sample(tmp_path: Path) -> None:
    reserved, sealed = taken(made_up_rows(SCHEMA, KNOWN, 100_000, NOW_MS, seed=2), tmp_path / "many")
    for num_rows in (100, 10_000):
        rows = made_up_rows(SCHEMA, KNOWN, num_rows, NOW_MS)
        sample = measure(SCHEMA, TABLE, rows, tmp_path / str(num_rows), CARDINALITIES)
        assert sample.consuming_bytes(100_000) == pytest.approx(reserved, rel=0.05), num_rows
        assert sample.sealed_bytes(100_000) == pytest.approx(sealed, rel=0.05), num_rows


def test_a_sample_segment_keeps_its_nulls(tmp_path: Path) -> None:
    config = TableConfig.from_json(CONFIG | {"tableIndexConfig": {"nullHandlingEnabled": True, "streamConfigs": {}}}).value
    rows = made_up_rows(SCHEMA, KNOWN, 6000, NOW_MS)
    is_null = np.arange(6000) % 3 == 0
    for name in ("city", "tags"):
        masked = pc.if_else(pa.array(is_null), None, rows[name])
        rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), masked)
    segment = MutableSegment("s", SCHEMA, config, tmp_path / "work")
    for batch in rows.combine_chunks().to_batches():
        segment.append(batch)
    read = sample_of_segment(segment.seal(tmp_path / "built"), SCHEMA)
    segment.close()
    assert read.equals(rows.combine_chunks())


def test_tables_that_merge_rows_are_measured(tmp_path: Path) -> None:
    indexing = {"aggregateMetrics": True, "noDictionaryColumns": ["fare"], "streamConfigs": {}}
    single = {**PLAIN, "dimensionFieldSpecs": PLAIN["dimensionFieldSpecs"][:2]}
    schema, config = Schema.from_json(single).value, TableConfig.from_json(CONFIG | {"tableIndexConfig": indexing}).value
    sample = measure(schema, config, made_up_rows(schema, KNOWN, 4000, NOW_MS), tmp_path)
    assert isinstance(sample, MeasuredSample)
    assert sample.sealed_bytes(8000) > sample.sealed_bytes(4000) > 0
    assert sample.consuming_bytes(8000) >= sample.consuming_bytes(4000) > 0


def test_wrong_input_is_named(tmp_path: Path) -> None:
    rows = made_up_rows(SCHEMA, KNOWN, 100, NOW_MS)
    with pytest.raises(InvalidConfigError, match="the sample has no rows"):
        measure(SCHEMA, TABLE, rows.slice(0, 0), tmp_path)
    with pytest.raises(InvalidConfigError, match=r"a cardinality is given of 'towns', which is no column: city, user"):
        measure(SCHEMA, TABLE, rows, tmp_path, {"towns": 3})
    (tmp_path / "table.json").write_text(json.dumps(CONFIG))
    base = ("--table-config-file", tmp_path / "table.json", "--num-partitions", 1, "--ingestion-rate", 1)
    missing = run(*base, "--schema-with-metadata-file", tmp_path / "absent.json").exception
    assert isinstance(missing, InvalidConfigError)
    assert "absent.json does not exist" in str(missing)
    document = {"dimensionFieldSpecs": [{"name": "city", "dataType": "STRING", "cardinality": -3}]}
    (tmp_path / "data.json").write_text(json.dumps(document))
    negative = run(*base, "--schema-with-metadata-file", tmp_path / "data.json").exception
    assert "'cardinality' of 'city' must be 1 at least, not -3" in str(negative)
    (tmp_path / "data.json").write_text(json.dumps(DOCUMENT))
    no_rows = run(*base, "--schema-with-metadata-file", tmp_path / "data.json", "--num-rows", 0)
    assert no_rows.exit_code == 2
    assert "--num-rows" in no_rows.output
    sampled = ("--sample-completed-segment-dir", tmp_path / "absent", "--schema-file", tmp_path / "data.json")
    (tmp_path / "data.json").write_text(json.dumps(PLAIN))
    assert "absent" in str(run(*base, *sampled).exception)
