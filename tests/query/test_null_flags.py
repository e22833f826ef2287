"""Flags of null rows against the bitmap they are computed from, and conditions that test them row by row."""

import gc
import itertools

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

import gamay
from gamay.model.types import DataType
from gamay.query.view.matches import AllDocs, DocList, DocMask
from gamay.query.view.null_flags import _KNOWN, null_flags_of
from gamay.query.view.virtual import ConstantColumn

_ROWS = 1003


class _Column(ConstantColumn):
    """A column with some null rows."""

    def __init__(self, nulls: BitMap) -> None:
        super().__init__("c", DataType.INT, 0, _ROWS, single_value=True, all_null=False)
        self.null_docs = nulls


@pytest.mark.parametrize("share", [0.01, 0.3, 0.99])
def test_flags_are_those_of_the_bitmap(share: float) -> None:
    rng = np.random.default_rng(3)
    expected = rng.random(_ROWS) < share
    column = _Column(BitMap(np.flatnonzero(expected).tolist()))
    flags = null_flags_of(column)
    assert flags is not None
    assert flags is null_flags_of(column)
    docs = np.sort(rng.choice(_ROWS, 77, replace=False)).astype(np.int32)
    assert flags.of(DocList(docs)).tolist() == expected[docs].tolist()
    for start, stop in ((0, _ROWS), (0, 0), (5, 5), (7, 8), (8, 16), (3, 1001), (1000, _ROWS)):
        part = expected[start:stop]
        assert flags.of(AllDocs(start, stop)).tolist() == part.tolist()
        kept = rng.random(len(part)) < 0.5
        assert flags.of(DocMask(start, kept)).tolist() == part[kept].tolist()


def test_flags_go_with_their_column() -> None:
    column = _Column(BitMap([1]))
    assert null_flags_of(_Column(BitMap())) is None
    assert null_flags_of(column) is not None
    assert column in _KNOWN
    before = len(_KNOWN)
    del column
    gc.collect()
    assert len(_KNOWN) < before


@pytest.mark.parametrize("share", [0.2, 0.9])
def test_conditions_on_columns_with_nulls(share: float) -> None:
    rng = np.random.default_rng(5)
    a, b, i, t = rng.integers(0, 10, _ROWS), rng.integers(0, 50, _ROWS), np.arange(_ROWS), rng.integers(0, 40, _ROWS)
    no_a, no_b, no_t = (rng.random(_ROWS) < share for _ in range(3))
    columns = {"a": pa.array(a, mask=no_a), "b": pa.array(b, mask=no_b), "i": pa.array(i)}
    rows = pa.table({**columns, "t": pa.array([f"x{n}" for n in t], mask=no_t)})
    raw = {"tableName": "r", "tableType": "OFFLINE", "tableIndexConfig": {"noDictionaryColumns": ["a", "b"]}}
    more, above = (a > 3) & ~no_a, (b > 20) & ~no_b
    has_one = np.array(["1" in str(n) for n in t]) & ~no_t
    expected = {
        "a > 3 AND b > 20": more & above,
        "a > 3 AND b IS NOT NULL": more & ~no_b,
        "a < 8 AND b > 20 AND t LIKE '%1%'": (a < 8) & ~no_a & above & has_one,
        "t LIKE '%1%' AND b IS NOT NULL": has_one & ~no_b,
        "i BETWEEN 100 AND 900 AND b > 20 AND a > 3": (i >= 100) & (i <= 900) & above & more,
        "NOT (a > 3 OR b > 20)": (a <= 3) & ~no_a & (b <= 20) & ~no_b,
        "(a > 3 AND b > 20) OR a = 1": (more & above) | ((a == 1) & ~no_a),
    }
    with gamay.connect(":memory:", threads=1) as db:
        db.create_table("d", rows)
        db.create_table("r", rows, config=raw)
        for (condition, kept), table in itertools.product(expected.items(), ("d", "r")):
            found = [row[0] for row in db.sql(f"SELECT i FROM {table} WHERE {condition} ORDER BY i LIMIT 2000").rows()]
            assert found == np.flatnonzero(kept).tolist(), condition
            assert db.sql(f"SELECT COUNT(*) FROM {table} WHERE {condition}").rows() == [(len(found),)]
