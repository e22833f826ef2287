"""Functions of text, bytes and URLs, against the rules documented in their sources and against Python's codecs."""

import urllib.parse
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.evaluate import evaluate, result_type
from gamay.functions.scalar.text.strings import pieces_of
from gamay.functions.scalar.text.url import parse_url
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector
from gamay.model.types import DataType
from gamay.sql.parser import parse_expression

UNHURRIED = settings(deadline=None)  # machines are busy at times
INT, LONG, STRING, BYTES = DataType.INT, DataType.LONG, DataType.STRING, DataType.BYTES
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
SHORT = st.text("ab, é😀", max_size=8)


def text(*values: str) -> Vector:
    return Vector(STRING, pa.array(values, pa.string()))


def run(expression_text: str, **columns: Vector) -> Any:
    """Return the values, lists for multi-value, None for null; a column called x for one value, rows for more."""
    expression = parse_expression(expression_text)
    rows = max((len(column) for column in columns.values()), default=1)
    result = evaluate(expression, columns.__getitem__, rows)
    types = result_type(expression, lambda name: (columns[name].type, columns[name].is_multi_value))
    assert types == (result.type, not isinstance(result, Scalar) and result.offsets is not None)
    if isinstance(result, Scalar):
        return result.value
    vector = result.decode() if isinstance(result, EncodedVector) else result
    values = vector.values.tolist() if isinstance(vector.values, np.ndarray) else vector.values.to_pylist()
    if vector.offsets is not None:
        values = [values[a:b] for a, b in zip(vector.offsets[:-1], vector.offsets[1:], strict=True)]
    return [None if vector.nulls is not None and vector.nulls[k] else value for k, value in enumerate(values)]


def one(call: str, *args: str) -> Any:
    """Return the result for columns a, b, … of one row."""
    names = "abc"[: len(args)]
    return run(f"{call}({', '.join(names)})", **{name: text(arg) for name, arg in zip(names, args, strict=True)})[0]


CASES: list[tuple[str, Any]] = [
    ("initCap('hello wORLD, it''s  ok')", "Hello World, It's  Ok"),
    ("initCap('ßa éb')", "ßa Éb"),
    ("strpos('aaa', 'aa', 2)", 1),
    ("strpos('aaa', 'aa', 3)", -1),
    ("strpos('aaa', 'a', 0)", -1),
    ("strpos('é😀b', 'b')", 2),
    ("lpad('a', 3, '')", "  a"),
    ("rpad('a', 4, 'xy')", "axyx"),
    ("repeat('ab', -1)", ""),
    ("repeat('ab', ', ', 3)", "ab, ab, ab"),
    ("repeat('ab', '2')", "abab"),
    ("splitPart('a,b,c', ',', 2, 1)", "b,c"),
    ("splitPart('a,b,c', ',', 2, 2)", "null"),
    ("splitPart(',', ',', 0)", ""),
    ("splitPart('', ',', 0)", "null"),
    ("overlay('abcdef', 'XY', 3)", "abXYef"),
    ("overlay('abcdef', 'XY', 3, 0)", "abXYcdef"),
    ("overlay('abcdef', 'XY', 0, 1)", "XYbcdef"),
    ("overlay('abc', 'XY', 99, 99)", "abcXY"),
    ("chr(128512)", "😀"),
    ("codepoint('😀x')", 128512),
    ("ascii('')", 0),
    ("normalize('é', 'NFD')", "e\u0301"),
    ("firstLine('a\r\nb')", "a"),
    ("firstLine('')", ""),
    ("isValidASCII('abc')", True),
    ("isValidASCII('é')", False),
    ("soundex('Robert')", "R163"),
    ("soundex('Rupert')", "R163"),
    ("soundex('Tymczak')", "T522"),
    ("soundex('Pfister')", "P236"),
    ("soundex('Ashcraft')", "A261"),
    ("soundex('Honeyman')", "H555"),
    ("soundex('O''Hara')", "O600"),
    ("soundex('')", "0000"),
    ("soundex('123')", "0000"),
    ("difference('Robert', 'Rupert')", 4),
    ("difference('Robert', '')", 0),
    ("hammingDistance('karolin', 'kathrin')", 3),
    ("hammingDistance('a', 'ab')", -1),
    ("strcmp('b', 'a')", 1),
    ("strcmp('abc', 'a')", 2),
    # charsets and other clothes
    ("toBytes('é', 'UTF-16')", b"\xfe\xff\x00\xe9"),
    ("toBytes('é', 'iso-8859-1')", b"\xe9"),
    ("toBytes('€', 'ISO-8859-1')", b"?"),
    ("toAscii('aé')", b"a?"),
    ("fromAscii(toUtf8('aé'))", "a\ufffd\ufffd"),
    ("fromBytes(hexToBytes('00e9'), 'UTF-16')", "é"),
    ("fromBytes(hexToBytes('fffee900'), 'UTF-16')", "é"),
    ("fromUtf8(hexToBytes('61ff'))", "a\ufffd"),
    ("base64Encode(toUtf8('ab'))", b"YWI="),
    ("base64Decode(toUtf8('YWI'))", b"ab"),
    ("hexDecimalToLong('0xFF')", 255),
    ("hexDecimalToLong('ffffffffffffffff')", -1),
    ("longToHexDecimal(-1)", "f" * 16),
    ("bytesToHex(bigDecimalToBytes(CAST('-1.50' AS BIG_DECIMAL)))", "0002ff6a"),
    ("bytesToBigDecimal(hexToBytes('000200'))", Decimal("0.00")),
]  # fmt: skip


