"""EXPLAIN ANALYZE runs the query and reports the cost of its parts; responses have the same as `stageStats`."""

import re

import pytest
from tests.relational.conftest import Twins
from tests.stages import leaves, stages

from gamay.query.answer.response import to_json
from gamay.sql.parser import parse_query

JOIN = (
    "SELECT s.city, COUNT(*), SUM(x.price) FROM sales x JOIN shops s ON x.shop = s.shop AND x.qty < s.area "
    "WHERE x.qty > 1 GROUP BY s.city ORDER BY 2"
)


def analysis_of(twins: Twins, sql: str) -> str:
    result = twins.db.sql(f"EXPLAIN ANALYZE {sql}")
    assert result.columns == ("SQL", "PLAN")
    ((text, plan),) = result.rows()
    assert text == f"EXPLAIN ANALYZE {sql}"
    return str(plan)


def test_operators_above_the_leaves_have_rows_time_and_memory(twins: Twins) -> None:
    plan = analysis_of(twins, JOIN)
    num_groups = len(twins.db.sql(JOIN).rows())
    assert re.match(rf"Execution Plan \(rows=\[{num_groups}\], time=\[\d+\.\d ms\]\)\n", plan)
    assert re.search(r"HashJoin\(rows=\[\d+\], time=\[\d+\.\d ms\], memory=\[\d+ KiB\], join type=\[INNER\]", plan)
    assert "sales.shop = shops.shop" in plan
    num_sales = twins.db.sql("SELECT COUNT(*) FROM sales WHERE qty > 1").rows()[0][0]
    leaf = plan.partition("Leaves\n")[2]
    assert re.search(rf"Scan\(table=\[sales\].*\n +rows=\[{num_sales}\], time=\[.*\], docs=\[{num_sales} of 200\]", leaf)
    assert not re.search(r"\bc\d+\b", plan)


def test_constants_of_small_tables_are_not_written_out(twins: Twins) -> None:
    plan = analysis_of(twins, "SELECT name, COUNT(*) FROM sales x JOIN items i ON x.item = i.item GROUP BY name")
    assert "select=[joined by item, count(*)]" in plan
    assert len(plan) < 1500


@pytest.mark.parametrize("sql", ["SELECT COUNT(*) FROM sales", "SELECT 1", "WITH q AS (SELECT 1 AS x) SELECT x FROM q"])
def test_queries_of_one_table_and_of_none(twins: Twins, sql: str) -> None:
    assert analysis_of(twins, sql).startswith("Execution Plan (rows=[1], ")


def test_constants_alone_have_no_operators(twins: Twins) -> None:
    assert analysis_of(twins, "VALUES (1, 'a'), (2, NULL)").startswith("Execution Plan (rows=[2], ")
    assert to_json(twins.db._cluster.runner.run("VALUES (1, 'a'), (2, NULL)"))["maxRowsInOperator"] == 0


def test_the_response_has_stage_stats(twins: Twins) -> None:
    runner = twins.db._cluster.runner
    response = to_json(runner.run(JOIN, {"enableNullHandling": "true"}))
    stats = response["stageStats"]
    assert (stats["type"], stats["emittedRows"]) == ("MAILBOX_RECEIVE", response["numRowsResultSet"])
    assert {leaf["table"] for leaf in leaves(stats)} == {"sales", "shops"}
    for key in ("numDocsScanned", "totalDocs", "numSegmentsQueried"):
        assert sum(leaf[key] for leaf in leaves(stats)) == response[key]
    assert "stageStats" not in to_json(runner.run("SELECT COUNT(*) FROM sales"))


@pytest.mark.parametrize(
    ("sql", "counted"),
    [
        (
            "SELECT s.city, COUNT(*) FROM sales x LEFT JOIN shops s ON x.shop = s.shop AND x.qty < s.area GROUP BY s.city",
            {
                "numGroups": "SELECT COUNT(*) FROM (SELECT DISTINCT s.city FROM sales x LEFT JOIN shops s "
                "ON x.shop = s.shop AND x.qty < s.area)",
                "maxRowsInJoin": "SELECT COUNT(*) FROM sales x LEFT JOIN shops s ON x.shop = s.shop AND x.qty < s.area",
                "maxRowsInWindow": "SELECT 0",
            },
        ),
        (
            "SELECT id, SUM(qty) OVER (PARTITION BY shop ORDER BY id) FROM sales WHERE qty > 3",
            {
                "numGroups": "SELECT 0",
                "maxRowsInJoin": "SELECT 0",
                "maxRowsInWindow": "SELECT COUNT(*) FROM sales WHERE qty > 3",
                "maxRowsInOperator": "SELECT COUNT(*) FROM sales WHERE qty > 3",
            },
        ),
        (
            "SELECT COUNT(*) FROM (SELECT DISTINCT item, shop FROM sales) q",
            {
                "numGroups": "SELECT COUNT(*) FROM (SELECT DISTINCT item, shop FROM sales)",
                "maxRowsInOperator": "SELECT COUNT(*) FROM (SELECT DISTINCT item, shop FROM sales)",
            },
        ),
        (
            "SELECT COUNT(*) FROM sales x CROSS JOIN shops s",
            {"maxRowsInJoin": "SELECT COUNT(*) FROM sales x CROSS JOIN shops s", "numGroups": "SELECT 0"},
        ),
    ],
)
def test_the_response_tells_the_most_rows_of_operators(twins: Twins, sql: str, counted: dict[str, str]) -> None:
    response = to_json(twins.db._cluster.runner.run(sql, {"enableNullHandling": "true"}))
    assert {key: response[key] for key in counted} == {
        key: twins.duck.execute(count).fetchall()[0][0] for key, count in counted.items()
    }


