"""Scalar functions where they follow Pinot rather than other databases, and at the limits of their types."""

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.evaluate import evaluate, result_type
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector
from gamay.model.types import DataType
from gamay.sql.parser import parse_expression

INT, LONG, FLOAT, DOUBLE = DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE
STRING, BOOLEAN, BYTES = DataType.STRING, DataType.BOOLEAN, DataType.BYTES
NAN, INF = math.nan, math.inf


def lists(data_type: DataType, rows: list[list[Any]]) -> Vector:
    flat = [value for row in rows for value in row]
    values = (
        pa.array(flat, pa.string())
        if data_type is STRING
        else np.array(flat, {INT: np.int32, DOUBLE: np.float64}[data_type])
    )
    return Vector(data_type, values, np.cumsum([0, *map(len, rows)]).astype(np.int32))


COLUMNS: dict[str, Operand] = {
    "i": Vector(INT, np.array([1, 2, -(2**31)], np.int32)),
    "l": Vector(LONG, np.array([2**63 - 1, -(2**63), 5])),
    "f": Vector(FLOAT, np.array([0.1, NAN, -INF], np.float32)),
    "d": Vector(DOUBLE, np.array([NAN, INF, 2.5])),
    "b": Vector(BOOLEAN, np.array([True, False, True])),
    "dec": Vector(DataType.BIG_DECIMAL, np.array([Decimal("1.50"), Decimal("-2"), Decimal("1e20")], dtype=object)),
    "s": EncodedVector(np.array([0, 2, 1], np.uint8), Vector(STRING, pa.array(["1", "2.5", "x😀"]))),
    "y": Vector(BYTES, pa.array([b"\x0a\xff", b"", b"abc"])),
    "ts": Vector(DataType.TIMESTAMP, np.array([0, 1577836800123, -1])),
    "json": Vector(STRING, pa.array(['{"a": {"b": [1, 2.5, "x"]}, "c": null}', "not json", '[{"k": 1}, {"k": 2}]'])),
    "mv": lists(INT, [[3, 1], [], [7]]),
    "ms": lists(STRING, [["b", "a"], ["a"], []]),
    "md": lists(DOUBLE, [[1.0, 5.0], [4.0], [2.0]]),
    "nul": Vector(INT, np.array([5, 0, 7], np.int32), None, np.array([False, True, False])),
}


def column_type(name: str) -> tuple[DataType, bool]:
    column = COLUMNS[name]
    return column.type, not isinstance(column, Scalar) and column.offsets is not None


def run(text: str) -> Any:
    """Return the values of an expression, lists for multi-value, None for null."""
    expression = parse_expression(text)
    result = evaluate(expression, COLUMNS.__getitem__, 3)
    multi_value = not isinstance(result, Scalar) and result.offsets is not None
    assert result_type(expression, column_type) == (result.type, multi_value)
    if isinstance(result, Scalar):
        return result.value
    vector = result.decode() if isinstance(result, EncodedVector) else result
    values = vector.values.tolist() if isinstance(vector.values, np.ndarray) else vector.values.to_pylist()
    if vector.offsets is not None:
        return [values[a:b] for a, b in zip(vector.offsets[:-1], vector.offsets[1:], strict=True)]
    return [None if vector.nulls is not None and vector.nulls[k] else value for k, value in enumerate(values)]


