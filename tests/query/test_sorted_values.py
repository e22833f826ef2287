"""Binary search in sorted raw columns against a scan of the same values."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.clock import ManualClock
from gamay.functions.arrow import arrow_type
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.query.bind.predicate import In, Range
from gamay.query.filter.sorted_values import searched_docs
from gamay.query.filter.values import in_test, range_test
from gamay.query.view.docset import DocSet, doc_mask
from gamay.segment.read.reader import ImmutableSegment, open_segment
from gamay.segment.write.builder import SegmentBuilder

TYPES = {"INT": DataType.INT, "LONG": DataType.LONG, "DOUBLE": DataType.DOUBLE, "TIMESTAMP": DataType.TIMESTAMP}


def build(folder: Path, values: Any, data_type: DataType, codec: str | None) -> ImmutableSegment:
    """Build a segment with one raw column."""
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "x", "dataType": data_type.value}]}).value
    field = {"name": "x", "encodingType": "RAW"} | ({"compressionCodec": codec} if codec else {})
    config = TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "tableIndexConfig": {},
            "fieldConfigList": [field],
        }
    ).value
    builder = SegmentBuilder(schema, config, "t_0", folder, clock=ManualClock())
    builder.append(pa.RecordBatch.from_arrays([pa.array(values).cast(arrow_type(data_type))], ["x"]))
    return open_segment(builder.build())


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("codec", [None, "LZ4"])
def test_search_finds_what_a_scan_finds(tmp_path: Path, name: str, codec: str | None) -> None:
    rng = np.random.default_rng(3)
    values = np.sort(rng.integers(-2_000, 2_000, 40_000))
    segment = build(tmp_path, values, TYPES[name], codec)
    column = segment.column("x")

    def flags(docs: DocSet | None) -> Any:
        assert docs is not None
        return doc_mask(docs, segment.num_docs)

    bounds = st.one_of(st.none(), st.integers(-2_100, 2_100))

    @settings(max_examples=60, deadline=None)
    @given(lower=bounds, upper=bounds, low_in=st.booleans(), up_in=st.booleans(), wanted=st.integers(-2_100, 2_100))
    def check(lower: int | None, upper: int | None, low_in: bool, up_in: bool, wanted: int) -> None:
        everything = column.values(0, segment.num_docs)
        if lower is not None or upper is not None:
            leaf = Range("x", lower, upper, low_in, up_in)
            np.testing.assert_array_equal(flags(searched_docs(leaf, column)), range_test(leaf, column.data_type)(everything))
        one = In("x", (wanted, wanted + 7))
        np.testing.assert_array_equal(flags(searched_docs(one, column)), in_test(one, column.data_type)(everything))

    check()
    segment.close()


def test_unsorted_rows_are_left_to_a_scan(tmp_path: Path) -> None:
    segment = build(tmp_path, [3, 1, 2], DataType.INT, None)
    assert searched_docs(Range("x", 1, 2, True, True), segment.column("x")) is None
    segment.close()


@pytest.mark.parametrize(("values", "codec"), [([1, 2, 3], "PASS_THROUGH"), ([3, 1, 2], "FRAME")])
def test_sorted_rows_are_stored_plain(tmp_path: Path, values: list[int], codec: str) -> None:
    segment = build(tmp_path, values, DataType.LONG, None)
    assert segment.info.columns["x"].codec == codec
    segment.close()