@pytest.mark.parametrize(("call", "expected"), CASES, ids=[call for call, _ in CASES])
def test_value(call: str, expected: Any) -> None:
    found = run(call)
    assert found == expected
    assert type(found) is type(expected)


LISTS: list[tuple[str, list[str]]] = [
    ("prefixes('abc', 2)", ["a", "ab"]),
    ("prefixes('', 2)", []),
    ("suffixes('abc', 9)", ["c", "bc", "abc"]),
    ("prefixesWithPrefix('abc', 2, '^')", ["^a", "^ab"]),
    ("suffixesWithSuffix('abc', 2, '$')", ["c$", "bc$"]),
    ("uniqueNgrams('abab', 2)", ["ab", "ba"]),
    ("generateUniqueNgrams('aba', 1, 2)", ["a", "b", "ab", "ba"]),
    ("uniqueNgrams('ab', 3)", []),
    ("uniqueNgrams('ab', 0)", []),
    ("uniqueNgramsMV(ARRAY['abc', 'bcd'], 2)", ["ab", "bc", "cd"]),
    ("split('a--b--c', '--', 2)", ["a", "b--c"]),
    ("split('a,b,', ',')", ["a", "b", ""]),
    ("split(',,a', ',')", ["a"]),
    ("split('', ',')", []),
    ("split(' a  b ', '')", ["a", "b"]),
    ("extractURLParameters('http://a/?x=1&y=a%20b&&z')", ["x=1", "y=a%20b", "z"]),
    ("extractURLParameterNames('http://a/?x=1&y=2#f?z=3')", ["x", "y"]),
    ("urlHierarchy('s://a/c//d?e=/f')", ["s://a/", "s://a/c//", "s://a/c//d?", "s://a/c//d?e=/", "s://a/c//d?e=/f"]),
    ("urlHierarchy('https://a.b')", ["https://a.b"]),
    ("urlPathHierarchy('https://a.b/c/d')", ["/c/", "/c/d"]),
    ("urlPathHierarchy('https://a.b/')", []),
]  # fmt: skip


@pytest.mark.parametrize(("call", "expected"), LISTS, ids=[call for call, _ in LISTS])
def test_list(call: str, expected: list[str]) -> None:
    assert run(call) == [expected]


def test_lists_of_several_rows_with_an_invalid_one() -> None:
    urls = text("http://a/?x=1", "not a url", "http://a/", "http://a/?x=1")
    assert run("extractURLParameters(u)", u=urls) == [["x=1"], None, [], ["x=1"]]
    assert run("urlHierarchy(u)", u=text("%")) == [None]


ERRORS = [
    ("lpad(a, 2147483647, 'x')", "longer than"),
    ("repeat(a, 2147483647)", "longer than"),
    ("repeat(a, a)", "cannot be read as INT"),
    ("space(n)", "longer than"),
    ("chr(n)", "code of a character"),
    ("hexDecimalToLong(a)", "hexadecimal"),
    ("fromBase64(a)", "base64"),
    ("bytesToBigDecimal(toUtf8('a'))", "scale"),
]


@pytest.mark.parametrize(("call", "part"), ERRORS, ids=[call for call, _ in ERRORS])
def test_value_that_has_no_result(call: str, part: str) -> None:
    with pytest.raises(QueryError, match=part) as caught:
        run(call, a=text("%ff!"), n=Vector(INT, np.array([2**31 - 1], np.int32)))
    assert caught.value.code in (ErrorCode.QUERY_EXECUTION, ErrorCode.QUERY_VALIDATION)


