"""The output of `gamay segment show`."""

import pytest

from gamay.base.errors import CorruptSegmentError
from gamay.model.types import DataType, FieldRole
from gamay.segment.describe import describe
from gamay.segment.encode.metadata import read_metadata


def test_everything_is_shown_with_its_size(kit):
    from gamay.model.schema.datetime_format import DateTimeFormat

    schema = kit.schema(
        kit.field("city", DataType.STRING),
        kit.field("tags", DataType.STRING, False),
        kit.field("fare", DataType.DOUBLE, role=FieldRole.METRIC),
        kit.field("ts", DataType.TIMESTAMP, role=FieldRole.DATE_TIME, format=DateTimeFormat.parse("TIMESTAMP")),
    )
    columns = {
        "city": [None, "Oslo", "x" * 60],
        "tags": [["a"], ["b", "c"], []],
        "fare": [1.5, 2.5, None],
        "ts": [1357034400000, 1357034400001, 1357034400002],
    }
    partition = {"columnPartitionMap": {"city": {"functionName": "Murmur", "numPartitions": 3}}}
    config = kit.config(
        segments={"timeColumnName": "ts"},
        invertedIndexColumns=["city"],
        noDictionaryColumns=["fare"],
        segmentPartitionConfig=partition,
    )
    path = kit.build(schema, config, columns, name="rides_0")
    text = describe(path)
    for expected in (
        "segment rides_0 of table t_OFFLINE",
        "3 rows, 4 columns",
        "ts from 2013-01-01 10:00:00 to 2013-01-01 10:00:00",
        "STRING[]",
        "raw (0 + 8 bits) * 1e-1",
        "8-bit ids",
        "a dictionary is the default, or declared",
        "Murmur(3) in",
        "inverted.sets",
        "x" * 23 + "…",
    ):
        assert expected in text
    info = read_metadata(path)
    for column in info.columns.values():
        for buffer in column.buffers.values():
            line = next(line for line in text.splitlines() if line.startswith(column.name) and f" {buffer.kind} " in line)
            assert line.endswith(f" {buffer.size:,}")
    size = (path / "columns.bin").stat().st_size
    assert f"columns.bin: {size:,} bytes" in text
    total = next(line for line in text.splitlines() if line.startswith("total"))
    assert total.split()[-1] == f"{size - 64:,}"


def test_an_empty_segment_can_be_shown(kit):
    assert "0 rows, 1 columns" in describe(kit.build(kit.schema(kit.field("i", DataType.INT)), kit.config(), {"i": []}))


def test_what_is_no_segment_is_said_so(tmp_path):
    with pytest.raises(CorruptSegmentError, match="not a segment"):
        describe(tmp_path)
