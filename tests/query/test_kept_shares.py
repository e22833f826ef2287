"""Aggregates of columns with large dictionaries against DuckDB, for conditions of any selectivity."""

from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import gamay
from gamay.kernels.tuning import CACHED_ENTRIES_MAX
from gamay.query.view.matches import DocMask, flagged_docs

ROWS = 120_000


@pytest.fixture(scope="module")
def tables() -> Iterator[Any]:
    rng = np.random.default_rng(4)
    whole = rng.integers(-(1 << 40), 1 << 40, ROWS)
    rows = pa.table(
        {
            "share": pa.array(rng.random(ROWS)),
            "few": pa.array(rng.integers(0, 5, ROWS).astype(np.int32), mask=rng.random(ROWS) < 0.1),
            "whole": pa.array(whole, mask=rng.random(ROWS) < 0.2),
            "wide": pa.array(rng.permutation(ROWS).astype(np.int32)),
        }
    )
    with gamay.connect(":memory:", threads=2) as db, duckdb.connect() as duck:
        db.create_table("t", rows)
        duck.execute("CREATE TABLE t AS SELECT * FROM rows")
        assert len(np.unique(whole)) > CACHED_ENTRIES_MAX
        yield db, duck


@pytest.mark.parametrize("kept", [0.0, 0.0001, 0.1, 0.5, 0.8, 0.99, 2.0])
@pytest.mark.parametrize("key", ["", "few", "wide"])
def test_aggregates_of_the_kept_rows(tables: Any, kept: float, key: str) -> None:
    db, duck = tables
    items = "COUNT(*), SUM(whole), MAX(whole), MIN(wide), AVG(wide), COUNT(whole), SUM(whole * 0.5 + wide)"
    only_sums = "SUM(whole), SUM(wide), COUNT(*)"
    for chosen in (items, only_sums):
        listed = f"{key}, {chosen} " if key else chosen
        grouped = f"GROUP BY {key} ORDER BY {key} NULLS LAST " if key else ""
        query = f"SELECT {listed} FROM t WHERE share < {kept} {grouped}LIMIT 1000000"
        own, theirs = db.sql(query).to_arrow(), duck.execute(query).to_arrow_table()
        if not key and kept == 0.0:  # of no rows, sums are null or 0
            continue
        for mine, other in zip(own.columns, theirs.columns, strict=True):
            mine, other = (side.cast(pa.float64()).to_numpy(zero_copy_only=False) for side in (mine, other))
            np.testing.assert_allclose(mine, other, rtol=1e-9, err_msg=query)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 63, 64, 65, 1000])
def test_flagged_docs_are_those_with_a_flag(size: int) -> None:
    rng = np.random.default_rng(size)
    for share in (0.0, 0.01, 0.5, 1.0):
        flags = rng.random(size + 20) < share
        for first in (0, 1, 5, 8):
            mask = flags[first : first + size]
            expected = (np.flatnonzero(mask) + 3).astype(np.int32)
            assert flagged_docs(mask, 3).tolist() == expected.tolist()
            assert DocMask(3, mask, len(expected)).docs().tolist() == expected.tolist()
        reverse = flags[::-1]
        assert flagged_docs(reverse).tolist() == np.flatnonzero(reverse).tolist()
