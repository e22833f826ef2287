"""GAPFILL against a row-by-row twin and, in all its nestings, against DuckDB."""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import ErrorCode, QueryError
from gamay.embedded.database import Database, connect
from gamay.functions.vector import Vector
from gamay.model.schema.datetime_format import DateTimeFormat
from gamay.model.types import DataType
from gamay.query.answer.response import ResultTable
from gamay.query.answer.values import json_values
from gamay.query.reduce.gapfill import fill_gaps
from gamay.sql.query import Gapfill

HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000 // HOUR_MS * HOUR_MS
Row = tuple[int, str, int, int, list[int]]
TIMES = st.integers(-30, 60) | st.sampled_from([-(2**63), 2**63 - 1])


# -- one step against its twin


def twin(rows: Sequence[Row], start: int, end: int, bucket: int, limit: int | None) -> list[Row]:
    """Fill (time, key, repeated, reset, list) row by row."""
    ordered = sorted(
        (row for row in rows if (row[0] - start) // bucket < -((start - end) // bucket)), key=lambda row: row[0]
    )
    keys = list(dict.fromkeys(row[1] for row in ordered))
    last = {row[1]: row[2] for row in ordered if row[0] < start}
    filled: list[Row] = []
    for bucket_start in range(start, end, bucket):
        here = [row for row in ordered if bucket_start <= row[0] < bucket_start + bucket]
        missing = [key for key in keys if key not in {row[1] for row in here}]
        filled += here
        filled += [(bucket_start, key, last.get(key, 0), 0, []) for key in missing]
        last |= {row[1]: row[2] for row in here}
    return filled if limit is None else filled[:limit]


@settings(max_examples=300, deadline=None)
@given(
    rows=st.lists(st.tuples(TIMES, st.sampled_from("abc"), st.integers(1, 9), st.integers(1, 9)), max_size=25),
    start=st.integers(-9, 9),
    length=st.integers(0, 45),
    bucket=st.integers(1, 20),
    limit=st.none() | st.integers(0, 60),
)
def test_filled_rows_are_those_of_the_twin(
    rows: list[tuple[int, str, int, int]], start: int, length: int, bucket: int, limit: int | None
) -> None:
    table = ResultTable(
        ("t", "k", "p", "d", "m"),
        ("LONG", "STRING", "INT", "LONG", "INT_ARRAY"),
        (
            Vector(DataType.LONG, np.array([row[0] for row in rows], np.int64)),
            Vector(DataType.STRING, pa.array([row[1] for row in rows], pa.string())),
            Vector(DataType.INT, np.array([row[2] for row in rows], np.int32)),
            Vector(DataType.LONG, np.array([row[3] for row in rows], np.int64)),
            Vector(DataType.INT, np.repeat(np.int32(7), 2 * len(rows)), np.arange(0, 2 * len(rows) + 1, 2)),
        ),
    )
    fmt = DateTimeFormat.parse("1:MILLISECONDS:EPOCH")
    gapfill = Gapfill(None, None, 0, (1,), (2,), fmt, start, start + length, bucket, 1, (), limit, 0)
    wanted = twin([(*row, [7, 7]) for row in rows], start, start + length, bucket, limit)
    assert fill_gaps(gapfill, table).rows() == wanted


def test_made_rows_have_zeros_of_every_type() -> None:
    listed = {
        DataType.INT: np.array([7], np.int32),
        DataType.DOUBLE: np.array([7.5]),
        DataType.BOOLEAN: np.array([True]),
        DataType.BIG_DECIMAL: np.array([Decimal("7.5")], object),
        DataType.TIMESTAMP: np.array([7], np.int64),
        DataType.STRING: pa.array(["x"]),
        DataType.BYTES: pa.array([b"x"]),
        DataType.MAP: pa.array(['{"a":1}']),
    }
    columns = (
        Vector(DataType.LONG, np.array([0], np.int64)),
        Vector(DataType.STRING, pa.array(["a"])),
        *(Vector(data_type, values) for data_type, values in listed.items()),
    )
    names = tuple(f"c{i}" for i in range(len(columns)))
    table = ResultTable(names, tuple(column.type.value for column in columns), columns)
    fmt = DateTimeFormat.parse("1:MILLISECONDS:EPOCH")
    filled = fill_gaps(Gapfill(None, None, 0, (1,), (), fmt, 0, 2, 1, 1, (), None, 0), table)
    made = [row[1] for row in orjson.loads(orjson.dumps([json_values(column) for column in filled.columns]))]
    assert made == [1, "a", 0, 0.0, False, "0", "1970-01-01 00:00:00.0", "", "", {}]


# -- whole queries


class Meters:
    """Readings of a few meters with gaps, in several forms of time, here and in DuckDB."""

    def __init__(self, folder: Path) -> None:
        rng = random.Random(11)
        rows = []
        for hour in range(-6, 60):
            for meter in ("a", "b", "ü"):
                for _ in range(rng.choice((0, 0, 1, 1, 2))):
                    rows.append((hour, meter, rng.randrange(1, 4), rng.randrange(1000) / 8))
        rng.shuffle(rows)
        millis = [START_MS + hour * HOUR_MS for hour, *_ in rows]
        table = pa.table(
            {
                "id": pa.array(range(len(rows)), pa.int64()),
                "ms": pa.array(millis, pa.int64()),
                "hour": pa.array([ms // HOUR_MS for ms in millis], pa.int32()),
                "day": [f"{datetime.fromtimestamp(ms / 1000, UTC):%Y%m%d%H}" for ms in millis],
                "at": pa.array(millis, pa.timestamp("ms")),
                "meter": [row[1] for row in rows],
                "phase": pa.array([row[2] for row in rows], pa.int32()),
                "watts": [row[3] for row in rows],
            }
        )
        self.database: Database = connect(folder)
        self.database.create_table("meters", table)
        self.duck = duckdb.connect(config={"threads": 1})
        self.duck.register("meters", table)

    def close(self) -> None:
        self.database.close()
        self.duck.close()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.database.sql(sql).rows()]

    def duck_rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.duck.execute(sql).fetchall()]


@pytest.fixture(scope="module")
def meters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Meters]:
    made = Meters(tmp_path_factory.mktemp("meters"))
    yield made
    made.close()


