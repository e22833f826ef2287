"""Raw integers of a narrow range are keys by their distance from the minimum: the same answers as with hashed values."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base import guard
from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import CorruptSegmentError
from gamay.functions.expression import Column
from gamay.model.schema.field_spec import BY_TYPE, FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.query.bind.binder import bind
from gamay.query.execute.executor import execute
from gamay.query.limits.budget import Budget, ProcessBudget
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import reduce
from gamay.query.view import whole_codes as module
from gamay.query.view.matches import AllDocs
from gamay.query.view.virtual import QuerySegment
from gamay.query.view.whole_codes import WholeCodes, whole_codes
from gamay.segment.read.reader import open_segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.sql.parser import parse_query

ROWS = 70_000
FIELDS = {
    "byte": DataType.INT,
    "short": DataType.LONG,
    "three": DataType.LONG,
    "plain": DataType.INT,
    "ts": DataType.TIMESTAMP,
    "wide": DataType.LONG,
    "g": DataType.INT,
}
SCHEMA = Schema(
    "t",
    tuple(
        FieldSpec(name, data_type, default_null_value=-7 if name == "byte" else BY_TYPE)
        for name, data_type in FIELDS.items()
    ),
)
NARROW = ["byte", "short", "three", "plain", "ts"]


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two segments whose ranges differ; a tenth of `byte` is null; all but `g` are raw, `plain` in no frame."""
    folder = tmp_path_factory.mktemp("whole")
    table = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {"noDictionaryColumns": [*NARROW, "wide"], "nullHandlingEnabled": True},
        "fieldConfigList": [{"name": "plain", "encodingType": "RAW", "compressionCodec": "PASS_THROUGH"}],
    }
    config = TableConfig.from_json(table).value
    rng = np.random.default_rng(3)
    built = []
    for number in range(2):
        builder = SegmentBuilder(SCHEMA, config, f"t_{number}", folder)
        drawn = rng.integers(0, 3_000, ROWS)
        columns = [
            pa.array((drawn % 40 - 20 + number).astype(np.int32), mask=drawn % 10 == 0),
            pa.array(drawn * 3 - 100 * number),
            pa.array(np.where(drawn == 7, 69_000, drawn) + 10**12),
            pa.array((drawn % 500 - number).astype(np.int32)),
            pa.array(1_700_000_000_000 + drawn, pa.timestamp("ms")),
            pa.array(drawn * 1_000_003),
            pa.array((drawn % 6).astype(np.int32)),
        ]
        builder.append(pa.RecordBatch.from_arrays(columns, names=list(FIELDS)))
        built.append(open_segment(builder.build()))
    return built


def answer(segments: Any, sql: str, most: int = 1 << 20) -> list[tuple[Any, ...]]:
    bound = bind(parse_query(sql), SCHEMA)
    with pytest.MonkeyPatch.context() as patch, WorkPool(2) as pool:
        patch.setattr(module, "WHOLE_CODES_MAX", most)
        table = reduce(bound, [execute(bound, segments, pool, Deadline.after_ms(60_000, SYSTEM_CLOCK))]).table
    assert table is not None
    return table.rows()


@given(
    keys=st.lists(st.sampled_from([*NARROW, "wide", "g", "short % 100", "byte + 1"]), min_size=1, max_size=3, unique=True),
    aggregates=st.sampled_from(["COUNT(*), SUM(g), MIN(byte)", "SUM(plain), MAX(ts), AVG(short)", "DISTINCTCOUNT(three)"]),
    where=st.sampled_from(["", "WHERE g > 2", "WHERE byte BETWEEN -3 AND 4", "WHERE plain < 20 OR wide > 1000000000"]),
    nulls=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_answers_are_those_of_hashed_values(
    segments: Any, keys: list[str], aggregates: str, where: str, nulls: bool
) -> None:
    listed = ", ".join(keys)
    sql = (
        f"SET enableNullHandling = {str(nulls).lower()}; SELECT {listed}, {aggregates} FROM t {where} GROUP BY {listed} "
        f"ORDER BY {listed} LIMIT 100000"
    )
    assert answer(segments, sql) == answer(segments, sql, most=0)


def test_sets_of_keys_are_coded_alike(segments: Any) -> None:
    sql = (
        "SELECT byte, plain, COUNT(*) FROM t GROUP BY GROUPING SETS ((byte, plain), (plain), ()) ORDER BY 1, 2 LIMIT 100000"
    )
    assert answer(segments, sql) == answer(segments, sql, most=0)


def of(segments: Any, *names: str, num_rows: int = ROWS) -> dict[str, WholeCodes]:
    return dict(whole_codes(QuerySegment(segments[0], {}, ""), [Column(name) for name in names], [], num_rows))


def test_which_columns_are_coded(segments: Any) -> None:
    assert sorted(of(segments, *FIELDS)) == sorted(NARROW)
    assert sorted(of(segments, *FIELDS, num_rows=500)) == ["byte", "plain"]  # as many as there are rows, not more


def test_little_memory_has_no_room_for_codes(segments: Any) -> None:
    deadline = Deadline.after_ms(60_000, SYSTEM_CLOCK, Budget(100_000, ProcessBudget(1 << 40, 1 << 40)))
    before = guard.enter(deadline)
    try:
        assert sorted(of(segments, *FIELDS)) == ["byte", "plain"]
    finally:
        guard.enter(before)


@pytest.mark.parametrize("name", NARROW)
def test_ids_stand_for_their_values(segments: Any, name: str) -> None:
    read = of(segments, name)[name].read(AllDocs(10, ROWS))
    assert read.decode().values.tolist() == segments[0].column(name).values(10, ROWS).values.tolist()
    assert read.type is FIELDS[name]


@pytest.mark.parametrize(("below", "above"), [(-1, 0), (0, -1)])
@pytest.mark.parametrize("name", NARROW)
def test_values_out_of_range_are_damage(segments: Any, name: str, below: int, above: int) -> None:
    column = segments[0].column(name)
    codes = WholeCodes(column, column.stats.minimum - below, column.stats.maximum + above)
    with pytest.raises(CorruptSegmentError, match=name):
        codes.read(AllDocs(0, ROWS))