CASES: list[tuple[str, Any]] = [
    # whole numbers stay whole among constants only
    ("1 + 2", 3),
    ("9223372036854775807 + 0", 2**63 - 1),
    ("i + 0", [1.0, 2.0, -(2.0**31)]),
    ("5 / 2", 2.5),
    ("i / 0", [INF, INF, -INF]),
    ("0.0 / 0", NAN),
    ("divide(i, 0, 9)", [9.0, 9.0, 9.0]),
    ("-7 % 3", -1),
    ("CAST('2024-05-01 00:00:00.5' AS LONG)", 1714521600500),
    ("CAST('2024-05-01T02:00:00+02:00' AS LONG)", 1714521600000),
    ("CAST(' 1.9e3 ' AS LONG)", 1900),
    ("CAST('-Infinity' AS DOUBLE)", -INF),
    ("-CAST(i AS LONG)", [-1, -2, 2**31]),
    ("abs(CAST(l AS DOUBLE))", [2.0**63, 2.0**63, 5.0]),
    ("CASE WHEN i > 0 THEN -i ELSE 0 END", [-1, -2, 0]),
    ("dec + 1", [Decimal("2.50"), Decimal("-1"), Decimal(10**20 + 1)]),
    ("dec / 3", [Decimal("0.50"), Decimal("-1"), Decimal("0E+20")]),
    ("intDiv(-7, 2)", -4),
    ("positiveModulo(-7, 3)", 2),
    ("roundDecimal(-0.5)", 0.0),
    ("roundDecimal(2.5)", 3.0),
    ("roundDecimal(2.675, 2)", 2.68),
    ("roundDecimal(d)", [NAN, INF, 3.0]),
    ("truncate(-2.679, 2)", -2.67),
    ("round(17, 5)", 15),
    ("bitShiftLeft(1, 33)", 2),
    ("bitShiftRightUnsigned(-1, 28)", 15),
    ("bitNot(i)", [-2, -3, 2**31 - 1]),
    ("bitMask(63)", -(2**63)),
    ("widthBucket(i, 0, 4, 2)", [1, 2, 0]),
    ("isNaN(d)", [1, 0, 0]),
    ("factorial(20)", math.factorial(20)),
    # NaN is the greatest number and equals itself
    ("d = d", [True, True, True]),
    ("d > 1e308", [True, True, False]),
    ("d <= 2.5", [False, False, True]),
    ("f < 0", [False, False, True]),
    ("f = 0.1", [True, False, False]),
    # constants are compared exactly, never cut to the column's type
    ("i = 1.5", [False] * 3),
    ("i <> 1.5", [True] * 3),
    ("i < 1.5", [True, False, True]),
    ("i >= 99999999999", [False] * 3),
    ("i > -99999999999", [True] * 3),
    ("l > 9223372036854775806", [True, False, False]),
    ("l IN (5.0, 5.5)", [False, False, True]),
    ("i = '2'", [False, True, False]),
    ("s = 1", [True, False, False]),
    ("b = 'TRUE'", [True, False, True]),
    ("b = 0", [False, True, False]),
    ("y = '0aff'", [True, False, False]),
    ("y > ''", [True, False, True]),
    ("ts = '1970-01-01'", [True, False, False]),
    ("ts > '2020-01-01 00:00:00'", [False, True, False]),
    ("dec = 1.5", [True, False, False]),
    ("dec > 0", [True, False, True]),
    # conditions on lists: any fits; <> and NOT IN: none is equal
    ("mv = 3", [True, False, False]),
    ("mv <> 3", [False, True, True]),
    ("NOT mv = 3", [False, True, True]),
    ("mv > 2", [True, False, True]),
    ("NOT mv > 2", [False, True, False]),
    ("mv <= 2", [True, False, False]),
    ("mv IN (1, 7)", [True, False, True]),
    ("mv NOT IN (1, 7)", [False, True, False]),
    ("mv BETWEEN 2 AND 2", [False, False, False]),
    ("mv >= 2 AND mv <= 2", [True, False, False]),
    ("ms LIKE 'A'", [True, True, False]),
    ("REGEXP_LIKE(ms, '^b')", [True, False, False]),
    ("ms = 'a'", [True, True, False]),
    # nulls
    ("nul IS NULL", [False, True, False]),
    ("nul IS NOT NULL", [True, False, True]),
    ("nul + 1", [6.0, None, 8.0]),
    ("nul > 5", [False, None, True]),
    ("nul > 5 OR nul = 0", [False, None, True]),
    ("nul > 5 AND i = 99", [False, False, False]),
    ("coalesce(nul, 9)", [5, 9, 7]),
    ("CASE WHEN nul > 5 THEN 'a' ELSE 'b' END", ["b", "b", "a"]),
    ("CASE WHEN i = 1 THEN 5 END", [5, None, None]),
    ("nul IS DISTINCT FROM NULL", [True, False, True]),
    ("nul IS NOT DISTINCT FROM 7", [False, False, True]),
    ("least(nul, 6)", [5, 6, 6]),
    ("nullIf(i, 2)", [1, None, -(2**31)]),
    ("NULL + 1", None),
    ("upper(NULL)", None),
    ("(nul > 5) IS NOT TRUE", [True, True, False]),
    # casts
    ("CAST('99999999999' AS INT)", 2147483647),
    ("CAST('-99999999999.5' AS INT)", -2147483648),
    ("CAST('99999999999999999999' AS LONG)", 9223372036854775807),
    ("CAST('1e3' AS INT)", 1000),
    ("CAST(d AS INT)", [0, 2**31 - 1, 2]),
    ("CAST(d AS LONG)", [0, 2**63 - 1, 2]),
    ("CAST(l AS INT)", [-1, 0, 5]),
    ("CAST(b AS INT)", [1, 0, 1]),
    ("CAST(b AS STRING)", ["true", "false", "true"]),
    ("CAST(i AS BOOLEAN)", [True, True, True]),
    ("CAST('yes' AS BOOLEAN)", False),
    ("CAST(' 12 ' AS INT)", 12),
    ("CAST('12.9' AS LONG)", 12),
    ("CAST('Infinity' AS DOUBLE)", INF),
    ("CAST(1e10 AS STRING)", "1.0E10"),
    ("CAST(100.0 AS STRING)", "100.0"),
    ("CAST(f AS STRING)", ["0.1", "NaN", "-Infinity"]),
    ("CAST(y AS STRING)", ["0aff", "", "616263"]),
    ("CAST(ts AS STRING)", ["1970-01-01 00:00:00.0", "2020-01-01 00:00:00.123", "1969-12-31 23:59:59.999"]),
    ("CAST('2020-01-01 00:00:00.5' AS TIMESTAMP)", 1577836800500),
    ("CAST(0.1 AS BIG_DECIMAL)", Decimal("0.1")),
    ("CAST(dec AS STRING)", ["1.50", "-2", "100000000000000000000"]),
    ("CAST(dec AS LONG)", [1, -2, 2**63 - 1]),
    ("CAST('6f2b5b1e-6c3f-4d0a-9b1c-0123456789ab' AS UUID)", bytes.fromhex("6f2b5b1e6c3f4d0a9b1c0123456789ab")),
    ("CAST(mv AS STRING)", [["3", "1"], [], ["7"]]),
    # text
    ("length('x😀')", 3),
    ("charLength('x😀')", 2),
    ("substr('hello', -3)", "llo"),
    ("substr('hello', 1, 3)", "el"),
    ("substring('hello', 2, 3)", "ell"),
    ("substring('hello', 0, 3)", "he"),
    ("strpos('ababab', 'ab', 2)", 2),
    ("strrpos('ababab', 'ab', 3)", 2),
    ("splitPart('a,b,c', ',', 0)", "a"),
    ("splitPart('a,b,c', ',', -1)", "c"),
    ("splitPart(',a,,b,', ',', 1)", "b"),
    ("splitPart('a,b,', ',', 2)", ""),
    ("splitPart('a,b', ',', 5)", "null"),
    ("split('a,,b', ',')", [["a", "b"]] * 3),
    ("substringIndex('a.b.c', '.', 2)", "a.b"),
    ("substringIndex('a.b.c', '.', -1)", "c"),
    ("lpad('abc', 2, '*')", "abc"),
    ("lpad('abc', 7, 'xy')", "xyxyabc"),
    ("repeat('ab', '-', 3)", "ab-ab-ab"),
    ("concat('a', 'b', '-')", "a-b"),
    ("concatWS('-', 'a', 'b', 'c')", "a-b-c"),
    ("replace('aaa', '', 'x')", "aaa"),
    ("translate('hello', 'el', 'ip')", "hippo"),
    ("translate('hello', 'el', 'i')", "hio"),
    ("levenshteinDistance('kitten', 'sitting')", 3),
    ("s || i", ["11", "x😀2", "2.5-2147483648"]),
    # patterns
    ("'a\nb' LIKE 'a_b'", True),
    ("'ABC' LIKE 'abc'", True),
    ("'a%c' LIKE 'a\\%c'", True),
    ("'abc' LIKE 'a\\%c'", False),
    ("'a.c' LIKE 'a.c'", True),
    ("'abc' LIKE 'a.c'", False),
    ("regexp_like('aXbX', '(X).*\\1')", True),
    ("regexp_like('foobar', 'foo(?!baz)')", True),
    ("regexp_like('a.b', '\\Qa.b\\E')", True),
    ("regexp_like('axb', '\\Qa.b\\E')", False),
    ("regexp_like('Straße', '\\p{Lower}ß')", True),
    ("regexpExtract('abc123', '([a-z]+)(\\d+)', 2)", "123"),
    ("regexpExtract('abc', '\\d+', 0, 'none')", "none"),
    ("regexpReplace('hello', '(l)(l)', '$2-$1')", "hel-lo"),
    ("regexpReplace('banana', 'a', 'o', 2, 1)", "banano"),
    # times
    ("year(ts)", [1970, 2020, 1969]),
    ("millisecond(ts)", [0, 123, 999]),
    ("dateTrunc('week', 1577836800000)", 1577664000000),
    ("dateTrunc('day', 18262, 'DAYS')", 18262),
    ("dateTrunc('month', 1577836800, 'SECONDS', 'UTC', 'DAYS')", 18262),
    ("toEpochDays(-1)", 0),
    ("toEpochMinutesRounded(1577836812345, 5)", 26297280),
    ("toEpochMinutesBucket(1577836812345, 5)", 5259456),
    ("fromEpochDaysBucket(2, 7)", 14 * 86_400_000),
    ("timestampAdd('MONTH', 1, 1580428800000)", 1582934400000),
    ("timestampDiff('MONTH', 1580428800000, 1582934400000)", 1),
    ("timestampDiff('DAY', 86400000, 0)", -1),
    ("dateBin('1h', 5400000, 0)", 3600000),
    ("dateBin('1h', -5400000, 0)", -3600000),
    ("EXTRACT(DOW FROM ts)", [4, 3, 3]),
    ("fromDateTime('x', 'yyyy', 'UTC', -1)", -1),
    ("dateTimeConvert(1577836812345, '1:MILLISECONDS:EPOCH', '1:HOURS:EPOCH', '1:HOURS')", 438288),
    ("dateTimeConvert('20200131', '1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd', 'EPOCH|DAYS', 'DAYS|7')", 18291),
    ("dateTimeConvert(ts, 'TIMESTAMP', 'SIMPLE_DATE_FORMAT|yyMMdd', 'DAYS|1')", ["700101", "200101", "691231"]),
    # JSON and lists
    ("jsonExtractScalar(json, '$.a.b[1]', 'DOUBLE', 0)", [2.5, 0.0, 0.0]),
    ("jsonExtractScalar(json, '$.a.b[2]', 'STRING', '-')", ["x", "-", "-"]),
    ("jsonExtractScalar(json, '$.c', 'STRING', NULL)", [None, None, None]),
    ("jsonExtractScalar(json, '$[*].k', 'INT_ARRAY')", [[], [], [1, 2]]),
    ("jsonExtractScalar(json, '$..k', 'INT_ARRAY')", [[], [], [1, 2]]),
    ("jsonPathLong(json, '$[0].k')", [-(2**63), -(2**63), 1]),
    ("jsonPathString(json, '$.a', '?')", ['{"b":[1,2.5,"x"]}', "?", "?"]),
    ("isJson(json)", [True, False, True]),
    ("arrayLength(mv)", [2, 0, 1]),
    ("arraySum(mv)", [4.0, 0.0, 7.0]),
    ("arrayMin(mv)", [1, None, 7]),
    ("arrayMax(ms)", ["b", "a", None]),
    ("arrayAverage(md)", [3.0, 4.0, 2.0]),
    ("valueIn(mv, 1, 7)", [[1], [], [7]]),
    ("valueIn(ms, 'a')", [["a"], ["a"], []]),
    ("arraySortInt(mv)", [[1, 3], [], [7]]),
    ("arraySortString(ms)", [["a", "b"], ["a"], []]),
    ("arrayReverseInt(mv)", [[1, 3], [], [7]]),
    ("arrayElementAtInt(mv, 1)", [3, 0, 7]),
    ("arrayContainsString(ms, 'b')", [True, False, False]),
    ("arrayIndexOfInt(mv, 1)", [1, -1, -1]),
    ("ARRAY[1, 2, i]", [[1, 2, 1], [1, 2, 2], [1, 2, -(2**31)]]),
    ("arrayToString(ms, '|')", ["b|a", "a", ""]),
    # digests
    ("md5('abc')", "900150983cd24fb0d6963f7d28e17f72"),
    ("sha256(toUtf8('abc'))", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    ("fromUtf8(fromBase64(toBase64(toUtf8('é'))))", "é"),
    ("bytesToHex(y)", ["0aff", "", "616263"]),
]  # fmt: skip


def same(left: Any, right: Any) -> bool:
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    return type(left) is type(right) and bool(left == right)


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text for text, _ in CASES])
def test_value(text: str, expected: Any) -> None:
    found = run(text)
    assert same(found, expected), found


