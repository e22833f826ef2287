"""A table of many groups with few rows each, and queries on it under a budget."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gamay.base import guard
from gamay.base.clock import SYSTEM_CLOCK
from gamay.model.index.indexing import IndexingConfig
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.query.bind.binder import bind
from gamay.query.execute.executor import execute
from gamay.query.execute.server_result import ServerResult
from gamay.query.limits.budget import Budget, ProcessBudget
from gamay.query.limits.deadline import Deadline
from gamay.query.limits.spill_files import SpillSpace
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import reduce
from gamay.query.wire.result import encode_result, receive
from gamay.segment.read.reader import open_segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.sql.parser import parse_query

ROWS = 4_000
NO_LIMIT = 1 << 40
MEMORY = 32_000_000
SCHEMA = Schema(
    "many",
    (
        FieldSpec("k", DataType.LONG),
        FieldSpec("s", DataType.STRING),
        FieldSpec("raw", DataType.STRING),
        FieldSpec("d", DataType.DOUBLE),
        FieldSpec("g", DataType.INT),
        FieldSpec("mv", DataType.INT, single_value=False),
    ),
)


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two segments that share most of 3,000 keys; `k`, `raw` and `d` have no dictionary; a tenth of `d` is null."""
    folder = tmp_path_factory.mktemp("many")
    config = TableConfig.offline(
        "many", indexing=IndexingConfig(no_dictionary_columns=("k", "raw", "d"), null_handling_enabled=True)
    )
    rng = np.random.default_rng(11)
    built = []
    for number in range(2):
        builder = SegmentBuilder(SCHEMA, config, f"many_{number}", folder)
        keys = rng.integers(0, 3_000, ROWS)
        columns = [
            pa.array(keys * 1_000_003),
            pa.array([f"user-{k}" for k in keys]),
            pa.array([f"é{k % 900}" * (k % 3) for k in keys]),
            pa.array((keys % 5000) / 4, mask=keys % 10 == 0),
            pa.array(rng.integers(0, 40, ROWS).astype(np.int32)),
            pa.array([[int(k) % 7, int(k) % 11] for k in keys], pa.list_(pa.int32())),
        ]
        builder.append(pa.RecordBatch.from_arrays(columns, names=["k", "s", "raw", "d", "g", "mv"]))
        built.append(open_segment(builder.build()))
    return built


def comparable(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows in which NaN equals NaN, and sums that differ by the order of addition are the same."""
    return [tuple(f"{value:.9g}" if isinstance(value, float) else value for value in row) for row in rows]


class Run:
    """Runner of queries under a budget, on one server per segment or one with all; counts the spilled bytes."""

    def __init__(self, segments: Any, folder: Path, memory: int, disk: int | None = None) -> None:
        self.segments = segments
        self.process = ProcessBudget(NO_LIMIT, NO_LIMIT, SpillSpace(folder, disk))
        self.memory = memory
        self.spilled = 0

    def rows(self, sql: str, *, servers: int = 1, on_wire: bool = False) -> list[tuple[Any, ...]]:
        budget = Budget(self.memory, self.process)
        bound = bind(parse_query(sql), SCHEMA)
        deadline = Deadline.after_ms(120_000, SYSTEM_CLOCK, budget)
        before = guard.enter(deadline)
        try:
            with WorkPool(2) as pool:
                parts = [self.segments] if servers == 1 else [[segment] for segment in self.segments]
                results: list[ServerResult] = []
                for part in parts:
                    result = execute(bound, part, pool, deadline)
                    self.spilled = max(self.spilled, self.process.space.used)
                    if on_wire:
                        sent = [memoryview(bytearray(buffer)) for buffer in encode_result(bound, result, ())]
                        result = receive(sent).result(bound, SYSTEM_CLOCK)
                    results.append(result)
                table = reduce(bound, results).table
                assert table is not None
                return comparable(table.rows())
        finally:
            guard.enter(before)
            budget.close()