END_MS = START_MS + 48 * HOUR_MS
RANGE = f"'{START_MS}', '{END_MS}', '1:HOURS'"


def gapfill(time: str = "ms", form: str = "1:MILLISECONDS:EPOCH", bounds: str = RANGE, fill: str = "watts") -> str:
    return f"GAPFILL({time}, '{form}', {bounds}, FILL({fill}, 'FILL_PREVIOUS_VALUE'), TIMESERIESON(meter)) AS bucket"


# one row for each hour and meter: those there, or a row with the last reading before and zeros
_DUCK_RAW = f"""
    grid AS (SELECT h, meter FROM range({START_MS}, {END_MS}, {HOUR_MS}) AS hours(h),
             (SELECT DISTINCT meter FROM meters WHERE ms < {END_MS}) AS known),
    filled AS (
        SELECT ms AS bucket, meter, watts, phase FROM meters WHERE ms >= {START_MS} AND ms < {END_MS}
        UNION ALL
        SELECT h, meter,
            coalesce((SELECT arg_max(watts, (ms, id)) FROM meters AS m WHERE m.meter = g.meter AND ms < h), 0), 0
        FROM grid AS g WHERE NOT EXISTS (SELECT 1 FROM meters AS m WHERE m.meter = g.meter AND m.ms = h)
    )
"""
# the same over sums by hour and meter
_DUCK_SUMS = f"""
    sums AS (SELECT ms, meter, sum(watts) AS total, count(*) AS n FROM meters GROUP BY ALL),
    grid AS (SELECT h, meter FROM range({START_MS}, {END_MS}, {HOUR_MS}) AS hours(h),
             (SELECT DISTINCT meter FROM meters WHERE ms < {END_MS}) AS known),
    filled AS (
        SELECT ms AS bucket, meter, total, n FROM sums WHERE ms >= {START_MS} AND ms < {END_MS}
        UNION ALL
        SELECT h, meter, coalesce((SELECT arg_max(total, ms) FROM sums AS m WHERE m.meter = g.meter AND ms < h), 0), 0
        FROM grid AS g WHERE NOT EXISTS (SELECT 1 FROM sums AS m WHERE m.meter = g.meter AND m.ms = h)
    )
"""
_SUMS = "SELECT ms, meter, sum(watts) AS total, count(*) AS n FROM meters GROUP BY ms, meter"


