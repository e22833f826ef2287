"""A range index is used for few rows; rows of wide ranges are found faster by a scan."""

import numpy as np
import pyarrow as pa
import pytest

import gamay

ROWS = 600_000


@pytest.fixture(scope="module")
def db() -> "gamay.Database":
    numbers = np.random.default_rng(3).permutation(ROWS).astype(np.int32)
    rows = pa.table({"raw": numbers, "coded": numbers // 8, "n": np.arange(ROWS)})
    config = {"tableIndexConfig": {"noDictionaryColumns": ["raw"], "rangeIndexColumns": ["raw", "coded"]}}
    with gamay.connect(":memory:", threads=1) as found:
        found.create_table("t", rows, config=config)
        yield found


@pytest.mark.parametrize(("column", "top"), [("raw", ROWS), ("coded", ROWS // 8)])
@pytest.mark.parametrize(("share", "operator"), [(0.005, "FILTER_RANGE_INDEX"), (0.25, "FILTER_FULL_SCAN")])
def test_the_index_is_for_few_rows(db: "gamay.Database", column: str, top: int, share: float, operator: str) -> None:
    sql = f"SELECT COUNT(*), SUM(n) FROM t WHERE {column} BETWEEN {top // 2} AND {top // 2 + int(share * top)}"
    plan = str(db.sql(f"EXPLAIN PLAN FOR {sql}").rows())
    assert operator in plan, plan
    answer = db.sql(sql)
    assert answer.rows() == db.sql(sql, skipIndexes=f"{column}=range").rows()
    assert (answer.stats.num_entries_scanned_in_filter == 0) == (operator == "FILTER_RANGE_INDEX")
