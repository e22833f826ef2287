"""Scalar functions against DuckDB, where the semantics agree."""

import math
from datetime import UTC, datetime

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from gamay.functions.evaluate import evaluate, result_type
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector
from gamay.model.types import DataType
from gamay.sql.parser import parse_expression

TEXTS = [
    "",
    "a",
    "Abc",
    "ABC",
    "straße",
    "naïve café",
    "😀x😀",
    "a,b,,c",
    "  pad ",
    "it's",
    "line\nbreak",
    "100%",
    "a_b",
    "\\",
    "日本語",
]
rng = np.random.default_rng(7)
N = 200
INTS = np.concatenate([[-(2**31) + 1, -7, -1, 0, 1, 2, 7, 2**31 - 1], rng.integers(-50, 50, N - 8)]).astype(np.int32)
LONGS = np.concatenate([[-(2**53), -3, 0, 3, 2**53 + 1], rng.integers(-(10**12), 10**12, N - 5)]).astype(np.int64)
DOUBLES = np.concatenate([[-2.5, -0.5, 0.5, 1.5, 2.5, 1e300, -1e-300, 0.0], rng.normal(0, 100, N - 8)])
STRINGS = pa.array([TEXTS[i % len(TEXTS)] for i in range(N)])
TIMES = np.concatenate(
    [
        [0, -1, 951_782_400_000, 1_583_020_799_999, -62_135_596_800_000 + 10**12],
        rng.integers(-(10**12), 4 * 10**12, N - 5),
    ]
).astype(np.int64)

COLUMNS: dict[str, Operand] = {
    "i": Vector(DataType.INT, INTS),
    "l": Vector(DataType.LONG, LONGS),
    "d": Vector(DataType.DOUBLE, DOUBLES),
    "s": Vector(DataType.STRING, STRINGS),
    "ts": Vector(DataType.LONG, TIMES),
}


def encoded(vector: Vector) -> EncodedVector:
    values = vector.values.to_numpy(zero_copy_only=False) if isinstance(vector.values, pa.Array) else vector.values
    distinct, ids = np.unique(values, return_inverse=True)
    return EncodedVector(
        ids.astype(np.uint32),
        Vector(vector.type, pa.array(distinct, pa.string()) if vector.type is DataType.STRING else distinct),
    )


def computed(text: str, columns: dict[str, Operand] = COLUMNS) -> list[object]:
    expression = parse_expression(text)
    result = evaluate(expression, columns.__getitem__, N)
    assert result_type(expression, lambda name: (columns[name].type, False)) == (result.type, False)
    if isinstance(result, Scalar):
        return [result.value] * N
    vector = result.decode() if isinstance(result, EncodedVector) else result
    assert len(vector) == N
    values = vector.values.tolist() if isinstance(vector.values, np.ndarray) else vector.values.to_pylist()
    return [None if vector.nulls is not None and vector.nulls[k] else value for k, value in enumerate(values)]


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    table = pa.table({"n": np.arange(N), "i": INTS, "l": LONGS, "d": DOUBLES, "s": STRINGS, "ts": TIMES})
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("given", table)
    connection.execute("CREATE TABLE t AS SELECT *, make_timestamp(ts * 1000) AS m FROM given")
    return connection


def same(left: object, right: object) -> bool:
    if isinstance(left, float) or isinstance(right, float):
        a, b = float(left), float(right)  # type: ignore[arg-type]
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-300)
    return left == right


