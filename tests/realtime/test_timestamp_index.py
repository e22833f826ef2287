"""Queries on consuming and committed rows use the columns of a timestamp index."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.realtime.conftest import SCHEMA

INDEX = [{"name": "ts", "timestampConfig": {"granularities": ["SECOND"]}}]
BY_SECOND = "SELECT dateTrunc('SECOND', ts), COUNT(*), SUM(n) FROM t WHERE \"$ts$SECOND\" > 0 GROUP BY 1 ORDER BY 1"


@pytest.mark.parametrize("keyed", [False, True])
def test_commits_keep_the_answers(make_realtime: Callable[..., Any], eventually: Callable[..., None], keyed: bool) -> None:
    realtime = make_realtime(start=False)
    realtime.table["fieldConfigList"] = INDEX
    if keyed:
        realtime.table |= {"upsertConfig": {"mode": "FULL"}, "routing": {"instanceSelectorType": "strictReplicaGroup"}}
    realtime.start()
    realtime.rest("POST", "/schemas", json=SCHEMA | ({"primaryKeyColumns": ["s"]} if keyed else {}))
    assert "warnings" not in realtime.rest("POST", "/tables", json=realtime.table)
    realtime.produce(2400)
    counted = range(2393, 2400) if keyed else range(2400)  # of the seven keys the last row each
    seconds = sorted({n // 1000 for n in counted})
    expected = []
    for second in seconds:
        inside = [n for n in counted if n // 1000 == second]
        expected.append([1_700_000_000_000 + second * 1000, len(inside), float(sum(inside))])

    def answer() -> Any:
        return realtime.ask(BY_SECOND).get("resultTable", {}).get("rows")

    eventually(lambda: answer() == expected)
    eventually(lambda: list(realtime.segments().values()) == ["ONLINE", "ONLINE", "CONSUMING"])
    assert answer() == expected
    plans = realtime.ask(f"SET explainPlanVerbose = true; EXPLAIN PLAN FOR {BY_SECOND}")["resultTable"]["rows"]
    told = [row[0] for row in plans if row[0].startswith("GROUP_BY")]
    assert told
    assert all(text.startswith("GROUP_BY(groupKeys:$ts$SECOND,") for text in told), plans
    realtime.stop()
    realtime.start()
    eventually(lambda: answer() == expected)
