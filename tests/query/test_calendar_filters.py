"""Conditions on fields of sorted times: the rows found without testing each, against testing every row."""

from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import gamay
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
from gamay.query.filter.calendar import calendar_docs, calendar_entries, calendar_steps
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


@pytest.fixture(scope="module", params=["sparse", "dense", "encoded"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A segment of five years around 1970, of two days, and of these with a dictionary; and its times."""
    rng = np.random.default_rng(1)
    gap = 2_500_000 if request.param == "sparse" else 3_000
    times = np.sort(np.concatenate((rng.integers(-ROWS, ROWS, ROWS - 2) * gap // 2, [0, -3_600_000])))
    config = TableConfig.offline("t")
    if request.param != "encoded":
        config = TableConfig.offline("t", indexing=IndexingConfig(no_dictionary_columns=("ts",)))
        fields = [{"name": "ts", "encodingType": "RAW", "compressionCodec": "PASS_THROUGH"}]
        config = TableConfig.from_json(config.to_json() | {"fieldConfigList": fields}).value
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
    is_dense = (times[-1] - times[0]) // 3_600_000 * 8 < ROWS
    if column.dictionary is not None:
        entries = column.dictionary.values
        marks = calendar_entries(condition, entries)
        assert marks is not None
        assert (marks == evaluate(condition, lambda _: entries, len(entries)).values).all()  # type: ignore[union-attr]
        return
    assert (docs is not None) == is_dense
    assert docs is None or (doc_mask(docs, ROWS) == flags.values).all()  # type: ignore[union-attr]
    zoned = Call("hour", (Column("ts"), Literal("CET", D.STRING)))
    for other in (Call("greaterthan", (zoned, Literal(20, D.INT))), Call("greaterthan", (Column("ts"), hour))):
        assert calendar_docs(other, column) is None


@pytest.mark.parametrize("unit", ["hour", "day", "week", "month", "year"])
@pytest.mark.parametrize("with_nulls", [False, True])
def test_keys_of_times_in_a_dictionary(unit: str, with_nulls: bool) -> None:
    rng = np.random.default_rng(2)
    times = rng.integers(-40 * 3_600_000, 40 * 3_600_000, 20_000)
    missing = rng.random(len(times)) < 0.1 if with_nulls else np.zeros(len(times), np.bool_)
    rows = pa.table({"ts": pa.array(times, pa.timestamp("ms"), mask=missing), "n": pa.array(range(len(times)))})
    with gamay.connect(":memory:") as db, duckdb.connect() as duck:
        db.create_table("t", rows)
        for where in ("", " WHERE n < 50", " WHERE n < 0", " WHERE n % 3 = 1"):
            own = db.sql(f"SELECT dateTrunc('{unit}', ts), COUNT(*), SUM(n) FROM t{where} GROUP BY 1 LIMIT 1000").rows()
            theirs = duck.execute(
                f"SELECT epoch_ms(date_trunc('{unit}', ts)), COUNT(*), SUM(n) FROM rows{where} GROUP BY 1"
            ).fetchall()
            assert sorted(own, key=str) == sorted(theirs, key=str)


def test_steps_at_the_ends_of_64_bits() -> None:
    least = -(1 << 63)
    times = least + np.arange(1000, dtype=np.int64)
    day = Call("dateTrunc".lower(), (Literal("day", D.STRING), Column("ts")))
    steps = calendar_steps(day, D.LONG, times)
    assert steps is not None
    assert steps.starts.values.tolist() == [least]
    assert calendar_steps(day, D.LONG, np.append(times, 0)) is None
    assert calendar_steps(day, D.LONG, times[:0]) is None