ERRORS = [
    ("lowr(s)", ErrorCode.QUERY_VALIDATION, "Did you mean 'lower'"),
    ("upper()", ErrorCode.QUERY_VALIDATION, "1 argument"),
    ("upper(s, s)", ErrorCode.QUERY_VALIDATION, "1 argument"),
    ("upper(mv)", ErrorCode.QUERY_VALIDATION, "single-value"),
    ("mod(1)", ErrorCode.QUERY_VALIDATION, "Function 'mod': it takes 2 arguments"),
    ("minus(1, 2, 3)", ErrorCode.QUERY_VALIDATION, "Function 'minus': it takes 2 arguments"),
    ("mv + 1", ErrorCode.QUERY_VALIDATION, "single-value"),
    ("arraySum(i)", ErrorCode.QUERY_VALIDATION, "multi-value"),
    ("y + 1", ErrorCode.QUERY_VALIDATION, "not a number"),
    ("i = y", ErrorCode.QUERY_VALIDATION, "cannot be compared"),
    ("CAST(i AS NUMBERS)", ErrorCode.QUERY_VALIDATION, "is not a type"),
    ("CAST(b AS TIMESTAMP)", ErrorCode.QUERY_VALIDATION, "cannot be cast"),
    ("CAST(s AS INT)", ErrorCode.QUERY_EXECUTION, "'x😀' cannot be read as INT"),
    ("s <> 1 AND i < s", ErrorCode.QUERY_EXECUTION, "cannot be read"),
    ("dateTrunc('fortnight', ts)", ErrorCode.QUERY_VALIDATION, "unit of time"),
    ("dateTrunc(s, ts)", ErrorCode.QUERY_VALIDATION, "constant"),
    ("year(ts, 'Mars/Olympus')", ErrorCode.QUERY_VALIDATION, "time zone"),
    ("regexp_like(s, '(')", ErrorCode.QUERY_VALIDATION, "regular expression"),
    ("regexp_like(s, 'a', 'x')", ErrorCode.QUERY_VALIDATION, "'x'"),
    ("jsonExtractScalar(json, '$.zz', 'INT')", ErrorCode.QUERY_EXECUTION, "no value"),
    ("jsonExtractScalar(json, '$.[', 'INT')", ErrorCode.QUERY_VALIDATION, "JSON path"),
    ("dec / 0", ErrorCode.QUERY_EXECUTION, "by zero"),
    (
        "abs(CAST('-2147483648' AS INT))",
        ErrorCode.QUERY_VALIDATION,
        "the smallest INT, does not fit INT; cast the argument to LONG",
    ),
    ("-i", ErrorCode.QUERY_EXECUTION, "-2147483648, the smallest INT"),
    (
        "abs(l)",
        ErrorCode.QUERY_EXECUTION,
        "-9223372036854775808, the smallest LONG, does not fit LONG; cast the argument to DOUBLE",
    ),
    ("-CAST('-9223372036854775808' AS LONG)", ErrorCode.QUERY_VALIDATION, "the smallest LONG"),
    ("factorial(i)", ErrorCode.QUERY_EXECUTION, "factorial"),
    ("CAST('1_000' AS INT)", ErrorCode.QUERY_VALIDATION, "cannot be read as INT"),
    ("CAST('1_0.5' AS DOUBLE)", ErrorCode.QUERY_VALIDATION, "cannot be read as DOUBLE"),
    ("CAST('1_0' AS BIG_DECIMAL)", ErrorCode.QUERY_VALIDATION, "cannot be read as BIG_DECIMAL"),
    ("CAST('inf' AS DOUBLE)", ErrorCode.QUERY_VALIDATION, "cannot be read as DOUBLE"),
    ("CAST('٣' AS LONG)", ErrorCode.QUERY_VALIDATION, "cannot be read as LONG"),
    ("CAST('2024-13-01' AS LONG)", ErrorCode.QUERY_VALIDATION, "cannot be read as LONG"),
    ("fromDateTime(s, 'yyyy')", ErrorCode.QUERY_EXECUTION, "fromDateTime"),
    ("CASE WHEN b THEN i ELSE y END", ErrorCode.QUERY_VALIDATION, "no common type"),
    ("sum(i)", ErrorCode.QUERY_VALIDATION, ""),
    ("mv = mv", ErrorCode.QUERY_VALIDATION, "constants only"),
]