def test_alone(meters: Meters) -> None:
    # which of two readings of one hour is the last one depends only on their order in the table
    where = "WHERE id NOT IN (SELECT min(id) FROM meters GROUP BY ms, meter HAVING count(*) > 1)"
    single = [str(row[0]) for row in meters.duck_rows(f"SELECT id FROM meters {where}")]
    found = meters.rows(
        f"SELECT {gapfill()}, meter, watts, phase FROM meters WHERE id IN ({', '.join(single)}) LIMIT 100000"
    )
    raw = _DUCK_RAW.replace("meters WHERE ms >=", f"(SELECT * FROM meters {where}) WHERE ms >=")
    for old in ("FROM meters AS m", "FROM meters WHERE ms <"):
        raw = raw.replace(old, old.replace("FROM meters", f"FROM (SELECT * FROM meters {where})"))
    assert sorted(found) == meters.duck_rows(f"WITH {raw} SELECT bucket, meter, watts, phase FROM filled ORDER BY ALL")
    assert [row[0] for row in found] == sorted(row[0] for row in found)


@pytest.mark.parametrize(
    ("time", "form", "bounds"),
    [
        ("ms", "1:MILLISECONDS:EPOCH", RANGE),
        ("hour", "1:HOURS:EPOCH", f"'{START_MS // HOUR_MS}', '{END_MS // HOUR_MS}', '60:MINUTES'"),
        ("hour", "EPOCH|HOURS", f"'{START_MS // HOUR_MS}', '{END_MS // HOUR_MS}', 'HOURS|1'"),
        ("day", "1:HOURS:SIMPLE_DATE_FORMAT:yyyyMMddHH", "'2023111422', '2023111622', '1:HOURS'"),
        ("at", "TIMESTAMP", "'2023-11-14 22:00:00', '2023-11-16 22:00:00', '1:HOURS'"),
        ("at", "1:MILLISECONDS:EPOCH", RANGE),
    ],
)
def test_forms_of_time(meters: Meters, time: str, form: str, bounds: str) -> None:
    found = meters.rows(
        f"SELECT bucket, count(*), sum(n) FROM (SELECT {gapfill(time, form, bounds, 'total')}, meter, total, n FROM "
        f"(SELECT {time}, meter, sum(watts) AS total, count(*) AS n FROM meters GROUP BY {time}, meter)) "
        "GROUP BY bucket LIMIT 1000"
    )
    wanted = meters.duck_rows(f"WITH {_DUCK_SUMS} SELECT bucket, count(*), sum(n) FROM filled GROUP BY 1 ORDER BY 1")
    assert [row[1:] for row in found] == [(n, float(total)) for _, n, total in wanted]
    shown = {
        "ms": lambda ms: ms,
        "hour": lambda ms: ms // HOUR_MS,
        "day": lambda ms: f"{datetime.fromtimestamp(ms / 1000, UTC):%Y%m%d%H}",
        "at": lambda ms: datetime.fromtimestamp(ms / 1000, UTC),
    }[time]
    assert [row[0] for row in found] == [shown(row[0]) for row in wanted]


