"""Compilation of the kernels for tables with primary keys: two batches are consumed, queried and sealed."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from gamay.base.clock import Clock
from gamay.functions.arrow import arrow_type
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.table.upsert_defaults import ServerDefaults
from gamay.query.bind.binder import bind
from gamay.query.execute.executor import execute
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import reduce
from gamay.segment.mutable.segment import MutableSegment
from gamay.segment.read.reader import open_segment
from gamay.segment.read.visible import VisibleSegment
from gamay.segment.spi import Segment
from gamay.sql.parser import parse_query
from gamay.upsert.config.settings import UpsertSettings
from gamay.upsert.persist.snapshots import SnapshotFolder
from gamay.upsert.spi import SegmentSource
from gamay.upsert.tables.table import TableUpsert

_ROWS = 1000
_KEYS = 750  # keys per batch, half of them shared with the previous one; enough to make the index grow
_LIMIT_MS = 600_000
_UNIX_MS = 1_767_225_600_000

_SCHEMA = {
    "schemaName": "warmup_keys",
    "dimensionFieldSpecs": [
        {"name": "name", "dataType": "STRING"},
        {"name": "number", "dataType": "LONG"},
        {"name": "gone", "dataType": "BOOLEAN"},
        {"name": "text", "dataType": "STRING"},
        {"name": "tags", "dataType": "STRING", "singleValueField": False},
    ],
    "metricFieldSpecs": [
        {"name": "total_int", "dataType": "INT"},
        {"name": "total_long", "dataType": "LONG"},
        {"name": "total_double", "dataType": "DOUBLE"},
        {"name": "greatest", "dataType": "INT"},
    ],
    "dateTimeFieldSpecs": [{"name": "ts", "dataType": "TIMESTAMP", "format": "TIMESTAMP", "granularity": "1:MILLISECONDS"}],
}
_MERGED = {
    "mode": "PARTIAL",
    "partialUpsertStrategies": {
        "total_int": "INCREMENT",
        "total_long": "INCREMENT",
        "total_double": "INCREMENT",
        "greatest": "MAX",
        "tags": "UNION",
    },
}
_TABLES = (
    ("name", {"mode": "FULL"}),
    ("name", {"mode": "FULL", "hashFunction": "MURMUR3", "deleteRecordColumn": "gone"}),
    ("number", {"mode": "FULL"}),
    ("name", _MERGED),
)
_QUERIES = (
    "SELECT COUNT(*), SUM(total_int), MAX(greatest) FROM warmup_keys",
    "SELECT text, COUNT(*), SUM(total_long), MAX(total_double) FROM warmup_keys GROUP BY text ORDER BY text",
    "SELECT COUNT(*), SUM(total_double) FROM warmup_keys WHERE greatest > 10",
    "SELECT name, total_int FROM warmup_keys WHERE name = 'name_17'",
)


def warm_up_keys(folder: Path, pool: WorkPool, clock: Clock, is_wanted: Callable[[], bool]) -> None:
    """Replace rows in tables of each kind, and query the valid ones, while `is_wanted` returns True."""
    for number, (key, upsert) in enumerate(_TABLES):
        if not is_wanted():
            return
        schema = Schema.from_json(_SCHEMA | {"primaryKeyColumns": [key]}).value
        config = TableConfig.from_json(
            {
                "tableName": "warmup_keys",
                "tableType": "REALTIME",
                "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
                "tenants": {},
                "tableIndexConfig": {"nullHandlingEnabled": True},
                "upsertConfig": upsert,
            }
        ).value
        _consume(folder / f"keys_{number}", schema, config, pool, clock)


def _consume(folder: Path, schema: Schema, config: TableConfig, pool: WorkPool, clock: Clock) -> None:
    settings = UpsertSettings.of(config, schema, ServerDefaults(snapshot=False))
    assert settings is not None
    folder.mkdir()
    table = TableUpsert(settings, SnapshotFolder(folder / "snapshots"), clock)
    name = "warmup_keys__0__0__20260101T0000Z"
    consuming = MutableSegment(name, schema, config, folder, clock=clock)
    try:
        keys = table.consume(0, name, 0, consuming.view)
        for number in range(2):
            rows = keys.prepare(_rows(schema, number))
            consuming.append(rows.batch)
            keys.publish(rows)
        _ask(VisibleSegment(consuming.view(), keys.docs.snapshot()), schema, pool, clock)
        sealed = open_segment(consuming.seal(folder / "sealed"))
        try:
            docs = table.commit(SegmentSource(sealed, 0, 0), lambda _: None)
            _ask(VisibleSegment(sealed, docs.snapshot()), schema, pool, clock)
        finally:
            sealed.close()
    finally:
        consuming.close()


def _ask(segment: Segment, schema: Schema, pool: WorkPool, clock: Clock) -> None:
    for sql in _QUERIES:
        bound = bind(parse_query(sql), schema)
        reduce(bound, [execute(bound, [segment], pool, Deadline.after_ms(_LIMIT_MS, clock))])


def _rows(schema: Schema, number: int) -> pa.RecordBatch:
    """Return a conformed batch, the first or second one."""
    row = np.arange(_ROWS)
    key = row % _KEYS + number * (_KEYS // 2)
    columns = {
        "name": pa.array([f"name_{i}" for i in key]),
        "number": pa.array(key),
        "gone": pa.array(row % 50 == 0, mask=row % 7 == 0),
        "text": pa.array([f"text_{i}" for i in range(5)]).take(pa.array(row % 5)),
        "tags": pa.ListArray.from_arrays(
            pa.array(np.arange(_ROWS + 1, dtype=np.int32)), pa.array([f"tag_{i % 8}" for i in row])
        ),
        "ts": pa.array(_UNIX_MS + number * _ROWS + row),
    }
    fields = schema.stored_fields
    arrays = [
        columns.get(f.name, pa.array(row, mask=row % 9 == 0)).cast(arrow_type(f.data_type, f.single_value)) for f in fields
    ]
    return pa.RecordBatch.from_arrays(arrays, [field.name for field in fields])