@pytest.mark.parametrize(("text", "code", "part"), ERRORS, ids=[text for text, _, _ in ERRORS])
def test_error(text: str, code: ErrorCode, part: str) -> None:
    with pytest.raises(QueryError) as caught:
        run(text)
    assert caught.value.code is code
    assert part in str(caught.value)


@pytest.mark.parametrize("text", [text for text, value in CASES if isinstance(value, list)])
def test_no_rows(text: str) -> None:
    """Every function works on an empty batch, and returns the right type."""
    empty: dict[str, Operand] = {}
    for name, column in COLUMNS.items():
        assert not isinstance(column, Scalar)
        if isinstance(column, EncodedVector):
            empty[name] = EncodedVector(column.ids[:0], column.dictionary)
        else:
            offsets = None if column.offsets is None else column.offsets[:1]
            empty[name] = Vector(column.type, column.values[:0], offsets, None if column.nulls is None else column.nulls[:0])
    expression = parse_expression(text)
    result = evaluate(expression, empty.__getitem__, 0)
    assert result.type is result_type(expression, column_type)[0]
    assert isinstance(result, Scalar) or len(result) == 0


def test_entries_that_no_row_has_cause_no_error() -> None:
    dictionary = Vector(STRING, pa.array(["1", "2", "x"]))
    column = EncodedVector(np.array([0, 1, 1, 0], np.uint8), dictionary)
    result = evaluate(parse_expression("CAST(s AS INT)"), lambda name: column, 4)
    assert isinstance(result, Vector)
    assert result.values.tolist() == [1, 2, 2, 1]


