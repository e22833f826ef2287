"""Limits on a query's groups: which are kept, what the response reports, and independence of the number of threads."""

from typing import Any

import numpy as np
import pytest

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.expression import Call, Column, Star
from gamay.functions.registry import aggregate_arguments, bind_aggregate
from gamay.functions.vector import Vector
from gamay.model.types import DataType
from gamay.query.bind.aggregates import BoundAggregate
from gamay.query.bind.binder import bind
from gamay.query.execute import groups
from gamay.query.execute.executor import execute
from gamay.query.groupby import limits
from gamay.query.groupby import segment as group_segments
from gamay.query.groupby.segment import GroupOptions, group_segment
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import reduce
from gamay.query.view.matches import AllDocs
from gamay.sql.parser import parse_query


def answer_of_servers(table: Any, sql: str) -> Any:
    """Run a query with each segment on a separate server."""
    bound = bind(parse_query(sql), table.schema)
    deadline = Deadline.after_ms(60_000, SYSTEM_CLOCK)
    return reduce(bound, [execute(bound, [one], table.pool, deadline) for one in table.segments])


@pytest.fixture(scope="module")
def wide(build_table: Any) -> Any:
    """Five segments; `at` and `price` differ in each row, `day` in every tenth."""
    return build_table((3000, 2000, 1000, 1, 3999), no_dictionary_columns=("price",))