def test_select_over_gapfill(meters: Meters) -> None:
    found = meters.rows(
        f"SELECT meter, bucket, phase FROM (SELECT {gapfill()}, meter, phase, watts FROM meters) "
        "WHERE phase = 0 AND meter <> 'b' ORDER BY bucket DESC, meter LIMIT 30"
    )
    wanted = meters.duck_rows(
        f"WITH {_DUCK_RAW} SELECT meter, bucket, phase FROM filled WHERE phase = 0 AND meter <> 'b' "
        "ORDER BY bucket DESC, meter LIMIT 30"
    )
    assert found == wanted


def test_aggregation_over_gapfill(meters: Meters) -> None:
    found = meters.rows(
        f"SELECT bucket, count(*) AS n, max(phase), sum(phase) FROM (SELECT {gapfill()}, meter, phase, watts FROM meters) "
        "WHERE meter <> 'b' GROUP BY bucket HAVING count(*) > 2 ORDER BY n DESC, bucket LIMIT 50"
    )
    wanted = meters.duck_rows(
        f"WITH {_DUCK_RAW} SELECT bucket, count(*) AS n, max(phase), sum(phase) FROM filled WHERE meter <> 'b' "
        "GROUP BY 1 HAVING count(*) > 2 ORDER BY n DESC, bucket LIMIT 50"
    )
    assert found == wanted


def test_gapfill_over_aggregation(meters: Meters) -> None:
    found = meters.rows(f"SELECT {gapfill(fill='total')}, meter, total, n FROM ({_SUMS}) LIMIT 100000")
    wanted = meters.duck_rows(f"WITH {_DUCK_SUMS} SELECT bucket, meter, total, n FROM filled ORDER BY bucket, n = 0")
    assert sorted(found) == sorted(wanted)
    assert [(row[0], row[3] == 0) for row in found] == [(row[0], row[3] == 0) for row in wanted]


@pytest.mark.parametrize(("window", "hours"), [("", 1), ("'4:HOURS', ", 4), ("'300:MINUTES', ", 5)])
def test_aggregation_over_gapfill_over_aggregation(meters: Meters, window: str, hours: int) -> None:
    call = gapfill(fill="total").replace(", FILL(", f", {window}FILL(")
    found = meters.rows(
        f"SELECT bucket, meter, avg(total), sum(n) FROM (SELECT {call}, meter, total, n FROM ({_SUMS})) "
        "GROUP BY bucket, meter ORDER BY bucket, meter LIMIT 10000"
    )
    wanted = meters.duck_rows(
        f"WITH {_DUCK_SUMS} SELECT {START_MS} + (bucket - {START_MS}) // {hours * HOUR_MS} * {hours * HOUR_MS} AS w, meter, "
        "avg(total), sum(n) FROM filled GROUP BY ALL ORDER BY w, meter"
    )
    assert [(*row[:2], pytest.approx(row[2]), row[3]) for row in wanted] == found


def test_limits(meters: Meters) -> None:
    every = meters.rows(f"SELECT {gapfill(fill='total')}, meter, total, n FROM ({_SUMS}) LIMIT 100000")
    assert meters.rows(f"SELECT {gapfill(fill='total')}, meter, total, n FROM ({_SUMS})") == every[:10]
    assert meters.rows(f"SELECT {gapfill(fill='total')}, meter, total, n FROM ({_SUMS}) LIMIT 7, 5") == every[7:12]
    assert meters.rows(f"SELECT {gapfill(fill='total')}, meter, total, n FROM ({_SUMS}) LIMIT 0") == []
    # the limit of a query that is read from bounds its filled rows, not the rows of the table
    inner = f"SELECT {gapfill(fill='total')}, meter, total, n FROM ({_SUMS}) LIMIT 20"
    assert meters.rows(f"SELECT bucket, meter, total, n FROM ({inner}) LIMIT 1000") == every[:20]
    descending = meters.rows(
        f"SELECT {gapfill(fill='total')}, meter, total, n FROM ({_SUMS}) ORDER BY bucket DESC, meter LIMIT 4"
    )
    assert descending == sorted(every, key=lambda row: (-row[0], row[1].encode()))[:4]


