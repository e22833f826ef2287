"""Default and maximum LIMIT of SQL, of PQL, and of the levels of a query with GAPFILL."""

import pytest

from gamay.base.errors import ErrorCode, QueryError
from gamay.sql.options.row_limits import LIMIT_MAX, STANDARD_LIMITS, RowLimits
from gamay.sql.parser import PlanCache, parse_query
from gamay.sql.pql.parser import parse_pql

FEW = RowLimits(absent=7, most=50)
LOWERED = RowLimits(absent=7, most=50, lowers=True)
GAPFILL = (
    "GAPFILL(ts, '1:MILLISECONDS:EPOCH', '0', '1000', '10:MILLISECONDS', "
    "FILL(n, 'FILL_DEFAULT_VALUE'), TIMESERIESON(s)) AS d"
)


def limit_of(text: str, limits: RowLimits = FEW) -> int:
    return parse_query(text, None, limits).limit


def pql_limit(text: str, limits: RowLimits = FEW) -> int:
    parsed = parse_pql(text, None, limits)
    return parsed.top or parsed.query.limit


@pytest.mark.parametrize(
    ("settings", "limits"),
    [
        ({}, STANDARD_LIMITS),
        ({"pinot.broker.default.query.limit": "25"}, RowLimits(25)),
        ({"pinot.broker.default.query.limit": "-1"}, RowLimits(LIMIT_MAX)),
        ({"pinot.broker.default.query.limit": "-1", "pinot.broker.query.response.limit": "9"}, RowLimits(9, 9)),
        ({"pinot.broker.default.query.limit": "0"}, RowLimits(0)),
        ({"pinot.broker.query.response.limit": "5"}, RowLimits(5, 5)),
        ({"pinot.broker.query.response.limit": "99999999999"}, STANDARD_LIMITS),
        ({"pinot.broker.enable.query.limit.override": "TRUE"}, RowLimits(lowers=True)),
        ({"pinot.broker.default.query.limit": "many", "pinot.broker.query.response.limit": "0"}, STANDARD_LIMITS),
    ],
)
def test_limits_of_settings(settings: dict[str, str], limits: RowLimits) -> None:
    assert RowLimits.of(settings) == limits


@pytest.mark.parametrize("text", ["SELECT a FROM t", "SELECT a, sum(b) FROM t GROUP BY a", "SELECT DISTINCT a FROM t"])
def test_sql_without_limit_gets_the_default(text: str) -> None:
    assert limit_of(text) == 7
    assert limit_of(text, STANDARD_LIMITS) == 10
    assert limit_of(f"{text} LIMIT 10") == 10  # the standard default, written
    assert limit_of(f"{text} LIMIT 50") == 50
    assert limit_of(f"{text} LIMIT 0") == 0


@pytest.mark.parametrize(
    ("text", "options", "is_relational"),
    [
        ("SELECT a FROM t", {}, False),
        ("SELECT a FROM t", {"useMultistageEngine": "true"}, True),
        ("SET useMultistageEngine = true; SELECT a FROM t", {}, True),
        ("SET useMultistageEngine = 'True'; SELECT a FROM t", {}, True),
        ("SELECT a FROM t; SET useMultistageEngine = true", {}, True),
        ("SELECT a FROM t OPTION(useMultiStageEngine=TRUE)", {}, True),
        ("SET useMultistageEngine = false; SELECT a FROM t", {"useMultistageEngine": "true"}, False),
        ("SELECT a, 'SET useMultistageEngine = true' FROM t", {}, False),
        ("SELECT a FROM t JOIN u ON a = b", {"useMultistageEngine": "false"}, True),
    ],
)
def test_a_query_of_one_table_may_ask_for_the_multi_stage_engine(
    text: str, options: dict[str, str], is_relational: bool
) -> None:
    assert (parse_query(text, options).relational is not None) is is_relational


@pytest.mark.parametrize(
    "clause", ["LIMIT 51", "LIMIT 3, 51", "LIMIT 2147483647 OFFSET 1", "OFFSET 1 ROWS FETCH NEXT 51 ROWS ONLY"]
)
def test_a_limit_that_is_too_large_is_refused_or_lowered(clause: str) -> None:
    text = f"SELECT a FROM t ORDER BY a {clause}"
    with pytest.raises(QueryError, match="exceeds maximum allowed value of 50") as caught:
        limit_of(text)
    assert caught.value.code is ErrorCode.QUERY_VALIDATION
    assert limit_of(text, LOWERED) == 50
    assert limit_of(text, STANDARD_LIMITS) >= 51


def test_a_cached_plan_serves_every_limit() -> None:
    plans = PlanCache()
    found = [parse_query("SELECT a FROM t", None, limits, plans=plans).limit for limits in (FEW, STANDARD_LIMITS, FEW)]
    assert found == [7, 10, 7]
    assert len(plans) == 1


def test_pql() -> None:
    assert pql_limit("SELECT a FROM t") == 7
    assert pql_limit("SELECT sum(a) FROM t GROUP BY b") == 7
    assert pql_limit("SELECT sum(a), max(a) FROM t GROUP BY b TOP 50") == 50
    for text in ("SELECT a FROM t LIMIT 51", "SELECT sum(a) FROM t GROUP BY b TOP 51"):
        with pytest.raises(QueryError, match="exceeds maximum allowed value of 50") as caught:
            pql_limit(text)
        assert caught.value.code is ErrorCode.QUERY_VALIDATION
        assert pql_limit(text, LOWERED) == 50


@pytest.mark.parametrize("number", ["2147483648", "99999999999", "9" * 5000])
def test_a_number_beyond_32_bits_is_refused_whatever_the_settings(number: str) -> None:
    for ask in (
        lambda: limit_of(f"SELECT a FROM t LIMIT {number}", LOWERED),
        lambda: pql_limit(f"SELECT a FROM t LIMIT {number}"),
    ):
        with pytest.raises(QueryError) as caught:
            ask()
        assert caught.value.code in (ErrorCode.QUERY_VALIDATION, ErrorCode.SQL_PARSING)
        assert len(str(caught.value)) < 500


def test_each_limit_of_a_query_with_gapfill_counts_and_the_default_of_the_outermost_only() -> None:
    below = "SELECT ts, s, count(*) AS n FROM t GROUP BY ts, s"
    filled = f"SELECT {GAPFILL}, s, n FROM ({below})"
    plain = parse_query(filled, None, FEW)
    assert plain.gapfill is not None
    assert (plain.gapfill.limit, plain.limit) == (7, LIMIT_MAX)
    above = parse_query(f"SELECT d, sum(n) FROM ({filled}) GROUP BY d", None, FEW)
    assert above.gapfill is not None
    assert above.gapfill.after is not None
    assert (above.gapfill.after.limit, above.gapfill.limit, above.limit) == (7, None, LIMIT_MAX)
    for text in (f"{filled} LIMIT 60", f"SELECT {GAPFILL}, s, n FROM ({below} LIMIT 60)"):
        with pytest.raises(QueryError, match="exceeds maximum allowed value of 50"):
            parse_query(text, None, FEW)
        lowered = parse_query(text, None, LOWERED)
        assert lowered.gapfill is not None
        assert 50 in (lowered.gapfill.limit, lowered.limit)