class TestNumGroupsLimit:
    def test_groups_beyond_the_limit_are_dropped_and_the_answer_says_so(self, wide: Any) -> None:
        answer = wide.answer("SET numGroupsLimit = 7; SELECT price, count(*), sum(day) FROM trips GROUP BY price LIMIT 1000")
        assert answer.stats.num_groups_limit_reached
        kept = [
            i for start, size in ((0, 3000), (3000, 2000), (5000, 1000), (6000, 1)) for i in range(start, start + size)[:7]
        ]
        kept += range(6001, 6008)
        assert sorted(answer.table.rows()) == [(i / 2, 1, float(i // 10)) for i in kept]

    def test_kept_groups_have_all_their_rows(self, wide: Any) -> None:
        answer = wide.answer("SET numGroupsLimit = 5; SELECT kind + price * 0, count(*) FROM trips GROUP BY 1 LIMIT 1000")
        assert not answer.stats.num_groups_limit_reached
        assert {count for _, count in answer.table.rows()} == {2500}

    def test_it_may_be_an_error(self, wide: Any) -> None:
        sql = "SET numGroupsLimit = 7; SET errorOnNumGroupsLimit = true; SELECT price, count(*) FROM trips GROUP BY {}"
        for clause in ("price", "ROLLUP(price)"):
            with pytest.raises(QueryError, match="more than 7 groups") as raised:
                wide.answer(sql.format(clause))
            assert raised.value.code is ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED

    def test_a_warning_comes_before(self, wide: Any) -> None:
        sql = "SET numGroupsWarningLimit = {}; SELECT price, count(*) FROM trips GROUP BY price"
        assert wide.answer(sql.format(3999)).stats.num_groups_warning_limit_reached
        assert not wide.answer(sql.format(4000)).stats.num_groups_warning_limit_reached

    @pytest.mark.parametrize("limit", [3, 40, 900, 5000])
    def test_threads_make_no_difference(self, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
        monkeypatch.setattr(group_segments, "_ROWS_PER_THREAD", 100)
        restarts = []

        def grouped(threads: int) -> Any:
            values = (np.arange(10_000) * 7919) % 3001
            columns = {"a": Vector(DataType.LONG, values), "b": Vector(DataType.LONG, np.arange(10_000))}

            def reader(block: AllDocs) -> Any:
                return lambda e: Vector(DataType.LONG, columns[e.name].values[block.start : block.stop])

            calls = []
            for call in (Call("count", (Star(),)), Call("sum", (Column("b"),))):
                arguments = aggregate_arguments(call)
                calls.append(
                    BoundAggregate(call, bind_aggregate(call, [(DataType.LONG, False)] * len(arguments)), arguments)
                )
            options = GroupOptions(limit, restart=lambda: restarts.append(threads))
            with WorkPool(threads) as pool:
                table = group_segment([Column("a")], calls, AllDocs(0, 10_000), reader, pool, options)
            finished = [
                call.aggregate.finish(part).values.tolist() for call, part in zip(calls, table.partials, strict=True)
            ]
            return table.keys[0].values.tolist(), finished, table.limit_reached

        assert grouped(1) == grouped(2) == grouped(5)
        assert bool(restarts) == (limit < 50)  # 2000 rows of a piece have 2000 groups, and 16 times the limit is kept


class TestTrim:
    def test_an_order_by_keys_is_trimmed_without_loss(self, wide: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "_SAFE_TRIM_MIN", 1)
        plain = "SELECT day, kind, count(*), sum(price) FROM trips GROUP BY day, kind"
        everything = {row[:2]: row for row in wide.rows(f"{plain} LIMIT 100000")}
        for order in ("day", "day DESC", "kind", "kind DESC, day", "day + kind, kind"):
            for window in ("LIMIT 3", "LIMIT 5 OFFSET 8", "LIMIT 90"):
                answer = answer_of_servers(wide, f"{plain} ORDER BY {order} {window}")
                assert not answer.stats.groups_trimmed
                assert all(everything[row[:2]] == row for row in answer.table.rows()), order
                assert answer.table.rows() == wide.rows(f"{plain} ORDER BY {order} {window}")

    @pytest.mark.parametrize("order", ["price", "price DESC", "price / 2"])
    def test_what_is_lost_behind_the_last_row_is_not_told(self, wide: Any, order: str) -> None:
        """In the order of their keys, trimmed groups cannot be in the answer, whatever rows follow."""
        options = "SET groupTrimThreshold = 100; SET minServerGroupTrimSize = 20; SET minSegmentGroupTrimSize = 1; "
        sql = f"SELECT price, sum(day), count(*) FROM trips GROUP BY price ORDER BY {order} LIMIT 7 OFFSET 2"
        answer = answer_of_servers(wide, options + sql)
        assert not answer.stats.groups_trimmed
        assert answer.table.rows() == wide.rows(sql)
        having = sql.replace("ORDER BY", "HAVING sum(day) > 0 ORDER BY")
        assert answer_of_servers(wide, options + having).stats.groups_trimmed

    def test_a_server_trims_above_the_threshold_and_says_so(self, wide: Any) -> None:
        options = "SET groupTrimThreshold = 100; SET minServerGroupTrimSize = 20; "
        sql = "SELECT price, sum(day) FROM trips GROUP BY price ORDER BY sum(day) DESC, price LIMIT 3"
        answer = wide.answer(options + sql)
        assert answer.stats.groups_trimmed
        assert answer.table.rows() == wide.rows(sql)
        assert not wide.answer(sql).stats.groups_trimmed

    @pytest.mark.parametrize(
        "options",
        [
            "SET groupTrimThreshold = 0; ",
            "SET groupTrimThreshold = 2000000000; ",
            "SET groupTrimThreshold = 100; SET minServerGroupTrimSize = 0; ",
            "SET groupTrimThreshold = 10000; SET minServerGroupTrimSize = 20; ",
            "SET groupTrimThreshold = 1; SET minServerGroupTrimSize = 5001; ",
        ],
    )
    def test_it_does_not_below_or_when_switched_off(self, wide: Any, options: str) -> None:
        sql = "SELECT price, sum(day) FROM trips GROUP BY price ORDER BY sum(day) DESC LIMIT 3"
        assert not wide.answer(options + sql).stats.groups_trimmed

    def test_without_order_the_first_keys_are_kept(self, wide: Any) -> None:
        options = "SET groupTrimThreshold = 100; SET minServerGroupTrimSize = 20; "
        sql = "SELECT price, count(*) FROM trips GROUP BY price LIMIT 3"
        answer = wide.answer(options + sql)
        assert answer.stats.groups_trimmed
        assert answer.table.rows() == [(0.0, 1), (0.5, 1), (1.0, 1)]
        assert not wide.answer(f"SET accurateGroupByWithoutOrderBy = true; {options}{sql}").stats.groups_trimmed

    def test_the_broker_trims_before_having_only(self, wide: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "TRIM_THRESHOLD", 10)
        sql = "SET minBrokerGroupTrimSize = 10; SELECT day FROM trips GROUP BY day, price"
        keys = answer_of_servers(wide, f"{sql} LIMIT 20")
        assert (keys.stats.groups_trimmed, len(keys.table.rows())) == (False, 20)
        assert answer_of_servers(wide, f"{sql} HAVING day >= 0").stats.groups_trimmed

    def test_segments_are_trimmed_on_demand(self, wide: Any) -> None:
        sql = "SELECT price, sum(day) FROM trips GROUP BY price ORDER BY sum(day) DESC LIMIT {}"
        assert wide.answer(f"SET minSegmentGroupTrimSize = 50; {sql.format(3)}").stats.groups_trimmed
        assert not wide.answer(f"SET minSegmentGroupTrimSize = 50; {sql.format(1000)}").stats.groups_trimmed

    def test_many_segments_are_merged_in_steps(self, build_table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(groups, "_SEGMENTS_AT_ONCE", 3)
        table = build_table((50,) * 10)
        sql = "SELECT at, kind, sum(price) FROM trips GROUP BY at, kind ORDER BY sum(price) DESC, kind LIMIT 4"
        options = "SET groupTrimThreshold = 60; SET minServerGroupTrimSize = 25; "
        answer = table.answer(options + sql)
        assert answer.stats.groups_trimmed
        assert answer.table.rows() == table.rows(sql)
        assert answer.stats.num_docs_scanned == 500


def test_a_second_walk_is_not_counted_twice(build_table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_segments, "_ROWS_PER_THREAD", 50)
    table = build_table((2000,), no_dictionary_columns=("price", "at"))
    sql = "SET numGroupsLimit = 2; SELECT price, count(*), sum(day) FILTER (WHERE kind = 1) FROM trips {} GROUP BY price"
    for where, rows in (("", 2000), ("WHERE price >= 100 OR city = 'x'", 1800)):
        stats = table.answer(sql.format(where)).stats
        assert stats.num_groups_limit_reached
        assert stats.num_docs_scanned == rows + rows // 4