@pytest.mark.parametrize("call", ["toBytes(a, 'rot13')", "normalize(a, 'NFX')", "prefixes(a, -1)", "uniqueNgrams(a, 5000)"])
def test_constant_that_a_function_does_not_take(call: str) -> None:
    with pytest.raises(QueryError) as caught:
        run(call, a=text("abc"))
    assert caught.value.code is ErrorCode.QUERY_VALIDATION


# -- against other implementations


def commons_split(value: str, separator: str, limit: int) -> list[str]:
    """`splitByWholeSeparatorWorker` of Apache Commons Lang, line by line."""
    if not value:
        return []
    pieces: list[str] = []
    begin = end = 0
    while end < len(value):
        end = value.find(separator, begin)
        if end < 0:
            pieces.append(value[begin:])
            end = len(value)
        elif end > begin:
            if len(pieces) + 1 == limit:
                end = len(value)
                pieces.append(value[begin:])
            else:
                pieces.append(value[begin:end])
                begin = end + len(separator)
        else:
            begin = end + len(separator)
    return pieces


@UNHURRIED
@given(st.text("a,-", max_size=10), st.sampled_from([",", ",,", "-,"]), st.integers(-1, 4))
def test_split_is_that_of_commons(value: str, separator: str, limit: int) -> None:
    assert pieces_of(value, separator, limit) == commons_split(value, separator, limit)


@UNHURRIED
@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_codecs_give_the_text_back(values: list[str]) -> None:
    column = text(*values)
    for there, back in (
        ("toUtf8(x)", "fromUtf8({})"),
        ("toBytes(x, 'UTF-16')", "fromBytes({}, 'UTF-16')"),
        ("toBytes(x, 'GB18030')", "fromBytes({}, 'GB18030')"),
        ("toUtf8(toBase64(toUtf8(x)))", "fromUtf8(base64Decode({}))"),
        ("bytesToHex(toUtf8(x))", "fromUtf8(hexToBytes({}))"),
        ("encodeUrl(x)", "decodeUrl({})"),
        ("urlEncode(x)", "urlDecode({})"),
    ):
        assert run(back.format(there), x=column) == values
    assert run("encodeUrl(x)", x=column) == [
        urllib.parse.quote_plus(v).replace("%2A", "*").replace("~", "%7E") for v in values
    ]


@UNHURRIED
@given(st.integers(-(2**63), 2**63 - 1), st.integers(-300, 300))
def test_numbers_as_bytes_give_the_number_back(number: int, scale: int) -> None:
    decimal = Decimal(number).scaleb(-scale)
    column = Vector(DataType.BIG_DECIMAL, np.array([decimal], dtype=object))
    found = run("bytesToBigDecimal(bigDecimalToBytes(d))", d=column)[0]
    assert found.as_tuple() == decimal.as_tuple() or number == 0
    assert run("hexDecimalToLong(longToHexDecimal(n))", n=Vector(LONG, np.array([number]))) == [number]


@UNHURRIED
@given(SHORT, SHORT)
def test_distances_and_parts_are_duckdbs(left: str, right: str) -> None:
    (row,) = duckdb.execute(
        "SELECT levenshtein(a, b), translate(a, b, 'xyz'), strpos(a, b) - 1 FROM (SELECT ? AS a, ? AS b)", [left, right]
    ).fetchall()  # all, for tests share the connection
    if (left + right).isascii():  # DuckDB counts bytes
        assert one("levenshteinDistance", left, right) == row[0]
    assert run("translate(a, b, 'xyz')", a=text(left), b=text(right))[0] == row[1]
    assert one("strpos", left, right) == left.find(right)
    assert row[2] == left.find(right) or not right


@UNHURRIED
@given(SHORT, st.integers(-3, 12), SHORT)
def test_padding(value: str, size: int, pad: str) -> None:
    padded = run(f"lpad(a, {size}, b)", a=text(value), b=text(pad))[0]
    assert padded.endswith(value)
    assert len(padded) == max(size, len(value))
    filler = padded[: len(padded) - len(value)]
    assert filler == ((pad or " ") * 20)[: len(filler)]


# -- URLs

