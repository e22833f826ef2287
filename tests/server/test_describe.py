"""A server's description of a segment's columns and their indexes."""

from pathlib import Path

import pyarrow as pa
from tests.server.test_layouts import SCHEMA, config

from gamay.base.clock import ManualClock
from gamay.ingest.transform.pipeline import Pipeline
from gamay.segment.read.reader import open_segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.server.http.describe import column_details, index_flags

NAMES = {
    "dictionary": "dictionary", "forward": "forward-index", "inverted": "inverted-index",
    "bloom": "bloom-filter", "null": "null-value-vector-reader",
}  # fmt: skip
ROWS = {"a": ["x", None], "tags": [["p", "q"], ["r", "s"]], "m": [1.0, 2.0], "ts": [1_700_000_000_000] * 2, "day": [1, 2]}


def test_every_part_of_a_column_is_flagged_under_the_old_name(tmp_path: Path) -> None:
    indexing = {"invertedIndexColumns": ["a"], "bloomFilterColumns": ["a"], "nullHandlingEnabled": True}
    table = config(indexing)
    builder = SegmentBuilder(SCHEMA, table, "s", tmp_path, clock=ManualClock())
    builder.append(Pipeline(SCHEMA, table).apply(pa.record_batch(ROWS)))
    segment, parts = open_segment(builder.build()), set[str]()
    for column in segment.info.columns.values():
        details, flags = column_details(segment, column), index_flags(segment, column)
        assert {NAMES[part] for part in details["indexSizeMap"] if part in NAMES} == {n for n in flags if flags[n] == "YES"}
        assert details["totalDocs"] == 2
        parts |= details["indexSizeMap"].keys()
    assert parts >= NAMES.keys()
