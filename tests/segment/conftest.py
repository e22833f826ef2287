"""Rows, schemas and segments for the tests of `gamay.segment`."""

import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from gamay.base.clock import ManualClock
from gamay.functions.arrow import arrow_type
from gamay.model.schema.default_null import COLUMN_TYPES
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType, FieldRole
from gamay.segment.read.reader import open_segment
from gamay.segment.write.builder import SegmentBuilder

STORED_TYPES = list(COLUMN_TYPES)


VALUES = {
    DataType.INT: st.integers(-(2**31), 2**31 - 1),
    DataType.LONG: st.integers(-(2**63), 2**63 - 1),
    DataType.TIMESTAMP: st.integers(-(2**50), 2**50),
    DataType.FLOAT: st.floats(width=32),
    DataType.DOUBLE: st.floats(),
    DataType.BOOLEAN: st.booleans(),
    DataType.STRING: st.text(),
    DataType.JSON: st.text(),
    DataType.BYTES: st.binary(),
    DataType.UUID: st.binary(min_size=16, max_size=16),
    DataType.BIG_DECIMAL: st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**30)).map(
        lambda d: format(d, "f")
    ),
}


def few(data_type):
    """Few distinct values: repeats, sorted runs."""
    return st.lists(VALUES[data_type], min_size=1, max_size=4).flatmap(st.sampled_from)


def make_field(name, data_type, single_value=True, role=FieldRole.DIMENSION, **more):
    return FieldSpec(name, data_type, role=role, single_value=single_value, **more)


def make_schema(*fields):
    return Schema("t", tuple(fields))


def make_config(field_configs=(), segments=None, null_handling=True, **indexing):
    document = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1", **(segments or {})},
        "tenants": {},
        "tableIndexConfig": {"nullHandlingEnabled": null_handling, **indexing},
        "fieldConfigList": list(field_configs),
    }
    parsed = TableConfig.from_json(document)
    assert not parsed.unrecognized
    return parsed.value


def make_batch(schema, columns):
    arrow_schema = pa.schema([(f.name, arrow_type(f.data_type, f.single_value)) for f in schema.stored_fields])
    return pa.RecordBatch.from_pydict(columns, schema=arrow_schema)


def plain(vector):
    """The values of a Vector as a list, of lists if it is multi-value."""
    values = vector.values.tolist() if isinstance(vector.values, np.ndarray) else vector.values.to_pylist()
    if vector.offsets is None:
        return values
    return [values[a:b] for a, b in zip(vector.offsets[:-1], vector.offsets[1:], strict=True)]


def stored_value(value, spec):
    """Return the stored form of an input value, written as plainly as possible."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        value = spec.default_null_value
    if spec.data_type is DataType.BIG_DECIMAL:
        return Decimal(value)
    if spec.data_type in (DataType.FLOAT, DataType.DOUBLE):
        return float(np.float32(value) if spec.data_type is DataType.FLOAT else value) + 0.0
    return value


def stored_row(row, spec):
    if spec.single_value:
        return stored_value(row, spec)
    present = [v for v in row or [] if v is not None and not (isinstance(v, float) and math.isnan(v))]
    return [stored_value(v, spec) for v in present] or [stored_value(None, spec)]


def sort_key(value):
    return value.encode() if isinstance(value, str) else value


def is_missing(row):
    if isinstance(row, list):
        return all(map(is_missing, row))
    return row is None or (isinstance(row, float) and math.isnan(row))


class Kit:
    """The functions above in one object, since test modules do not import each other."""

    STORED_TYPES = STORED_TYPES
    VALUES = VALUES
    few = staticmethod(few)
    is_missing = staticmethod(is_missing)
    field = staticmethod(make_field)
    schema = staticmethod(make_schema)
    config = staticmethod(make_config)
    batch = staticmethod(make_batch)
    plain = staticmethod(plain)
    stored_row = staticmethod(stored_row)
    sort_key = staticmethod(sort_key)

    def __init__(self, folder):
        self._folder = folder
        self._count = 0

    def build(self, schema, config, columns, name="s", batch_rows=None, clock=None):
        """Build a segment of columns given as lists, in a separate folder; return its path."""
        self._count += 1
        batch = make_batch(schema, columns)
        builder = SegmentBuilder(schema, config, name, Path(self._folder) / str(self._count), clock=clock or ManualClock())
        step = batch_rows or max(1, batch.num_rows)
        for start in range(0, batch.num_rows, step):
            builder.append(batch.slice(start, step))
        assert builder.num_docs == batch.num_rows
        return builder.build()

    def open(self, schema, config, columns, **more):
        return open_segment(self.build(schema, config, columns, **more))


@pytest.fixture(scope="session")
def kit(tmp_path_factory):
    return Kit(tmp_path_factory.mktemp("segments"))
