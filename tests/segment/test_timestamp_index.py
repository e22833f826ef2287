"""Columns of timestamp indexes: the same from rows, at a commit and for kept rows, and equal to dateTrunc."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from gamay.base.clock import ManualClock
from gamay.base.errors import CorruptSegmentError
from gamay.functions.arrow import conformed_schema
from gamay.functions.scalar.time.dates import date_trunc
from gamay.model.index.indexing import GRANULARITIES
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.segment.encode.format import METADATA_FILE, read_metadata_file, write_metadata_file
from gamay.segment.mutable import MutableSegment
from gamay.segment.read.reader import ImmutableSegment, open_segment
from gamay.segment.spi import RANGE
from gamay.segment.write.builder import SegmentBuilder
from gamay.segment.write.row_subset import KeptRows, write_kept

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dateTimeFieldSpecs": [
            {"name": "ts", "dataType": "TIMESTAMP", "format": "TIMESTAMP", "granularity": "1:MILLISECONDS"},
            {"name": "at", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS", "defaultNullValue": -7},
        ],
    }
).value


def config(*, raw: bool = False, sort: str | None = None, **indexing: Any) -> TableConfig:
    encoding = {"encodingType": "RAW"} if raw else {}
    document = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {"nullHandlingEnabled": True, **({"sortedColumn": [sort]} if sort else {}), **indexing},
        "fieldConfigList": [
            {"name": name, **encoding, "timestampConfig": {"granularities": list(GRANULARITIES)}} for name in ("ts", "at")
        ],
    }
    return TableConfig.from_json(document).value


def rows(count: int = 300, seed: int = 3) -> pa.RecordBatch:
    rng = random.Random(seed)
    edges = [0, -1, -(1 << 63), (1 << 63) - 1, 1_700_000_000_000]
    columns = [
        [None if rng.random() < 0.1 else rng.choice([*edges, rng.randrange(-(10**12), 10**12)]) for _ in range(count)]
        for _ in range(2)
    ]
    target = conformed_schema(SCHEMA)
    arrays = [pa.array(column, pa.int64()).cast(field.type) for column, field in zip(columns, target, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def built(batch: pa.RecordBatch, how: TableConfig, folder: Path) -> ImmutableSegment:
    builder = SegmentBuilder(SCHEMA, how, "s", folder, clock=ManualClock())
    builder.append(batch)
    return open_segment(builder.build())


@pytest.mark.parametrize("how", [{}, {"raw": True}, {"sort": "ts"}, {"columnMinMaxValueGeneratorMode": "NONE"}], ids=str)
def test_columns_are_the_same_however_the_segment_is_made(how: dict[str, Any], tmp_path: Path) -> None:
    batch, declared = rows(), config(**how)
    segment = built(batch, declared, tmp_path / "built")
    whole = KeptRows.of(segment, BitMap(range(segment.num_docs)))
    kept = open_segment(write_kept([whole], SCHEMA, declared, "s", tmp_path / "kept", 0))
    consuming = MutableSegment("s", SCHEMA, declared, tmp_path / "consuming", clock=ManualClock())
    for start in range(0, batch.num_rows, 70):
        consuming.append(batch.slice(start, 70))
    view = consuming.view()
    sealed = open_segment(consuming.seal(tmp_path / "sealed"))
    assert sealed.info.crc == kept.info.crc
    assert "sort" in how or kept.info.crc == segment.info.crc  # a builder takes rows in the order of the column
    for made in (segment, kept, sealed, view):
        for base in ("ts", "at"):
            times = made.column(base)
            for unit in GRANULARITIES:
                column = made.column(f"${base}${unit}")
                expected = date_trunc(unit, times.values(0, made.num_docs).values)
                assert np.array_equal(column.values(0, made.num_docs).values, expected)
                assert (column.data_type, column.null_docs) == (DataType.TIMESTAMP, times.null_docs)
                shown = column.millis.values(0, made.num_docs)
                assert (shown.type, shown.values.tolist()) == (DataType.LONG, expected.tolist())
                if made is not view:
                    assert (column.index(RANGE) is None) == column.stats.is_sorted
                    assert (column.stats.minimum is None) == (times.stats.minimum is None)
    assert segment.column_names[:3] == ("ts", "$ts$MILLISECOND", "$ts$SECOND")


def test_metadata_that_name_no_such_column_are_refused(tmp_path: Path) -> None:
    segment = built(rows(), config(), tmp_path / "made")
    document = read_metadata_file(segment.path)
    assert document["timestampColumns"]["$at$DAY"] == ["at", "DAY"]
    for name, value in (("$ts$DAY", ["at", "DAY"]), ("$ts$DAY", ["ts", "FORTNIGHT"]), ("$b$DAY", ["b", "DAY"]), ("x", 5)):
        changed = json.loads(json.dumps(document))
        changed["timestampColumns"][name] = value
        (segment.path / METADATA_FILE).unlink()
        write_metadata_file(segment.path, changed)
        with pytest.raises(CorruptSegmentError, match="is not the metadata of a segment"):
            open_segment(segment.path)