@pytest.mark.parametrize(
    ("call", "entries"),
    [
        ("hour(t, s)", ["UTC", "null"]),
        ("toDateTime(t, s)", ["HH", "null"]),
        ("toDateTime(t, 'HH', s)", ["Etc/UTC", "null"]),
        ("timezoneHour(s, t)", ["UTC", "null"]),
        ("normalize('x', s)", ["NFD", "null"]),
        ("toBytes('x', s)", ["UTF-8", "null"]),
        ("regexpCount('x', s)", ["x", "("]),
        ("regexpLike('x', s)", ["x", "("]),
    ],
)
def test_what_stands_at_nulls_and_in_no_row_is_no_value(call: str, entries: list[str]) -> None:
    """As an argument that is mostly a constant, a zone or a pattern: in columns with a dictionary and without."""
    expression = parse_expression(call)
    times = Vector(LONG, np.zeros(4, np.int64))
    nulls = np.array([False, True, True, False])
    good, bad = pa.array([entries[0]] * 4), pa.array([entries[0], entries[1], entries[1], entries[0]])
    everywhere = evaluate(expression, {"t": times, "s": Vector(STRING, good)}.__getitem__, 4)
    beside = evaluate(expression, {"t": times, "s": Vector(STRING, bad, None, nulls)}.__getitem__, 4)
    dictionary = Vector(STRING, pa.array(entries))
    unused = EncodedVector(np.zeros(4, np.uint8), dictionary)
    encoded = evaluate(expression, {"t": times, "s": unused}.__getitem__, 4)
    wanted = _listed(everywhere)
    assert _listed(encoded) == wanted
    assert _listed(beside) == [None if null else value for value, null in zip(wanted, nulls, strict=True)]
    with pytest.raises(QueryError) as caught:
        evaluate(expression, {"t": times, "s": Vector(STRING, bad)}.__getitem__, 4)
    assert caught.value.code is ErrorCode.QUERY_EXECUTION


def _listed(operand: Operand) -> list[Any]:
    assert not isinstance(operand, Scalar)
    vector = operand.decode() if isinstance(operand, EncodedVector) else operand
    values = vector.values.tolist() if isinstance(vector.values, np.ndarray) else vector.values.to_pylist()
    return [None if vector.nulls is not None and vector.nulls[k] else value for k, value in enumerate(values)]
