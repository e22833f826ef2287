"""Conditions on fields of sorted times: the rows that are found without looking at each, against testing every row."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gamay.base.clock import SYSTEM_CLOCK
from gamay.functions.evaluate import evaluate
from gamay.functions.expression import Call, Column, Literal
from gamay.model.index.indexing import IndexingConfig
from gamay.model.schema.field_spec import FieldRole
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType as D
from gamay.query.bind.binder import bind
from gamay.query.execute.executor import execute
from gamay.query.filter.calendar import calendar_docs
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import reduce
from gamay.query.view.docset import doc_mask
from gamay.segment.read.reader import open_segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.sql.parser import parse_query

SCHEMA = Schema("t", (FieldSpec("ts", D.TIMESTAMP, FieldRole.DATE_TIME), FieldSpec("n", D.INT)))
ROWS = 60_000
CONDITIONS = [
    "hour(ts) >= 18",
    "hour(ts) BETWEEN 3 AND 4 OR dayOfWeek(ts) = 7",
    "NOT minute(ts) < 59",
    "month(ts) = 12 AND hour(ts) <> 0",
    "year(ts) < 1970",
    "year(ts) > 2500",
    "dateTrunc('hour', ts) = 0",
    "dateTrunc('week', ts) <= 0",
    "hour(ts) IN (1, 5, 23)",
    "hour(ts) * 2 + 1 > 30",
]


@pytest.fixture(scope="module", params=["sparse", "dense"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A segment of half a year around 1970, and of two days; and its times."""
    rng = np.random.default_rng(1)
    gap = 250_000 if request.param == "sparse" else 3_000
    times = np.sort(np.concatenate((rng.integers(-ROWS, ROWS, ROWS - 2) * gap // 2, [0, -3_600_000])))
    config = TableConfig.offline("t", indexing=IndexingConfig(no_dictionary_columns=("ts",)))
    config = TableConfig.from_json(
        config.to_json() | {"fieldConfigList": [{"name": "ts", "encodingType": "RAW", "compressionCodec": "PASS_THROUGH"}]}
    ).value
    builder = SegmentBuilder(SCHEMA, config, "t_0", tmp_path_factory.mktemp("segment"))
    columns = [pa.array(times).cast(pa.timestamp("ms")), pa.array(range(ROWS), pa.int32())]
    builder.append(pa.RecordBatch.from_arrays(columns, names=["ts", "n"]))
    return open_segment(builder.build()), times


def where(condition: str) -> Any:
    return bind(parse_query(f"SELECT n FROM t WHERE {condition} LIMIT 100000"), SCHEMA)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_as_every_row(case: Any, condition: str) -> None:
    segment, times = case
    moments = [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=int(ms)) for ms in times]
    tests = {
        CONDITIONS[0]: lambda t: t.hour >= 18,
        CONDITIONS[1]: lambda t: 3 <= t.hour <= 4 or t.isoweekday() == 7,
        CONDITIONS[2]: lambda t: t.minute >= 59,
        CONDITIONS[3]: lambda t: t.month == 12 and t.hour != 0,
        CONDITIONS[4]: lambda t: t.year < 1970,
        CONDITIONS[5]: lambda t: False,
        CONDITIONS[6]: lambda t: t.replace(minute=0, second=0, microsecond=0).timestamp() == 0,
        CONDITIONS[7]: lambda t: t < datetime(1970, 1, 5, tzinfo=UTC),
        CONDITIONS[8]: lambda t: t.hour in (1, 5, 23),
        CONDITIONS[9]: lambda t: t.hour * 2 + 1 > 30,
    }
    wanted = [i for i, moment in enumerate(moments) if tests[condition](moment)]
    with WorkPool(1) as pool:
        bound = where(condition)
        table = reduce(bound, [execute(bound, [segment], pool, Deadline.after_ms(60_000, SYSTEM_CLOCK))]).table
    assert table is not None
    assert [row[0] for row in table.rows()] == wanted


def test_which_are_searched(case: Any) -> None:
    segment, times = case
    column = segment.column("ts")
    hour = Call("hour", (Column("ts"),))
    condition = Call("greaterthan", (hour, Literal(20, D.INT)))
    docs = calendar_docs(condition, column)
    flags = evaluate(condition, lambda _: column.values(0, ROWS), ROWS)
    is_dense = (times[-1] - times[0]) // 3_600_000 * 64 < ROWS
    assert (docs is not None) == is_dense
    assert docs is None or (doc_mask(docs, ROWS) == flags.values).all()  # type: ignore[union-attr]
    zoned = Call("hour", (Column("ts"), Literal("CET", D.STRING)))
    for other in (Call("greaterthan", (zoned, Literal(20, D.INT))), Call("greaterthan", (Column("ts"), hour))):
        assert calendar_docs(other, column) is None