UNITS = ("second", "hour", "day", "week", "month", "quarter", "year")
ZONE = "America/New_York"
IN_ZONE = "epoch_ms(timezone('{zone}', date_trunc('{unit}', timezone('{zone}', m::timestamptz))))"
PAIRS = [
    ("i + l", "i::double + l::double"),
    ("i * d - l", "i::double * d - l::double"),
    ("d / 2", "d / 2"),
    ("i % 7", "i % 7"),
    ("abs(i)", "abs(i)"),
    ("-i", "-i"),
    ("ceil(d)", "ceil(d)"),
    ("floor(d)", "floor(d)"),
    ("exp(i / 100)", "exp(i / 100)"),
    ("ln(abs(d) + 1)", "ln(abs(d) + 1)"),
    ("log2(abs(d) + 1)", "log2(abs(d) + 1)"),
    ("log10(abs(d) + 1)", "log10(abs(d) + 1)"),
    ("sqrt(abs(d))", "sqrt(abs(d))"),
    ("power(2, i % 10)", "pow(2, i % 10)"),
    ("sign(d)", "sign(d)"),
    ("truncate(d)", "trunc(d)"),
    ("least(i, 3)", "least(i, 3)"),
    ("greatest(i, l)", "greatest(i::bigint, l)"),
    ("least(s, 'b')", "least(s, 'b')"),
    ("bitAnd(i, 12)", "i & 12"),
    ("bitOr(l, 1)", "l | 1"),
    ("bitXor(l, i)", "xor(l, i::bigint)"),
    ("sin(d) + cos(d)", "sin(d) + cos(d)"),
    ("atan2(d, i)", "atan2(d, i)"),
    ("i > 3", "i > 3"),
    ("i > 3.5", "i > 3.5"),
    ("3.5 <= i", "3.5 <= i"),
    ("l = 9007199254740993", "l = 9007199254740993"),
    ("i = l", "i = l"),
    ("d < i", "d < i"),
    ("s >= 'a'", "s >= 'a'"),
    ("s <> 'Abc'", "s <> 'Abc'"),
    ("i IN (1, 2, 7, 100)", "i IN (1, 2, 7, 100)"),
    ("s NOT IN ('a', '')", "s NOT IN ('a', '')"),
    ("d BETWEEN -10 AND 10.5", "d BETWEEN -10 AND 10.5"),
    ("i > 0 AND (s = 'a' OR NOT d > 5)", "i > 0 AND (s = 'a' OR NOT d > 5)"),
    (_CASE := "CASE WHEN i > 10 THEN 'big' WHEN i > 0 THEN s ELSE 'neg' END", _CASE),
    ("CASE WHEN i > 10 THEN i WHEN i > 0 THEN d END", "CASE WHEN i > 10 THEN i::double WHEN i > 0 THEN d END"),
    ("nullif(i, 7)", "nullif(i, 7)"),
    ("coalesce(nullif(s, ''), 'none')", "coalesce(nullif(s, ''), 'none')"),
    ("CAST(i AS STRING)", "i::varchar"),
    ("CAST(CAST(l AS STRING) AS LONG)", "l"),
    ("CAST(CAST(d AS STRING) AS DOUBLE)", "d"),
    ("upper(s)", "upper(replace(s, 'ß', 'ss'))"),  # DuckDB maps characters one to one
    ("lower(s)", "lower(s)"),
    ("charLength(s)", "length(s)"),
    ("octetLength(s)", "strlen(s)"),
    ("substr(s, 1)", "substr(s, 2)"),
    ("substr(s, 1, 3)", "substr(s, 2, 2)"),
    ("substring(s, 2, 3)", "substr(s, 2, 3)"),
    ("substr(s, bitAnd(i, 3))", "substr(s, (i & 3) + 1)"),
    ("left(s, 2)", "left(s, 2)"),
    ("right(s, 2)", "right(s, 2)"),
    ("trim(s)", "trim(s)"),
    ("ltrim(s)", "ltrim(s)"),
    ("rtrim(s, 'cé')", "rtrim(s, 'cé')"),
    ("replace(s, 'a', 'ZZ')", "replace(s, 'a', 'ZZ')"),
    ("reverse(upper('abc'))", "'CBA'"),
    ("concat(s, '-')", "s || '-'"),
    ("concat(s, i, '/')", "s || '/' || i"),
    ("lpad(s, 8, '*')", "CASE WHEN length(s) < 8 THEN lpad(s, 8, '*') ELSE s END"),
    ("rpad(s, 8, '*')", "CASE WHEN length(s) < 8 THEN rpad(s, 8, '*') ELSE s END"),
    ("repeat(s, 2)", "repeat(s, 2)"),
    ("strpos(s, 'b')", "strpos(s, 'b') - 1"),
    ("startsWith(s, 'a')", "starts_with(s, 'a')"),
    ("endsWith(s, 'c')", "suffix(s, 'c')"),
    ("contains(s, 'b')", "contains(s, 'b')"),
    ("s LIKE 'a%'", "s ILIKE 'a%'"),
    ("s LIKE '%b%'", "s ILIKE '%b%'"),
    ("s LIKE '_bc'", "s ILIKE '_bc'"),
    ("s LIKE '%e_b%'", "s ILIKE '%e_b%'"),
    ("s LIKE '%\\%'", "s ILIKE '%!%' ESCAPE '!'"),
    ("s LIKE 'a\\_b'", "s ILIKE 'a!_b' ESCAPE '!'"),
    ("s LIKE ''", "s ILIKE ''"),
    ("s NOT LIKE '%b%'", "s NOT ILIKE '%b%'"),
    ("REGEXP_LIKE(s, '^[a-c]+')", "regexp_matches(s, '^[a-c]+')"),
    ("REGEXP_LIKE(s, 'ABC', 'i')", "regexp_matches(s, 'ABC', 'i')"),
    ("regexpExtract(s, '([a-c])(,?)', 1)", "regexp_extract(s, '([a-c])(,?)', 1)"),
    ("regexpReplace(s, '[aeiou]', '<$0>')", "regexp_replace(s, '[aeiou]', '<\\0>', 'g')"),
    ("md5(s)", "md5(s)"),
    ("sha256(s)", "sha256(s)"),
    ("year(ts)", "year(m)"),
    ("quarter(ts)", "quarter(m)"),
    ("month(ts)", "month(m)"),
    ("week(ts)", "week(m)"),
    ("yearOfWeek(ts)", "isoyear(m)"),
    ("dayOfYear(ts)", "dayofyear(m)"),
    ("dayOfMonth(ts)", "day(m)"),
    ("dayOfWeek(ts)", "isodow(m)"),
    ("hour(ts)", "hour(m)"),
    ("minute(ts)", "minute(m)"),
    ("second(ts)", "second(m)"),
    ("EXTRACT(DOY FROM ts)", "dayofyear(m)"),
    *((f"dateTrunc('{u}', ts)", f"epoch_ms(date_trunc('{u}', m)::timestamp)") for u in UNITS),
    *((f"dateTrunc('{u}', ts, 'MILLISECONDS', '{ZONE}')", IN_ZONE.format(unit=u, zone=ZONE)) for u in UNITS[1:]),
    ("hour(ts, 'Asia/Kolkata')", "hour(timezone('Asia/Kolkata', m::timestamptz))"),
    ("dayOfMonth(ts, 'America/New_York')", "day(timezone('America/New_York', m::timestamptz))"),
    ("timestampAdd('MONTH', 5, ts)", "epoch_ms(m + INTERVAL 5 MONTH)"),
    ("timestampAdd('YEAR', -1, ts)", "epoch_ms(m - INTERVAL 1 YEAR)"),
    ("timestampAdd('DAY', i % 100, ts)", "epoch_ms(m + to_days(i % 100))"),
    ("timestampDiff('DAY', ts, 1577836800000)", "datesub('day', m, TIMESTAMP '2020-01-01')"),
    ("toDateTime(ts, 'yyyy-MM-dd HH:mm:ss.SSS')", "strftime(m, '%Y-%m-%d %H:%M:%S.%g')"),
    ("fromDateTime(toDateTime(ts, 'yyyy-MM-dd HH:mm:ss.SSS'), 'yyyy-MM-dd HH:mm:ss.SSS')", "ts"),
    ("timeConvert(ts, 'MILLISECONDS', 'MONTHS')", "datesub('month', TIMESTAMP '1970-01-01', m)"),
    ("toEpochDays(abs(ts))", "abs(ts) // 86400000"),
    ("fromEpochHours(i)", "i::bigint * 3600000"),
]  # fmt: skip


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=[ours for ours, _ in PAIRS])
def test_agrees_with_duckdb(duck: duckdb.DuckDBPyConnection, ours: str, theirs: str) -> None:
    expected = [row[0] for row in duck.execute(f"SELECT {theirs} FROM t ORDER BY n").fetchall()]
    found = computed(ours)
    different = [(k, a, b) for k, (a, b) in enumerate(zip(found, expected, strict=True)) if not same(a, b)]
    assert not different, different[:5]


@pytest.mark.parametrize("ours", [ours for ours, _ in PAIRS])
def test_encoded_columns_give_the_same(ours: str) -> None:
    columns = {name: encoded(column) for name, column in COLUMNS.items() if isinstance(column, Vector)}
    assert all(same(a, b) for a, b in zip(computed(ours, columns), computed(ours), strict=True))  # type: ignore[arg-type]


def test_local_days_across_a_change_of_offset() -> None:
    # New York, 2013-03-10 02:00 does not exist, 2013-11-03 01:30 exists twice
    for text in ("2013-03-10T12:00:00+00:00", "2013-11-03T05:30:00+00:00", "2013-11-03T06:30:00+00:00"):
        millis = int(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000)
        hour = evaluate(
            parse_expression(f"dateTrunc('hour', {millis}, 'MILLISECONDS', 'America/New_York')"), COLUMNS.__getitem__, 1
        )
        assert isinstance(hour, Scalar)
        assert hour.value == millis // 3_600_000 * 3_600_000