FULL = "https://ann:pw@www.News.example.co.uk:8080/a%20b/c?x=1&y=a%26b&x=2#top%21"
URLS: list[tuple[str, str, Any]] = [
    ("urlProtocol", FULL, "https"),
    ("urlDomain", FULL, "www.News.example.co.uk"),
    ("urlDomainWithoutWWW", FULL, "News.example.co.uk"),
    ("urlTopLevelDomain", FULL, "uk"),
    ("urlFirstSignificantSubdomain", FULL, "example"),
    ("cutToFirstSignificantSubdomain", FULL, "example.co.uk"),
    ("cutToFirstSignificantSubdomainWithWWW", FULL, "example.co.uk"),
    ("cutToFirstSignificantSubdomainWithWWW", "http://www.example.com/", "www.example.com"),
    ("cutToFirstSignificantSubdomain", "http://localhost/", ""),
    ("cutToFirstSignificantSubdomain", "http://[::1]/", ""),
    ("urlPort", FULL, 8080),
    ("urlPort", "http://a/", -1),
    ("urlPort", "http://a:/", -1),
    ("urlPath", FULL, "/a b/c"),
    ("urlPath", "http://a", ""),
    ("urlPathWithQuery", FULL, "/a%20b/c?x=1&y=a%26b&x=2"),
    ("urlQueryString", FULL, "x=1&y=a&b&x=2"),
    ("urlQueryString", "http://a/", None),
    ("urlFragment", FULL, "top!"),
    ("urlQueryStringAndFragment", FULL, "x=1&y=a&b&x=2#top!"),
    ("urlQueryStringAndFragment", "http://a/#f", "#f"),
    ("urlNetloc", FULL, "ann:pw@www.News.example.co.uk:8080"),
    ("urlDomain", "http://[2001:db8::1]:80/", "[2001:db8::1]"),
    ("urlDomain", "http://192.168.0.1/x", "192.168.0.1"),
    ("urlTopLevelDomain", "http://192.168.0.1/x", ""),
    ("urlDomain", "http://under_score/x", None),
    ("urlPath", "http://under_score/x", "/x"),
    ("urlDomain", "mailto:a@b.c", None),
    ("urlProtocol", "mailto:a@b.c", "mailto"),
    ("urlDomain", "//cdn.example.com/x", "cdn.example.com"),
    ("urlPath", "/only/path", "/only/path"),
    ("urlPath", "http://a/日本", "/日本"),
    ("urlPath", "http://a/[x]", None),
    ("urlQueryString", "http://a/?x=[1]", "x=[1]"),
    ("urlProtocol", "http://", None),
    ("urlProtocol", "http://[::1", None),
    ("urlPath", "http:///x", "/x"),
    ("urlDomain", "http://256.1.1.1/", None),
    ("urlDomain", "http://a:99999999999/", None),
    ("urlPort", "http://a:99999999999/", -1),
    ("cutWWW", FULL, FULL.replace("www.", "")),
    ("cutWWW", "http://a/?u=http://www.b", "http://a/?u=http://www.b"),
    ("cutWWW", "http://www.www.a/www.b", "http://www.a/www.b"),
    ("cutQueryString", FULL, "https://ann:pw@www.News.example.co.uk:8080/a%20b/c#top%21"),
    ("cutFragment", FULL, FULL.removesuffix("#top%21")),
    ("cutQueryStringAndFragment", FULL, "https://ann:pw@www.News.example.co.uk:8080/a%20b/c"),
    ("cutQueryString", "http://a/#f?x", "http://a/#f?x"),
    ("urlEncode", "a b+c/é", "a%20b%2Bc%2F%C3%A9"),
    ("urlEncodeFormComponent", "a b+c/é", "a+b%2Bc%2F%C3%A9"),
    ("urlDecode", "a+b%20c", "a+b c"),
    ("urlDecodeFormComponent", "a+b%20c", "a b c"),
    ("decodeUrl", "%ff+%C3%A9", "\ufffd é"),
    ("urlDecode", "%ff+%C3%A9", "\ufffd+é"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "url", "expected"), URLS, ids=[f"{n}-{u}" for n, u, _ in URLS])
def test_url(name: str, url: str, expected: Any) -> None:
    assert one(name, url) == expected


def test_parameters_of_urls() -> None:
    assert one("extractURLParameter", FULL, "y") == "a&b"
    assert one("extractURLParameter", FULL, "z") == ""
    assert one("cutURLParameter", FULL, "x") == FULL.replace("x=1&", "").replace("&x=2", "")
    assert one("cutURLParameter", "http://a/?x=1#f", "x") == "http://a/#f"
    assert run("cutURLParameters(a, ARRAY['x', 'y'])", a=text(FULL, "http://a/")) == [
        FULL.replace("?x=1&y=a%26b&x=2", ""),
        "http://a/",
    ]


