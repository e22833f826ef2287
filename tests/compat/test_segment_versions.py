"""Segments of each format version, as first written: every later release reads them.

The folder of today's version is written by this test when it is missing, and never changed afterwards.
"""

from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from gamay.base.clock import ManualClock
from gamay.functions.arrow import arrow_type
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.segment.encode.format import FORMAT_VERSION
from gamay.segment.read.reader import open_segment
from gamay.segment.spi import BLOOM, INVERTED, RANGE
from gamay.segment.write.builder import SegmentBuilder

HERE = Path(__file__).parent
VERSIONS = (1, 2, 3, 4)
CODECS = ("LZ4", "ZSTANDARD", "SNAPPY", "GZIP", "PASS_THROUGH")
NUM_DOCS = 200

# fmt: off
VALUES = {
    DataType.INT: [-(2**31), 7, 2**31 - 1],
    DataType.LONG: [-(2**63), 7, 2**63 - 1],
    DataType.FLOAT: [-1.5, 0.0, float("inf")],
    DataType.DOUBLE: [-1e300, 0.1, float("inf")],
    DataType.BIG_DECIMAL: ["-12345678901234567890.5", "0", "1.25"],
    DataType.BOOLEAN: [False, True, True],
    DataType.TIMESTAMP: [-1, 0, 1357034400000],
    DataType.STRING: ["", "é", "😀"],
    DataType.JSON: ["[]", "{}", '{"a": 1}'],
    DataType.BYTES: [b"", b"\x00\xff", b"a"],
    DataType.UUID: [bytes(16), bytes(range(16)), b"\xff" * 16],
}
# fmt: on


def row_value(data_type, doc, single_value):
    values = VALUES[data_type]
    return values[doc * 7 % 3] if single_value else [values[doc % 3], values[doc * 5 % 3]][: 1 + doc % 2]


def columns():
    """Name, type, single-value?, config of every column of the fixture."""
    for data_type in VALUES:
        yield f"d_{data_type.value}", data_type, True, {}
        yield f"p_{data_type.value}", data_type, True, {"properties": {"forwardIndexBitPacked": "true"}}
        if data_type is not DataType.JSON:
            yield f"m_{data_type.value}", data_type, False, {}
    for codec in CODECS:
        raw = {"encodingType": "RAW", "compressionCodec": codec, "indexes": {"forward": {"targetDocsPerChunk": 64}}}
        yield f"r_{codec}_LONG", DataType.LONG, True, raw
        yield f"r_{codec}_STRING", DataType.STRING, True, raw
        yield f"r_{codec}_STRING_MV", DataType.STRING, False, raw


def framed_value(data_type, doc):
    return doc * 7919 % 1000 / 100 + 901 if data_type is DataType.DOUBLE else doc * 7919 % 1000 - 10**12


def build(out_dir, name):
    fields = tuple(FieldSpec(name, data_type, single_value=sv) for name, data_type, sv, _ in columns())
    framed = {f"f_{data_type.value}": data_type for data_type in (DataType.LONG, DataType.DOUBLE)}
    fields += tuple(FieldSpec(name, data_type) for name, data_type in framed.items())
    schema = Schema("compat", fields)
    config = TableConfig.from_json(
        {
            "tableName": "compat",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "tableIndexConfig": {
                "nullHandlingEnabled": True,
                "invertedIndexColumns": ["d_STRING", "m_INT"],
                "rangeIndexColumns": ["d_LONG", "r_LZ4_LONG"],
                "bloomFilterColumns": ["d_STRING", "d_INT"],
                "noDictionaryColumns": list(framed),
                "segmentPartitionConfig": {"columnPartitionMap": {"d_INT": {"functionName": "Murmur", "numPartitions": 4}}},
            },
            "fieldConfigList": [{"name": name, **extra} for name, _, _, extra in columns() if extra],
        }
    ).value
    builder = SegmentBuilder(schema, config, name, out_dir, clock=ManualClock())
    arrow_schema = pa.schema([(f.name, arrow_type(f.data_type, f.single_value)) for f in fields])
    rows = {
        name: [None if doc % 11 == 10 else row_value(data_type, doc, sv) for doc in range(NUM_DOCS)]
        for name, data_type, sv, _ in columns()
    }
    for name, data_type in framed.items():
        rows[name] = [None if doc == 50 else framed_value(data_type, doc) for doc in range(NUM_DOCS)]
    builder.append(pa.RecordBatch.from_pydict(rows, schema=arrow_schema))
    return builder.build()


@pytest.fixture(scope="module", params=VERSIONS)
def segment(request):
    name = f"segment_v{request.param}"
    if request.param == FORMAT_VERSION and not (HERE / name).exists():
        build(HERE, name)
    return open_segment(HERE / name)


@pytest.mark.parametrize(("name", "data_type", "single_value"), [c[:3] for c in columns()], ids=[c[0] for c in columns()])
def test_every_column_reads_as_it_was_written(segment, name, data_type, single_value):
    column = segment.column(name)
    vector = column.values(0, NUM_DOCS)
    values = vector.values.tolist() if isinstance(vector.values, np.ndarray) else vector.values.to_pylist()
    nulls = set(column.null_docs)
    assert nulls == {doc for doc in range(NUM_DOCS) if doc % 11 == 10}
    for doc in set(range(NUM_DOCS)) - nulls:
        found = values[doc] if single_value else values[vector.offsets[doc] : vector.offsets[doc + 1]]
        expected = row_value(data_type, doc, single_value)
        if data_type is DataType.BIG_DECIMAL:
            expected = Decimal(expected) if single_value else list(map(Decimal, expected))
        assert found == expected


@pytest.mark.parametrize("data_type", [DataType.LONG, DataType.DOUBLE])
def test_columns_in_frame_of_reference_read_as_they_were_written(segment, data_type):
    column_name = f"f_{data_type.value}"
    if column_name not in segment.column_names:
        assert segment.name < "segment_v4"
        return
    assert segment.info.columns[column_name].frame is not None
    values = segment.column(column_name).values(0, NUM_DOCS).values.tolist()
    assert values[:50] + values[51:] == [framed_value(data_type, doc) for doc in range(NUM_DOCS) if doc != 50]


def test_indexes_answer(segment):
    text = segment.column("d_STRING")
    wanted = [doc for doc in range(NUM_DOCS) if doc % 11 != 10 and row_value(DataType.STRING, doc, True) == "é"]
    assert list(text.index(INVERTED).docs(text.dictionary.id_of("é"))) == wanted
    assert text.index(BLOOM).might_contain("é")
    assert not text.index(BLOOM).might_contain("absent")
    for name in ("d_LONG", "r_LZ4_LONG"):
        above = [doc for doc in range(NUM_DOCS) if doc % 11 != 10 and row_value(DataType.LONG, doc, True) > 0]
        assert list(segment.column(name).index(RANGE).docs_between(0, None, True, True)) == above
    assert segment.column("d_INT").stats.partition.function_name == "Murmur"


def test_todays_builder_writes_the_same_bytes(segment, tmp_path):
    """Fails when the format changes without a new version; compressed bytes depend on the versions of the codecs."""
    today = open_segment(build(tmp_path, "today"))
    for name, column in segment.info.columns.items():
        if column.codec in (None, "PASS_THROUGH"):
            ours = today.info.columns[name].buffers
            assert [(k, b.size, b.crc) for k, b in ours.items()] == [(k, b.size, b.crc) for k, b in column.buffers.items()]
