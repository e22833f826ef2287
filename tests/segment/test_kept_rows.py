"""Segments of some rows of others: the same bytes as if built from these rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from gamay.base.clock import ManualClock
from gamay.base.errors import InvalidConfigError
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.segment.mutable.segment import MutableSegment
from gamay.segment.mutable.sizing import Sizing
from gamay.segment.read.reader import ImmutableSegment, open_segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.segment.write.row_subset import KeptRows, write_kept

T0 = 1_700_000_000_000
TYPES = ("INT", "LONG", "FLOAT", "DOUBLE", "BIG_DECIMAL", "BOOLEAN", "STRING", "BYTES", "JSON")
SCHEMA = {
    "schemaName": "t",
    "dimensionFieldSpecs": [
        *({"name": f"d_{kind}", "dataType": kind} for kind in TYPES),
        *({"name": f"r_{kind}", "dataType": kind} for kind in ("INT", "STRING", "DOUBLE")),
        *({"name": f"m_{kind}", "dataType": kind, "singleValueField": False} for kind in ("INT", "STRING")),
    ],
    "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
}


def table_config(**indexing: Any) -> TableConfig:
    document = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
        "tenants": {},
        "tableIndexConfig": {
            "nullHandlingEnabled": True,
            "noDictionaryColumns": ["r_INT", "r_STRING", "r_DOUBLE"],
            "invertedIndexColumns": ["d_STRING", "m_INT"],
            **indexing,
        },
    }
    return TableConfig.from_json(document).value


def rows(count: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)

    def maybe(values: list[Any]) -> list[Any]:
        return [None if rng.random() < 0.1 else value for value in values]

    small = [int(x) for x in rng.integers(-5, 5, count)]
    columns: dict[str, Any] = {
        "d_INT": pa.array(maybe(small), pa.int32()),
        "d_LONG": pa.array(maybe([x << 40 for x in small]), pa.int64()),
        "d_FLOAT": pa.array(maybe([x / 4 for x in small]), pa.float32()),
        "d_DOUBLE": maybe([x / 3 for x in small]),
        "d_BIG_DECIMAL": maybe([f"{x}.{abs(x)}" for x in small]),
        "d_BOOLEAN": maybe([x > 0 for x in small]),
        "d_STRING": maybe([f"ü{x}" for x in small]),
        "d_BYTES": pa.array(maybe([bytes([x + 5]) * (x + 6) for x in small]), pa.binary()),
        "d_JSON": maybe([f'{{"a":{x}}}' for x in small]),
        "r_INT": pa.array(maybe([int(x) for x in rng.integers(0, 10**9, count)]), pa.int32()),
        "r_STRING": maybe([f"text {i}" for i in range(count)]),
        "r_DOUBLE": maybe([float(x) for x in rng.random(count)]),
        "m_INT": pa.array(maybe([[abs(x), x][: abs(x) % 3] for x in small]), pa.list_(pa.int32())),
        "m_STRING": pa.array(maybe([[f"t{j}" for j in range(abs(x) % 4)] for x in small]), pa.list_(pa.string())),
        "ts": pa.array([T0 + i for i in range(count)], pa.int64()),
    }
    return pa.table(columns)


def build(table: pa.Table, config: TableConfig, name: str, folder: Path) -> ImmutableSegment:
    schema = Schema.from_json(SCHEMA).value
    builder = SegmentBuilder(schema, config, name, folder, clock=ManualClock(T0))
    pipeline = Pipeline(schema, config)
    for batch in table.to_batches():
        builder.append(pipeline.apply(batch))
    return open_segment(builder.build())


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("sorted_column", [None, "d_STRING"])
def test_kept_rows_are_as_if_built(tmp_path: Path, share: float, parts: int, sorted_column: str | None) -> None:
    indexing = {} if sorted_column is None else {"sortedColumn": [sorted_column]}
    config, schema = table_config(**indexing), Schema.from_json(SCHEMA).value
    rng = np.random.default_rng(7)
    kept, expected = [], []
    for number in range(parts):
        table = rows(400, number)
        if sorted_column is not None:
            table = by(table, sorted_column)
        chosen = np.flatnonzero(rng.random(400) < share)
        kept.append(KeptRows.of(build(table, config, f"s{number}", tmp_path / "in"), BitMap(chosen)))
        expected.append(table.take(pa.array(chosen)))
    whole = pa.concat_tables(expected)
    wanted = build(whole if sorted_column is None else by(whole, sorted_column), config, "out", tmp_path / "wanted")
    written = open_segment(write_kept(kept, schema, config, "out", tmp_path / "written", T0))
    assert written.num_docs == whole.num_rows
    for name in wanted.column_names:
        assert written.info.columns[name].stats == wanted.info.columns[name].stats, name
    assert (tmp_path / "written/out/columns.bin").read_bytes() == (tmp_path / "wanted/out/columns.bin").read_bytes()
    assert written.info.crc == wanted.info.crc


def by(table: pa.Table, column: str) -> pa.Table:
    """Order rows by a column as segments do: text by its bytes, null as the default value, equal ones as they are."""
    values = [("null" if value is None else value).encode() for value in table[column].to_pylist()]
    return table.take(pa.array(sorted(range(len(values)), key=values.__getitem__), pa.int64()))


@pytest.mark.parametrize("sorted_column", [None, "d_STRING"])
def test_a_consuming_segment_is_sealed_without_some_rows(tmp_path: Path, sorted_column: str | None) -> None:
    indexing = {} if sorted_column is None else {"sortedColumn": [sorted_column]}
    config, schema, table = table_config(**indexing), Schema.from_json(SCHEMA).value, rows(500, 3)
    mutable = MutableSegment("out", schema, config, tmp_path / "mutable", Sizing(1000, {}), ManualClock(T0))
    pipeline = Pipeline(schema, config)
    for batch in table.to_batches(max_chunksize=90):
        mutable.append(pipeline.apply(batch))
    chosen = np.flatnonzero(np.random.default_rng(1).random(500) < 0.3).astype(np.int32)
    mutable.seal(tmp_path / "sealed", chosen)
    part = table.take(pa.array(chosen))
    build(part if sorted_column is None else by(part, sorted_column), config, "out", tmp_path / "wanted")
    assert (tmp_path / "sealed/out/columns.bin").read_bytes() == (tmp_path / "wanted/out/columns.bin").read_bytes()


def test_columns_that_a_segment_lacks_are_null(tmp_path: Path) -> None:
    config, table = table_config(), rows(50, 1)
    segment = build(table, config, "s", tmp_path / "in")
    grown = {**SCHEMA, "metricFieldSpecs": [{"name": "more", "dataType": "LONG", "defaultNullValue": 9}]}
    schema = Schema.from_json(grown).value
    kept = [KeptRows.of(segment, BitMap(range(0, 50, 2)))]
    column = open_segment(write_kept(kept, schema, config, "out", tmp_path / "out", T0)).column("more")
    assert column.values(0, 25).values.tolist() == [9] * 25
    assert column.null_docs == BitMap(range(25))


def test_rows_of_another_segment_are_refused(tmp_path: Path) -> None:
    segment = build(rows(10, 1), table_config(), "s", tmp_path)
    with pytest.raises(InvalidConfigError, match="row 10"):
        KeptRows.of(segment, BitMap([10]))
