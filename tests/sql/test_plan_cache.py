"""A plan filled with new literals equals the plan compiled from the text."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.text import to_text
from gamay.model.types import DataType
from gamay.sql.parser import PlanCache, parse_expression, parse_query
from gamay.sql.query import Query
from gamay.sql.text.lexer import Lexeme
from gamay.sql.text.slots import lift_literals

TEMPLATES = [
    "SELECT a FROM t WHERE a = {} AND b > {} AND c IN ({}, {}, {})",
    "SELECT a + {}, count(*) FROM t GROUP BY a + {}",
    "SELECT a, sum(x * {}) FROM t WHERE b BETWEEN {} AND {} GROUP BY a HAVING sum(x * {}) > {}",
    "SELECT a FROM t WHERE b < -{} OR c = - - {}",
    "SELECT a, b FROM t ORDER BY {}, b LIMIT {}",
    "SELECT a, count(*) FROM t GROUP BY {} ORDER BY {} DESC LIMIT {}",
    "SELECT a FROM t WHERE b > {} + {} AND c = {}",
    "SELECT a FROM t WHERE b >= {} AND b < {} + {} * {} OR c IN ({} - {}, {}) OR d BETWEEN -({} + {}) AND {}",
    "SELECT a FROM t WHERE b + ({} + {}) > {} - {} AND {} + {} > {}",
    "SELECT a FROM t WHERE f(b, {} + {}) = concat({}, {}) AND (c = {} - {}) = true",
    "SELECT a FROM t WHERE b = CASE WHEN {} > {} THEN {} ELSE {} END AND c < length({})",
    "SELECT DISTINCT f(a, {}) FROM t ORDER BY f(a, {})",
    "SELECT percentile(a, {}), case when b > {} then {} else {} end FROM t",
    "SET timeoutMs = {}; SELECT a FROM t LIMIT {} OFFSET {}",
    "SELECT {}, {} AS x",
    "SELECT a FROM t WHERE {} < a AND {} = {} LIMIT {}, {}",
    'SELECT "{}" FROM t /* {} */ WHERE a = {} -- {}',
    "SELECT CAST(a AS INT) FROM t WHERE b = {} AND c = {}",
    "SELECT a + {} AS {}, {} as/**/{} FROM t WHERE b = {} GROUP BY {}",
    "SELECT a AS 'x', b + {} AS -- as\n{} FROM t WHERE b = {}",
    "SELECT sum(a + {}), avg({} - a), min(a * {}), max(a * -{}), max(a * ({} - {})), sum(add(a, {})) FROM t",
    "SELECT add(a, {}), add({}, {}), sum(b - {}) AS x FROM t GROUP BY a + {} HAVING sum(b - {}) > {} ORDER BY min(b * -{})",
]
literals = st.one_of(
    st.integers(0, 3).map(str),
    st.integers(0, 2**63).map(str),
    st.sampled_from(
        ["1.5", "1e3", ".5", "2.", "'INT'", "'a'", "'it''s'", "''", "'-- x'", "'\"'", "007", "9223372036854775808"]
    ),
)


def compiled(sql: str, plans: PlanCache) -> Query | str:
    try:
        return parse_query(sql, plans=plans)
    except QueryError as error:
        return f"{error.code.code} {error}"


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(TEMPLATES), st.data())
def test_cached_and_fresh_plans_agree(template: str, data: st.DataObject) -> None:
    plans = PlanCache()
    for _ in range(3):
        values = [data.draw(literals) for _ in range(template.count("{}"))]
        sql = template.format(*values)
        assert compiled(sql, plans) == compiled(sql, PlanCache())


@given(st.text(alphabet="a1.'\"-/* \n$e+,;()x=<", max_size=40))
def test_any_text_gives_a_query_or_an_error_and_the_same_again(text: str) -> None:
    plans = PlanCache()
    sql = f"SELECT a FROM t WHERE {text}"
    assert compiled(sql, plans) == compiled(sql, plans)


def test_templates_are_shared_between_literals_only() -> None:
    plans = PlanCache()
    for sql in ("SELECT a FROM t WHERE b = 1", "SELECT a FROM t WHERE b = 22", "select a from t where b = 1"):
        parse_query(sql, plans=plans)
    assert len(plans) == 2


def test_equal_literals_are_another_template() -> None:
    plans = PlanCache()
    parse_query("SELECT a + 1, count(*) FROM t GROUP BY a + 1", plans=plans)
    with pytest.raises(QueryError, match="neither in GROUP BY"):
        parse_query("SELECT a + 1, count(*) FROM t GROUP BY a + 2", plans=plans)


def test_an_ordinal_belongs_to_the_plan() -> None:
    plans = PlanCache()
    first = parse_query("SELECT a, b FROM t ORDER BY 1 LIMIT 5", plans=plans)
    second = parse_query("SELECT a, b FROM t ORDER BY 2 LIMIT 5", plans=plans)
    assert first.order_by != second.order_by
    with pytest.raises(QueryError, match="out of range"):
        parse_query("SELECT a, b FROM t ORDER BY 3 LIMIT 5", plans=plans)


def test_the_oldest_template_leaves_first() -> None:
    plans = PlanCache(weight_max=1100)  # two short texts, each 500 more than its length
    for column in "abc":
        parse_query(f"SELECT {column} FROM t", plans=plans)
    assert len(plans) == 2


def test_nothing_is_kept_of_a_long_text() -> None:
    plans = PlanCache()
    text = "SELECT a FROM t WHERE " + " OR ".join(f"b = {number}" for number in range(3000))
    assert parse_query(text, plans=plans).shape is None
    assert len(plans) == 0


def test_texts_of_clients_are_kept_up_to_a_bound() -> None:
    plans = PlanCache()
    for number in range(150):
        parse_query(f"SELECT {', '.join(f'c{number}_{place}' for place in range(1000))} FROM t", plans=plans)
    assert 50 < len(plans) < 150


def test_a_text_that_imitates_a_template_does_not_get_its_plan() -> None:
    plans = PlanCache()
    parse_query("SELECT a FROM t WHERE b = 1", plans=plans)
    with pytest.raises(QueryError, match="unexpected character"):
        parse_query("SELECT a FROM t WHERE b = \0n", plans=plans)


def test_now_is_computed_for_each_query() -> None:
    plans = PlanCache()
    values = [parse_query("SELECT now()", plans=plans).select[0].expression for _ in range(2)]
    assert all(isinstance(value, Literal) and value.type is DataType.LONG for value in values)
    assert values[0].value <= values[1].value  # type: ignore[union-attr, operator]


def test_constants_beside_columns_are_no_part_of_the_plan() -> None:
    plans = PlanCache()
    shapes = {
        parse_query(f"SELECT a FROM t WHERE b >= {n} AND b < {n} + 1000 AND c > ago('P{n}D')", plans=plans).shape
        for n in (5, 70, 800)
    }
    queries = [parse_query(f"SELECT a FROM t WHERE b < {n} + 1000", plans=plans) for n in (5, 70)]
    assert len(shapes) == 1
    assert all(query.varies_only_in_where for query in queries)
    assert [to_text(query.where) for query in queries if query.where is not None] == [
        "less_than(b,'1005')",
        "less_than(b,'1070')",
    ]


def test_lifting_keeps_comments_and_quoted_names() -> None:
    lifted = lift_literals("SELECT \"1 'x'\", a1, 1a FROM t -- 5 'y'\nWHERE b = 1 AND c = 'x' AND d = 1 /* 6 */")
    assert lifted.sources == ("1", "'x'")
    assert lifted.pattern == (0, 1, 0)


def test_request_options_yield_to_those_of_the_text() -> None:
    query = parse_query("SET timeoutMs = 1; SELECT a FROM t OPTION(numGroupsLimit=2)", {"timeoutMs": "9", "trace": "true"})
    assert query.options == {"timeoutMs": "1", "numGroupsLimit": "2", "trace": "true"}


def test_parse_expression() -> None:
    assert parse_expression("a > 1 + 1") == parse_expression("a > CAST(2 AS LONG)")
    for bad in ("", "a,", "a b", "SELECT 1", "a = "):
        with pytest.raises(QueryError):
            parse_expression(bad)


def test_deep_nesting_is_an_error_and_long_chains_are_not() -> None:
    with pytest.raises(QueryError, match="nested"):
        parse_query("SELECT " + "(" * 1000 + "a" + ")" * 1000 + " FROM t")
    conditions = " AND ".join(f"c{i} = {i}" for i in range(3000))
    assert len(parse_query(f"SELECT a FROM t WHERE {conditions}").where.args) == 3000  # type: ignore[union-attr]
    assert len(parse_query(f"SELECT a FROM t WHERE b IN ({','.join(map(str, range(5000)))})").where.args) == 5001  # type: ignore[union-attr]


def test_more_words_than_can_be_read_in_time_are_an_error() -> None:
    with pytest.raises(QueryError, match="more than 100,000 words and signs") as raised:
        parse_query("SELECT a FROM t WHERE " + " OR ".join(f"a = {i}" for i in range(60_000)))
    assert raised.value.code is ErrorCode.SQL_PARSING
    assert len(parse_query("SELECT a FROM t WHERE " + " OR ".join(f"a = {i}" for i in range(3000))).where.args) == 3000  # type: ignore[union-attr]


LISTED = [
    "1",
    "-5",
    "2147483648",
    "1.5",
    "'a'",
    "'it''s'",
    "-  7",
    "'b c, d'",
    "9223372036854775807",
    "-9223372036854775808",
]


def in_list(members: Sequence[str], between: str = ", ") -> list[Expression]:
    where = parse_query(f"SELECT a FROM t WHERE b = 'x' AND c IN ({between.join(members)}) AND d > 3").where
    assert isinstance(where, Call)
    listed = where.args[1]
    assert isinstance(listed, Call)
    assert (listed.name, listed.args[0]) == ("in", Column("c"))
    return list(listed.args[1:])


@pytest.mark.parametrize("pool", [LISTED, LISTED[:1], LISTED[:3], LISTED[4:5], LISTED[4:6], ["'a'", "1"], ["-3", "4"]])
@pytest.mark.parametrize("between", [", ", ",", " ,\n"])
def test_long_lists_hold_what_short_ones_do(pool: list[str], between: str) -> None:
    rng = random.Random(5)
    for count in (31, 32, 33, 100):
        members = [rng.choice(pool) for _ in range(count)]
        alone = {member: in_list([member])[0] for member in set(members)}
        found = in_list(members, between)
        assert [(part.value, part.type) for part in found] == [(alone[m].value, alone[m].type) for m in members]  # type: ignore[union-attr]


def test_lists_of_any_length_and_type_share_a_template() -> None:
    plans = PlanCache()
    for count in (40, 50, 40):
        numbers = ", ".join(str(i + count) for i in range(count))
        texts = ", ".join(f"'{i}'" for i in range(count))
        for text, wanted in ((numbers, count), (texts, "0")):
            query = parse_query(f"SELECT a FROM t WHERE c IN ({text}) AND d NOT IN ({text})", plans=plans)
            assert isinstance(query.where, Call)
            for part in query.where.args:
                assert isinstance(part, Call)
                assert len(part.args) == count + 1
                assert isinstance(part.args[1], Literal)
                assert part.args[1].value == wanted
    # equal lists share a place, others do not
    assert len(plans) == 1
    one, other = (", ".join(str(i) for i in range(start, start + 40)) for start in (0, 1))
    parse_query(f"SELECT a FROM t WHERE c IN ({one}) AND d NOT IN ({other})", plans=plans)
    assert len(plans) == 2


def test_long_lists_anywhere() -> None:
    numbers = ", ".join(map(str, range(40)))
    query = parse_query(f"SELECT a IN ({numbers}), 3 IN ({numbers}) AS known FROM t WHERE 50 IN ({numbers}) OR a = 'in (1'")
    shown = ",".join(f"'{i}'" for i in range(40))
    assert [item.name for item in query.select] == [f"in(a,{shown})", "known"]
    assert query.select[1].expression == Literal(True, DataType.BOOLEAN)
    grouped = parse_query(f"SELECT a IN ({numbers}) AS k, count(*) FROM t GROUP BY a IN ({numbers}) HAVING k ORDER BY k")
    assert grouped.select[0].expression == grouped.group_by[0] == grouped.having == grouped.order_by[0].expression
    assert len(parse_expression(f"a IN ({numbers})").args) == 41  # type: ignore[union-attr]
    assert len(parse_query(f"SELECT a FROM t WHERE a IN ({numbers}, b)").where.args) == 42  # type: ignore[union-attr]
    with pytest.raises(QueryError, match="does not fit 64 bits"):
        parse_query(f"SELECT a FROM t WHERE a IN ({numbers}, 99999999999999999999)")


def test_a_long_sum_is_an_error_rather_than_a_crash() -> None:
    with pytest.raises(QueryError, match="nested"):
        parse_query("SELECT " + " + ".join(["a"] * 20_000) + " FROM t")


@pytest.mark.parametrize(
    "deep",
    [
        "SELECT " + "(" * 10_000 + "a" + ")" * 10_000 + " FROM t",
        "SELECT a FROM t WHERE " + "NOT " * 10_000 + "a",
        "SELECT " + "- " * 10_000 + "a FROM t",
        "SELECT " + "CASE WHEN a THEN 1 ELSE " * 10_000 + "1" + " END" * 10_000 + " FROM t",
        "SELECT " + "abs(" * 10_000 + "a" + ")" * 10_000 + " FROM t",
        "SELECT a FROM t WHERE " + "a BETWEEN 1 AND " * 10_000 + "2",
        "SELECT a" + "[0]" * 10_000 + " FROM t",
        "SELECT count(*) FROM t GROUP BY " + "GROUPING SETS (" * 10_000 + "a" + ")" * 10_000,
        "SELECT " + "sum(" * 10_000 + "a" + ") FILTER (WHERE b)" * 10_000 + " FROM t",
    ],
)
def test_ten_thousand_levels_are_an_error(deep: str) -> None:
    with pytest.raises(QueryError, match="nested deeper") as raised:
        parse_query(deep)
    assert raised.value.code.code == 150


def test_each_word_of_nested_grouping_sets_is_looked_at_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, is_op = [0], Lexeme.is_op

    def counted(lexeme: Lexeme, *ops: str) -> bool:
        looks[0] += 1
        return is_op(lexeme, *ops)

    monkeypatch.setattr(Lexeme, "is_op", counted)
    levels = 2_000
    with pytest.raises(QueryError, match="nested deeper"):
        parse_query("SELECT count(*) FROM t GROUP BY " + "GROUPING SETS (" * levels + "a" + ")" * levels)
    assert looks[0] < 40 * 4 * levels


def test_a_megabyte_of_literals_is_a_query_like_any_other() -> None:
    plans = PlanCache()
    numbers = [str(i) if i % 5 else f"- {i}" for i in range(100_000)]
    query = parse_query(f"SELECT a FROM t WHERE b > 1 AND a NOT IN ({', '.join(numbers)}) AND c = 'x'", plans=plans)
    _, listed, last = query.where.args  # type: ignore[union-attr]
    assert [value.value for value in listed.args[1:]] == [i if i % 5 else -i for i in range(100_000)]
    assert last.args[1] == Literal("x", DataType.STRING)
    for values in ("'a', 'b''c', 'd'" + ", 'e'" * 40, "1, 2" + ", 3" * 40, "-1, 2.5" + ", 3" * 40):
        short = f"SELECT a FROM t WHERE a IN (/* one by one */ {values})"
        assert compiled(short.replace("/* one by one */", ""), plans).where == compiled(short, plans).where  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "found the end of the query"),
        (" \n\t;", "expected"),
        ("SELECT \0 FROM t", "unexpected character"),
        ("SELECT '\ud800' FROM t", "valid Unicode"),
        ("SELECT \udc00 FROM t", "valid Unicode"),
        ("SELECT " + "9" * 100_000, "does not fit 64 bits"),
        ("SELECT a FROM t LIMIT " + "9" * 5000, "LIMIT"),
        ("SELECT a FROM t WHERE '" + "x" * 100_000 + "' '", "not closed"),
        ("SELECT " + "x" * 1025 + " FROM t", "at most 1024 characters, this one has 1025"),
        ('SELECT "' + "x" * 1025 + '" FROM t', "at most 1024 characters, this one has 1025"),
    ],
)
def test_strange_texts_are_errors_with_a_short_sentence(text: str, words: str) -> None:
    with pytest.raises(QueryError, match=words) as raised:
        parse_query(text)
    assert raised.value.code.code == 150
    assert len(str(raised.value)) < 500


def test_texts_that_differ_in_an_ordinal_keep_their_plans_side_by_side() -> None:
    plans, text = PlanCache(), "SELECT a, b FROM t WHERE c = {} ORDER BY {} LIMIT {}"
    texts = [text.format(n, *rest) for n in (5, 6) for rest in ((1, 9), (2, 8))]
    shapes = [parse_query(text, plans=plans).shape for text in texts]
    assert len(plans) == 2
    assert (shapes[0], shapes[1]) == (shapes[2], shapes[3])
    assert shapes[0] != shapes[1]
    assert parse_query(texts[1], plans=plans).order_by == parse_query(texts[1], plans=PlanCache()).order_by
