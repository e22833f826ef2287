"""ORDER BY the sorted column: read from the right end, no further than necessary, ties in row order."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.query.many_groups import NO_LIMIT

from gamay.base.clock import SYSTEM_CLOCK, ManualClock
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.query import selection
from gamay.query.bind.binder import bind
from gamay.query.execute.executor import execute
from gamay.query.limits.budget import Budget, ProcessBudget
from gamay.query.limits.deadline import Deadline
from gamay.query.limits.spill_files import SpillSpace
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import reduce
from gamay.query.stats import QueryStats
from gamay.segment.read.reader import ImmutableSegment, open_segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.sql.parser import parse_query

FIELDS = {
    "t": DataType.LONG, "raw": DataType.LONG, "text": DataType.STRING, "d": DataType.DOUBLE,
    "u": DataType.INT, "n": DataType.INT,
}  # fmt: skip
SCHEMA = Schema("t", tuple(FieldSpec(name, kind) for name, kind in FIELDS.items()))
ROWS = 700


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "_FIRST_BLOCK_ROWS", 16)
        yield


@pytest.fixture(scope="module")
def columns() -> list[dict[str, list[Any]]]:
    """Three segments, the second the latest; `t`, `raw`, `text` and `d` ascend in each, with repeats, also over segments."""
    rng = np.random.default_rng(3)
    made = []
    for number, start in enumerate((100, 280, 40)):
        times = np.sort(rng.integers(start, start + 200, ROWS))
        made.append(
            {
                "t": times.tolist(),
                "raw": (times * 10).tolist(),
                "text": [f"é{t:04d}" for t in times],
                "d": (times / 4).tolist(),
                "u": rng.integers(0, 30, ROWS).tolist(),
                "n": [number * ROWS + i for i in range(ROWS)],
            }
        )
    return made


@pytest.fixture(scope="module")
def segments(columns: Any, tmp_path_factory: pytest.TempPathFactory) -> list[ImmutableSegment]:
    config = TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "tableIndexConfig": {"noDictionaryColumns": ["raw", "d"], "invertedIndexColumns": ["u"]},
        }
    ).value
    folder: Path = tmp_path_factory.mktemp("sorted")
    opened = []
    for number, rows in enumerate(columns):
        builder = SegmentBuilder(SCHEMA, config, f"t_{number}", folder, clock=ManualClock())
        arrays = [pa.array(rows[name], {"INT": pa.int32()}.get(kind.value)) for name, kind in FIELDS.items()]
        builder.append(pa.RecordBatch.from_arrays(arrays, names=list(FIELDS)))
        opened.append(open_segment(builder.build()))
    return opened


def ask(segments: Any, sql: str, threads: int = 1) -> tuple[list[tuple[Any, ...]], QueryStats]:
    bound = bind(parse_query(sql), SCHEMA)
    budget = Budget(NO_LIMIT, ProcessBudget(NO_LIMIT, NO_LIMIT, SpillSpace(None, 0)))
    with WorkPool(threads) as pool:
        answer = reduce(bound, [execute(bound, segments, pool, Deadline.after_ms(60_000, SYSTEM_CLOCK, budget))])
    assert answer.table is not None
    return answer.table.rows(), answer.stats


WHERES = {
    "": lambda row: True,
    "WHERE u = 7": lambda row: row["u"] == 7,
    "WHERE u < 22 AND n <> 5": lambda row: row["u"] < 22 and row["n"] != 5,
    "WHERE n % 3 = 1": lambda row: row["n"] % 3 == 1,
    "WHERE t > 470": lambda row: row["t"] > 470,
    "WHERE u > 99": lambda row: False,
}


@given(
    key=st.sampled_from(["t", "raw", "text", "d", "u"]), descending=st.booleans(),
    others=st.sampled_from(["", ", u", ", u DESC, n"]),
    where=st.sampled_from(list(WHERES)), limit=st.sampled_from([1, 7, 60, 900, 5000]), offset=st.sampled_from([0, 3]),
    threads=st.sampled_from([1, 2]),
)  # fmt: skip
def test_the_first_rows_are_those_of_a_stable_sort(
    columns: Any, segments: Any, key: str, descending: bool, others: str, where: str, limit: int, offset: int, threads: int
) -> None:
    rows = [dict(zip(part, values, strict=True)) for part in columns for values in zip(*part.values(), strict=True)]
    kept = [row for row in rows if WHERES[where](row)]
    if others:
        kept.sort(key=lambda row: row["n"])
        kept.sort(key=lambda row: row["u"], reverse="DESC" in others)
    kept.sort(key=lambda row: row[key], reverse=descending)
    direction = " DESC" if descending else ""
    found, _ = ask(
        segments, f"SELECT n, {key} FROM t {where} ORDER BY {key}{direction}{others} LIMIT {limit} OFFSET {offset}", threads
    )
    assert found == [(row["n"], row[key]) for row in kept[offset : offset + limit]]


@pytest.mark.parametrize("key", ["t", "raw", "d"])
def test_few_rows_are_read_of_the_right_end(segments: Any, key: str) -> None:
    for order, least in ((f"{key} DESC, u", 478), (f"{key}, u", 42)):
        rows, stats = ask(segments, f"SELECT t FROM t WHERE n <> 1 ORDER BY {order} LIMIT 4")
        assert abs(rows[0][0] - least) < 4
        assert stats.num_docs_scanned < 100
        assert stats.num_segments_matched == 1


def test_segments_without_a_chance_are_left_out(segments: Any) -> None:
    for key in ("t", "raw", "text", "d"):
        _, stats = ask(segments, f"SELECT n FROM t WHERE u < 25 ORDER BY {key} DESC, n LIMIT 20")
        assert (stats.num_segments_processed, stats.num_segments_pruned_by_limit) == (1, 2), key