INVALID = ["http://a b/", "http://a/%zz", "1http://a/", "http://a/<b>", "a|b", "http:", ":x", "http://a/\u2028"]


@pytest.mark.parametrize("url", INVALID)
def test_an_invalid_url_has_no_parts_and_is_not_cut(url: str) -> None:
    assert parse_url(url) is None
    for name in ("urlProtocol", "urlDomain", "urlPath", "urlQueryString", "urlNetloc", "urlFirstSignificantSubdomain"):
        assert one(name, url) is None
    for name in ("cutWWW", "cutQueryString", "cutFragment", "cutToFirstSignificantSubdomain"):
        assert one(name, url) == url
    assert one("urlPort", url) == -1


@UNHURRIED
@given(st.text(max_size=30))
def test_any_text_is_a_url_or_none(value: str) -> None:
    parsed = parse_url(value)
    if parsed is not None and parsed.scheme and parsed.host and value.isascii():
        known = urllib.parse.urlsplit(value)
        assert (parsed.scheme.lower(), parsed.path, parsed.query or "") == (known.scheme, known.path, known.query)


def test_functions_take_empty_batches_and_nulls() -> None:
    empty: dict[str, Operand] = {"a": text()}
    for call in ("urlDomain(a)", "initCap(a)", "splitPart(a, ',', 0)", "soundex(a)", "prefixes(a, 2)", "repeat(a, 2)"):
        result = evaluate(parse_expression(call), empty.__getitem__, 0)
        assert isinstance(result, Vector)
        assert len(result) == 0
    holey = Vector(STRING, pa.array(["null", "http://b.c/"]), None, np.array([True, False]))
    assert run("urlDomain(a)", a=holey) == [None, "b.c"]


# -- casts that functions do not make


def test_casts_from_bytes_and_json() -> None:
    numbers = Vector(BYTES, pa.array([bytes.fromhex("0002ff6a"), bytes.fromhex("000100")]))
    assert run("CAST(b AS BIG_DECIMAL)", b=numbers) == [Decimal("-1.50"), Decimal("0.0")]
    documents = Vector(DataType.JSON, pa.array(["YWI=", "YWI"]))
    assert run("CAST(j AS BYTES)", j=documents) == [b"ab", b"ab"]
    assert run("CAST('616200' AS VARBINARY)") == b"ab\0"
    assert run("CAST(300 AS UTINYINT)") == 300
    with pytest.raises(QueryError, match="cannot be cast to BYTES"):
        run("CAST(j AS BYTES)", j=Vector(DataType.JSON, pa.array(["{}"])))


@pytest.mark.parametrize(
    ("source", "target"),
    [(BYTES, "INT"), (INT, "BYTES"), (LONG, "UUID"), (DataType.UUID, "BOOLEAN"), (BYTES, "TIMESTAMP"), (INT, "UBIGINT")],
)
def test_casts_that_do_not_exist_are_refused_when_bound(source: DataType, target: str) -> None:
    with pytest.raises(QueryError) as caught:
        result_type(parse_expression(f"CAST(x AS {target})"), lambda name: (source, False))
    assert caught.value.code is ErrorCode.QUERY_VALIDATION


@pytest.mark.parametrize(
    "call",
    [
        "normalize(s, 'NFX')",
        "toBytes(s, 'FOO')",
        "prefixes(s, -1)",
        "suffixesWithSuffix(s, -1, '$')",
        "uniqueNgrams(s, 5000)",
        "generateUniqueNgrams(s, 1, 5000)",
        "lpad(s, 2000000, 'x')",
        "rpad(s, 2000000, 'x')",
        "regexpLike(s, 'o', 'z')",
        "regexpLike(s, '(')",
        "regexpReplace(s, 'o', '$1')",
        "regexpReplace(s, 'o', '$1', 0, -1)",
        "regexpReplace(s, 'o', 'x', -1)",
        "regexpReplace(s, 'o', 'x', 0, 0, 'z')",
        "trim('AROUND', 'x', s)",
    ],
)
def test_wrong_constants_are_told_before_there_are_rows(call: str) -> None:
    with pytest.raises(QueryError):
        result_type(parse_expression(call), lambda name: (STRING, False))


def test_an_occurrence_takes_a_dollar_as_it_is() -> None:
    for call in ("regexpReplace(s, 'o', '$1', 0, 0)", "regexpReplace(s, 'o', '$1', 0, s)"):
        assert result_type(parse_expression(call), lambda name: (STRING, False)) == (STRING, False)
