"""Index types among a column's buffers: the existing ones, and a new one, which is one class and one entry of the list."""

import numpy as np
import pytest

from gamay.base.errors import CorruptSegmentError
from gamay.model.types import DataType
from gamay.segment.describe import describe
from gamay.segment.index.registry import BY_KEY, COLUMN_INDEXES
from gamay.segment.read import column as reader
from gamay.segment.read.defaults import with_defaults
from gamay.segment.read.reader import open_segment
from gamay.segment.spi import BLOOM, INVERTED, NULLS, RANGE, SORTED, IndexKey
from gamay.segment.verify import structure
from gamay.segment.write import column_writer

ODD: IndexKey[np.ndarray] = IndexKey("odd")


class OddType:
    """For each id whether the docs that hold it are odd in number."""

    key = ODD

    def write(self, writer, rows):
        return [] if rows.counts is None else [writer.add("odd.flags", [(rows.counts % 2).astype(np.uint8)])]

    def read(self, file, buffers, column):
        return file.array(buffers["odd.flags"], np.uint8)

    def check(self, checker, meta, num_docs):
        checker.expect("odd.flags", checker.array("odd.flags", np.uint8).max(initial=0) <= 1, "flags other than 0 and 1")


def test_keys_and_types_are_those_of_the_interface():
    assert [each.key for each in COLUMN_INDEXES] == [NULLS, SORTED, INVERTED, RANGE, BLOOM]
    assert len({each.key.name for each in COLUMN_INDEXES}) == len(COLUMN_INDEXES)


@pytest.fixture
def odd(monkeypatch):
    kind = OddType()
    monkeypatch.setattr(column_writer, "COLUMN_INDEXES", (*COLUMN_INDEXES, kind))
    monkeypatch.setattr(structure, "COLUMN_INDEXES", (*COLUMN_INDEXES, kind))
    monkeypatch.setattr(reader, "BY_KEY", {**BY_KEY, ODD: kind})
    return kind


def test_one_more_type_is_built_opened_checked_and_shown(kit, odd, monkeypatch, tmp_path):
    schema = kit.schema(kit.field("x", DataType.INT), kit.field("raw", DataType.DOUBLE))
    folder = kit.build(schema, kit.config(noDictionaryColumns=["raw"]), {"x": [3, 1, 3, 2], "raw": [0.5, 1.5, 0.0, 2.0]})
    segment = open_segment(folder)
    assert segment.column("x").index(ODD).tolist() == [1, 1, 0]
    assert segment.column("raw").index(ODD) is None
    assert "odd.flags" in describe(folder)
    more = kit.schema(kit.field("x", DataType.INT), kit.field("raw", DataType.DOUBLE), kit.field("new", DataType.INT))
    assert with_defaults(segment, more, kit.config()).column("new").index(ODD) is None
    monkeypatch.setattr(odd, "check", lambda checker, meta, num_docs: checker.expect("odd.flags", False, "it is refused"))
    with pytest.raises(CorruptSegmentError, match=r"column 'x', odd\.flags: it is refused"):
        open_segment(folder)