def test_the_response_tells_why_distinct_ended(twins: Twins) -> None:
    runner = twins.db._cluster.runner
    sql = "SELECT COUNT(*) FROM (SELECT DISTINCT item FROM sales) q"
    assert "earlyTerminationReasons" not in to_json(runner.run(sql))
    ended = to_json(runner.run(sql, {"maxRowsInDistinct": "2"}))
    assert (ended["earlyTerminationReasons"], ended["partialResult"]) == (["DISTINCT_MAX_ROWS"], True)


def test_plans_have_the_shape_of_answers_of_one_table(twins: Twins) -> None:
    runner = twins.db._cluster.runner
    assert list(to_json(runner.run(f"EXPLAIN PLAN FOR {JOIN}"))) == list(to_json(runner.run("SELECT COUNT(*) FROM sales")))


def test_a_failing_query_fails(twins: Twins) -> None:
    with pytest.raises(Exception, match=r"Unknown columnName 's\.nope'"):
        twins.db.sql(f"EXPLAIN ANALYZE {JOIN.replace('s.city', 's.nope')}")
    assert parse_query("EXPLAIN ANALYZE SELECT 1 FROM t").explain


def test_stages_are_those_of_pinot(twins: Twins) -> None:
    sql = (
        "SELECT s.city, COUNT(*) AS n, RANK() OVER (ORDER BY SUM(x.qty)) FROM sales x LEFT JOIN shops s "
        "ON x.shop = s.shop AND x.qty < s.area GROUP BY s.city HAVING COUNT(*) > 0 ORDER BY n LIMIT 3"
    )
    response = to_json(twins.db._cluster.runner.run(sql, {}))
    stats = response["stageStats"]
    nodes = list(stages(stats))
    kinds = [node["type"] for node in nodes]
    places = [kinds.index(kind) for kind in ("SORT_OR_LIMIT", "WINDOW", "AGGREGATE", "HASH_JOIN", "LEAF")]
    assert places == sorted(places)
    by_kind = dict(zip(kinds, nodes, strict=True))
    assert by_kind["AGGREGATE"]["numGroups"] == by_kind["AGGREGATE"]["emittedRows"] == response["numGroups"]
    assert by_kind["HASH_JOIN"]["maxRowsInJoin"] == response["maxRowsInJoin"]
    assert by_kind["WINDOW"]["maxRowsInWindow"] == response["maxRowsInWindow"]
    assert by_kind["SORT_OR_LIMIT"]["requireSort"]
    # every stage but the broker's sends to what receives from it, and has a number of its own
    assert [node["stage"] for node in nodes if node["type"] == "MAILBOX_SEND"] == [1, 2, 3]
    for node in nodes:
        below = [child["type"] for child in node.get("children", ())]
        assert (below == ["MAILBOX_SEND"]) is (node["type"] == "MAILBOX_RECEIVE")


@pytest.mark.parametrize(
    ("sql", "kinds"),
    [
        ("SET useMultistageEngine = true; SELECT COUNT(*) FROM sales", ["MAILBOX_SEND", "LEAF"]),
        ("SELECT s.city, SUM(x.qty) FROM sales x JOIN shops s ON x.shop = s.shop GROUP BY s.city", ["MAILBOX_SEND", "LEAF"]),
        ("SELECT id FROM sales WHERE id < 2 UNION ALL SELECT 5", ["MAILBOX_SEND", "UNION"]),
        ("SELECT 1 FROM (SELECT 1) AS v LIMIT 0", ["EMPTY_MAILBOX_SEND"]),
    ],
)
def test_first_stages(twins: Twins, sql: str, kinds: list[str]) -> None:
    response = to_json(twins.db._cluster.runner.run(sql, {}))
    nodes = list(stages(response["stageStats"]))
    assert [node["type"] for node in nodes[1 : len(kinds) + 1]] == kinds
    shown = [node["emittedRows"] for node in nodes[: len(kinds) + 1] if "emittedRows" in node]
    assert set(shown) == {response["numRowsResultSet"]}