def test_options_and_plans(meters: Meters) -> None:
    sql = f"SELECT {gapfill()}, meter, watts FROM meters"
    assert meters.rows(f"SET timeoutMs = 5000; {sql} LIMIT 2 OPTION(numGroupsLimit=5)") == meters.rows(f"{sql} LIMIT 2")
    plan = [row[0] for row in meters.rows(f"EXPLAIN PLAN FOR SELECT bucket, max(watts) FROM ({sql}) GROUP BY bucket")]
    assert "SELECT(selectList:ms, meter, watts)" in plan


def test_nothing_to_fill(meters: Meters) -> None:
    assert meters.rows(f"SELECT {gapfill()}, meter, watts FROM meters WHERE meter = 'none'") == []
    no_time = gapfill(bounds="'5', '5', '1:HOURS'")
    assert meters.rows(f"SELECT {no_time}, meter, watts FROM meters") == []
    nested = f"SELECT bucket, max(watts) FROM (SELECT {gapfill()}, meter, watts FROM meters WHERE id < 0) GROUP BY bucket"
    assert meters.rows(nested) == []


LONG = f"'0', '{END_MS}', '1:SECONDS'"
CALL = gapfill().removesuffix(" AS bucket")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT GAPFILL(ms), meter FROM meters", "more than 1 arguments"),
        ("SELECT GAPFILL() FROM meters", "more than 0 arguments"),
        ("SELECT a FROM (SELECT GAPFILL() AS a FROM (SELECT max(ms) FROM meters))", "more than 0 arguments"),
        (f"SELECT {CALL}, watts FROM meters", "TIMESERIESON(meter): the column must be selected"),
        (f"SELECT {CALL}, meter FROM meters", "FILL(watts): the column must be selected"),
        (f"SELECT {CALL}, meter, watts, * FROM meters", "is not allowed with GAPFILL"),
        (f"SELECT {CALL}, {CALL}, meter, watts FROM meters", "only once"),
        (f"SELECT {CALL} + 1, meter, watts FROM meters", "not part of an expression"),
        (f"SELECT meter, watts FROM meters WHERE {CALL} > 1", "not part of an expression"),
        (f"SELECT {CALL} AS b, meter, max(watts) FROM meters GROUP BY b, meter", "different queries"),
        (CALL.replace("TIMESERIESON(meter)", "FILL(phase, 'FILL_DEFAULT_VALUE')"), "needs TIMESERIESON"),
        (CALL.replace("PREVIOUS", "NEXT"), "FILL_NEXT_VALUE"),
        (CALL.replace("FILL(watts", "FIL(watts"), "takes FILL"),
        (CALL.replace("FILL(watts", "FILL(meter"), "are not filled"),
        (CALL.replace("MILLISECONDS", "MILLISECOND"), "MILLISECOND"),
        (CALL.replace("'1:HOURS'", "'1:HOUR'"), "HOUR"),
        (CALL.replace("'1:HOURS'", "'90:MINUTES', '1:HOURS'"), "not a multiple"),
        (CALL.replace(f"'{START_MS}'", "'soon'"), "'soon'"),
        (CALL.replace(f"'{START_MS}'", "meter"), "the start must be a constant"),
        (CALL.replace(f"'{START_MS}'", "'9999999999999'"), "before it starts"),
        (
            f"SELECT b FROM (SELECT {gapfill(bounds=LONG)}, meter, watts FROM meters) LIMIT 1",
            "shorter time range or longer buckets",
        ),
        (CALL.replace("ms", "meter", 1), "cannot be a TIMESERIESON column"),
        (CALL.replace("ms", "concat(meter, 'x')", 1), "not in the format"),
        (f"SELECT {CALL} AS b, meter, watts FROM meters ORDER BY phase", "ordered by selected columns"),
        (f"SELECT b FROM (SELECT {CALL} AS b, meter, watts FROM (SELECT ms, meter, watts FROM meters))", "must aggregate"),
        (f"SELECT max(watts) FROM (SELECT {CALL} AS b, meter, watts FROM meters) GROUP BY meter", "needs the time bucket"),
        (f"SELECT max(watts) FROM (SELECT {CALL} AS b, meter, watts FROM meters)", "needs the time bucket"),
        (f"SELECT c FROM (SELECT {CALL} AS b, meter, watts FROM meters)", "Unknown columnName 'c'"),
        (f"SELECT b FROM (SELECT {CALL} AS b, meter, watts FROM meters", "not closed"),
        (f"SELECT b FROM (SELECT {CALL} AS b, meter, watts FROM (SELECT a FROM (SELECT b FROM t)))", "at most 3 deep"),
        (f"SELECT {CALL} FROM (SELECT {CALL} AS b, meter, watts FROM meters)", "in only one SELECT list"),
    ],
)
def test_errors(meters: Meters, sql: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        meters.rows(sql if sql.startswith("SELECT") else f"SELECT {sql}, meter, watts, phase FROM meters")
    assert message in str(caught.value)
    assert caught.value.code is not ErrorCode.INTERNAL


# the parking lots of Pinot's documentation: three lots, when a car came (1) or went (0)
_PARKED = [
    ("P1", 541, 1), ("P2", 557, 1), ("P1", 573, 0), ("P1", 587, 1), ("P3", 605, 1),
    ("P2", 606, 0), ("P2", 616, 1), ("P2", 631, 0), ("P3", 677, 0), ("P1", 714, 0),
]  # fmt: skip
_MIDNIGHT_MS = 1_633_046_400_000
_PATTERN = "1:MILLISECONDS:SIMPLE_DATE_FORMAT:yyyy-MM-dd HH:mm:ss.SSS"
_HALF_HOURS = f"DATETIMECONVERT(event_time, '1:MILLISECONDS:EPOCH', '{_PATTERN}', '30:MINUTES')"


def _parking(time: str, status: str) -> str:
    return (
        f"GAPFILL({time}, '{_PATTERN}', '2021-10-01 09:00:00.000', '2021-10-01 12:00:00.000', '30:MINUTES', "
        f"FILL({status}, 'FILL_PREVIOUS_VALUE'), TIMESERIESON(lotId))"
    )


def test_lots_that_are_taken_in_each_half_hour(tmp_path: Path) -> None:
    lots, minutes, taken = zip(*_PARKED, strict=True)
    millis = pa.array([_MIDNIGHT_MS + minute * 60_000 for minute in minutes], pa.int64())
    last = (
        f"SELECT {_HALF_HOURS} AS time_col, lotId, lastWithTime(is_occupied, event_time, 'INT') AS status FROM parking "
        "WHERE event_time >= 1633078800000 AND event_time <= 1633089600000 GROUP BY 1, 2 ORDER BY 1 LIMIT 100"
    )
    filled = f"SELECT {_parking('time_col', 'status')}, lotId, status FROM ({last}) LIMIT 100"
    alone = (
        f"SELECT {_parking(_HALF_HOURS, 'is_occupied')} AS time_col, lotId, is_occupied FROM parking ORDER BY 1 LIMIT 100"
    )
    with connect(tmp_path) as database:
        database.create_table(
            "parking", pa.table({"lotId": lots, "event_time": millis, "is_occupied": pa.array(taken, pa.int32())})
        )
        result = database.sql(filled)
        assert result.columns == ("time_col", "lotId", "status")
        assert [row[2] for row in sorted(result.rows())] == [1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0]
        for inner, column in ((filled, "status"), (alone, "is_occupied")):
            rows = database.sql(f"SELECT time_col, SUM({column}) AS n FROM ({inner}) GROUP BY 1 LIMIT 100").rows()
            assert rows == [
                (f"2021-10-01 {time}:00.000", n)
                for time, n in zip(("09:00", "09:30", "10:00", "10:30", "11:00", "11:30"), (2, 2, 3, 2, 1, 0), strict=True)
            ]
