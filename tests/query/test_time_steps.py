"""Functions of raw times computed once per hour, day etc. equal those computed per row."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.clock import SYSTEM_CLOCK
from gamay.functions.expression import Column
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.query.bind.binder import BoundQuery, bind
from gamay.query.execute.executor import execute
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import reduce
from gamay.query.view.virtual import QuerySegment
from gamay.query.view.whole_codes import whole_codes
from gamay.segment.mutable import MutableSegment
from gamay.segment.read.reader import open_segment
from gamay.segment.spi import Segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.sql.parser import parse_query

ROWS = 40_000
_DAY_MS = 86_400_000
_FORMAT = {"granularity": "1:MILLISECONDS"}
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "enableColumnBasedNullHandling": True,
        "dimensionFieldSpecs": [{"name": "g", "dataType": "INT"}],
        "metricFieldSpecs": [{"name": "v", "dataType": "INT"}],
        "dateTimeFieldSpecs": [
            {"name": "late", "dataType": "TIMESTAMP", "format": "TIMESTAMP", **_FORMAT},  # of half a year
            {"name": "old", "dataType": "LONG", "format": "EPOCH", **_FORMAT},  # before and after 1970
            {"name": "gaps", "dataType": "LONG", "format": "EPOCH", **_FORMAT, "defaultNullValue": 1_700_000_000_000},
            {"name": "far", "dataType": "LONG", "format": "EPOCH", **_FORMAT},  # of ten million years
        ],
    }
).value
TIMES = ("late", "old", "gaps", "far")


def config() -> TableConfig:
    indexing = {"noDictionaryColumns": list(TIMES), "nullHandlingEnabled": True}
    kind = {"tableName": "t", "tableType": "OFFLINE", "segmentsConfig": {}, "tenants": {}, "metadata": {}}
    return TableConfig.from_json({**kind, "tableIndexConfig": indexing}).value


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Segment]]:
    """A sealed and a consuming segment, without sorted time columns."""
    rng = np.random.default_rng(4)

    def rows() -> pa.RecordBatch:
        times = rng.integers(0, 180 * _DAY_MS, ROWS)
        columns = {
            "g": rng.integers(0, 5, ROWS).astype(np.int32),
            "late": pa.array(1_700_000_000_000 + times, pa.timestamp("ms")),
            "old": times // 9 - 10 * _DAY_MS,
            "gaps": pa.array(1_700_000_000_000 + times // 50, mask=rng.random(ROWS) < 0.1),
            "far": (times - 90 * _DAY_MS) * 20_000_000,
            "v": rng.integers(0, 100, ROWS).astype(np.int32),
        }
        return pa.RecordBatch.from_arrays([pa.array(columns[name]) for name in SCHEMA.column_names], SCHEMA.column_names)

    folder = tmp_path_factory.mktemp("steps")
    builder = SegmentBuilder(SCHEMA, config(), "t_0", folder)
    builder.append(rows())
    consuming = MutableSegment("t_1", SCHEMA, config(), folder / "consuming")
    consuming.append(rows())
    sealed = open_segment(builder.build())
    yield [sealed, consuming.view()]
    sealed.close()


def bound(sql: str) -> BoundQuery:
    return bind(parse_query(sql), SCHEMA)


def answer(segments: list[Segment], sql: str) -> list[tuple[Any, ...]]:
    query = bound(sql)
    with WorkPool(2) as pool:
        table = reduce(query, [execute(query, segments, pool, Deadline.after_ms(60_000, SYSTEM_CLOCK))]).table
    assert table is not None
    return table.rows()


EXPRESSIONS = (
    "dateTrunc('DAY', {0})", "dateTrunc('hour', {0})", "DATETRUNC('WEEK', {0}, 'MILLISECONDS', 'UTC', 'DAYS')", "hour({0})",
    "year({0}) * 100 + month({0})", "dayOfWeek({0})", "dow({0})", "EXTRACT(HOUR FROM {0})", "toEpochDays({0})",
    "toEpochHoursRounded({0}, 6)", "timeConvert({0}, 'MILLISECONDS', 'DAYS')", "toDateTime({0}, 'yyyy-MM-dd HH')",
    "dateTimeConvert({0}, '1:MILLISECONDS:EPOCH', '1:HOURS:EPOCH', '6:HOURS')", "hour({0}, 'Asia/Kolkata')", "minute({0})",
    "CASE WHEN hour({0}) < 6 THEN 'night' ELSE CONCAT('h', CAST(hour({0}) AS STRING)) END", "floor(hour({0}) / 6)",
    "mod(year({0}), month({0}))", "10 / (dayOfWeek({0}) - 3)", "SUBSTR(toDateTime({0}, 'yyyy-MM-dd'), 0, 7)",
)  # fmt: skip


def by_row(times: str) -> str:
    """Return an equivalent expression that no optimisation recognises."""
    return f"(CASE WHEN v < 1000 THEN {times} END)"


@settings(max_examples=60)
@given(
    st.sampled_from(EXPRESSIONS),
    st.sampled_from(TIMES[:3]),
    st.sampled_from(["", ", g", ", g % 2"]),
    st.sampled_from(
        ["COUNT(*), SUM(v)", "MAX(v), MIN({0})", "SUM(hour({0}))", "COUNT(*) FILTER (WHERE {0} > 1700000000000)"]
    ),
    st.sampled_from(["v >= 0", "g = 3", "v < 3"]),
    st.booleans(),
)
def test_groups_are_those_of_every_row(
    segments: list[Segment], form: str, times: str, more: str, aggregates: str, where: str, nulls: bool
) -> None:
    def asked(of: str) -> str:
        keys = form.format(of) + more
        select = f"SELECT {keys}, {aggregates.format(times)} FROM t WHERE {where} GROUP BY {keys}"
        return f"SET enableNullHandling = {str(nulls).lower()}; {select} ORDER BY {keys} LIMIT 100000"

    assert answer(segments, asked(times)) == answer(segments, asked(by_row(times)))


@pytest.mark.parametrize("form", EXPRESSIONS)
@pytest.mark.parametrize("rest", ["", ", g", " WHERE g = 3"])
def test_distinct_values_are_those_of_every_row(segments: list[Segment], form: str, rest: str) -> None:
    more, where = ("", rest) if "WHERE" in rest else (rest, "")

    def asked(of: str) -> str:
        keys = form.format(of) + more
        return f"SELECT DISTINCT {keys} FROM t{where} ORDER BY {keys} LIMIT 100000"

    assert answer(segments, asked("late")) == answer(segments, asked(by_row("late")))


@settings(max_examples=60)
@given(
    st.sampled_from(["{0} = {1}", "{0} > {1}", "NOT {0} IN ({1})", "{0} < {1} OR v = 3"]),
    st.sampled_from(EXPRESSIONS),
    st.sampled_from(TIMES),
    st.integers(0, ROWS - 1),
    st.booleans(),
)
def test_conditions_hold_for_the_same_rows(
    segments: list[Segment], form: str, expression: str, times: str, row: int, nulls: bool
) -> None:
    (value,) = answer(segments, f"SELECT {expression.format(times)} FROM t WHERE $docId = {row} LIMIT 1")[0]
    constant = f"'{value}'" if isinstance(value, str) else str(value)

    def asked(of: str) -> str:
        condition = form.format(expression.format(of), constant)
        return f"SET enableNullHandling = {str(nulls).lower()}; SELECT COUNT(*), SUM(v) FROM t WHERE {condition}"

    assert answer(segments, asked(times)) == answer(segments, asked(by_row(times)))


@pytest.mark.parametrize(
    ("keys", "arguments", "expected"),
    [
        (["hour(late)"], [], {"late": 180 * 24 + 1}),
        (["hour(late)", "dateTrunc('DAY', late)"], [], {"late": 180 * 24 + 1}),
        (["dateTrunc('DAY', late)"], ["hour(late)"], {"late": 180 * 24 + 1}),
        (["dateTrunc('DAY', late)"], ["late"], {}),
        (["late"], [], {}),
        (["second(late)"], [], {}),  # more steps than rows
        (["dateTrunc('DAY', far)"], [], {}),
        (["toEpochDays(old)"], [], {}),  # counts towards 1970 from both sides
        (["dayOfYear(old)"], [], {"old": 21}),
        (["year(old) + g"], [], {}),
    ],
)
def test_which_times_are_read_in_steps(
    segments: list[Segment], keys: list[str], arguments: list[str], expected: dict[str, int]
) -> None:
    chosen = bound(f"SELECT {', '.join(keys)}, {', '.join(['1', *arguments])} FROM t").rows
    columns = [expression for expression in chosen if not isinstance(expression, Column) or expression.name in TIMES]
    segment = QuerySegment(segments[0], {}, "")
    codes = whole_codes(segment, columns[: len(keys)], columns[len(keys) + 1 :], ROWS)
    assert {name: len(found.dictionary) for name, found in codes.items()} == pytest.approx(expected, abs=1)
