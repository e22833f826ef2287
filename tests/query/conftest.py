"""A small table with every kind of column, as real segments, and a fixture that answers SQL on it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gamay.base.clock import SYSTEM_CLOCK, Clock
from gamay.functions.arrow import arrow_type
from gamay.model.index.indexing import IndexingConfig
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType, FieldRole
from gamay.query.bind.binder import bind
from gamay.query.execute.executor import execute
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import Answer, reduce
from gamay.segment.read.reader import ImmutableSegment, open_segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.sql.parser import parse_query

FIELDS = (
    FieldSpec("day", DataType.INT),
    FieldSpec("city", DataType.STRING),
    FieldSpec("kind", DataType.INT),
    FieldSpec("price", DataType.DOUBLE, FieldRole.METRIC),
    FieldSpec("tags", DataType.STRING, single_value=False),
    FieldSpec("at", DataType.TIMESTAMP, FieldRole.DATE_TIME),
)
SCHEMA = Schema("trips", FIELDS, enable_column_based_null_handling=True)
CITIES = ("Lima", "Oslo", "Rome")


@dataclass
class Table:
    """A table's segments. Row i: day i // 10 (sorted), city by i % 3, kind by i % 4, price i / 2, tags, at i seconds."""

    schema: Schema
    segments: Sequence[ImmutableSegment]
    pool: WorkPool

    def answer(self, sql: str, *, timeout_ms: float = 60_000, clock: Clock = SYSTEM_CLOCK) -> Answer:
        """Run a query on all segments as one server."""
        bound = bind(parse_query(sql), self.schema)
        result = execute(bound, self.segments, self.pool, Deadline.after_ms(timeout_ms, clock), "host-1")
        return reduce(bound, [result])

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        table = self.answer(sql).table
        assert table is not None
        return table.rows()


def batch(start: int, size: int) -> pa.RecordBatch:
    """Return rows start … start + size - 1; every seventh row has no city."""
    rows = range(start, start + size)
    columns: dict[str, list[Any]] = {
        "day": [i // 10 for i in rows],
        "city": [None if i % 7 == 0 else CITIES[i % 3] for i in rows],
        "kind": [i % 4 for i in rows],
        "price": [i / 2 for i in rows],
        "tags": [[f"t{i % 3}", f"t{i % 5}"] for i in rows],
        "at": [i * 1000 for i in rows],
    }
    arrays = [pa.array(columns[spec.name], arrow_type(spec.data_type, spec.single_value)) for spec in FIELDS]
    return pa.RecordBatch.from_arrays(arrays, names=[spec.name for spec in FIELDS])


BuildTable = Callable[..., Table]


@pytest.fixture(scope="module")
def build_table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that builds the table from segment sizes and index settings."""
    pool = WorkPool(2)

    def build(
        sizes: Sequence[int] = (40, 60), schema: Schema = SCHEMA, masks: Sequence[Any] | None = None, **indexing: Any
    ) -> Table:
        folder: Path = tmp_path_factory.mktemp("segments")
        config = TableConfig.offline("trips", indexing=IndexingConfig(null_handling_enabled=True, **indexing))
        segments, start = [], 0
        for number, size in enumerate(sizes):
            builder = SegmentBuilder(SCHEMA, config, f"trips_{number}", folder)
            rows = batch(start, size) if masks is None else batch(start, size).filter(pa.array(masks[number]))
            if rows.num_rows:
                builder.append(rows)
            segments.append(open_segment(builder.build()))
            start += size
        return Table(schema, segments, pool)

    yield build
    pool.close()


@pytest.fixture(scope="module")
def trips(build_table: BuildTable) -> Table:
    """Two segments of 40 and 60 rows; `kind` has an inverted index, `price` is raw, `day` is sorted."""
    return build_table(inverted_index_columns=("kind",), no_dictionary_columns=("price",))
