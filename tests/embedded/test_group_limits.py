"""Groups are exact by default; limits set by a query, its table or the cluster apply, and the answer reports them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gamay
from gamay.embedded import Database

# more than Pinot's numGroupsLimit; the groups of most rows come last
KEYS = 130_000
FREQUENT = range(KEYS - 10, KEYS)
TOP = "SELECT {key}, COUNT(*) FROM t GROUP BY {key} ORDER BY COUNT(*) DESC, {key} LIMIT 10"
ALL = "SELECT k, COUNT(*) FROM t GROUP BY k LIMIT 1000000"
GROUPS_SETTING = "pinot.server.query.executor.num.groups.limit"


def config(raw: tuple[str, ...] = (), **query: int) -> dict[str, Any]:
    return {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {"noDictionaryColumns": list(raw)},
        "query": query,
    }


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    keys = np.concatenate([np.arange(KEYS), np.repeat(np.array(FREQUENT), 3)])
    rows = pa.table({"k": keys, "raw": keys * 10, "text": pa.array([f"key {k:06d}" for k in keys])})
    with gamay.connect(tmp_path_factory.mktemp("many") / "data") as database:
        database.create_table("t", rows, config=config(("raw", "text")))
        yield database


@pytest.mark.parametrize("key", ["k", "raw", "text", "k, raw"])
def test_the_first_groups_are_exact_by_default(many: Database, key: str) -> None:
    result = many.sql(TOP.format(key=key))
    found = [(int(str(row[0]).removeprefix("key ")) // (10 if key == "raw" else 1), row[-1]) for row in result.rows()]
    assert found == [(k, 4) for k in FREQUENT]
    stats = result.stats
    assert not result.partial
    flags = stats.num_groups_limit_reached, stats.num_groups_warning_limit_reached, stats.groups_trimmed
    assert flags == (False, False, False)


def test_distinct_and_grouping_sets_are_exact_by_default(many: Database) -> None:
    assert len(many.sql("SELECT DISTINCT raw FROM t LIMIT 1000000")) == KEYS
    assert len(many.sql("SELECT k, raw, COUNT(*) FROM t GROUP BY ROLLUP(k, raw) LIMIT 1000000")) == 2 * KEYS + 1
    assert len(many.sql(ALL)) == KEYS


def test_a_query_comes_before_its_table_and_that_before_the_cluster(tmp_path: Path) -> None:
    with gamay.connect(tmp_path / "data") as db:
        rows = pa.table({"k": np.arange(30)})
        db.create_table("t", rows)
        db.create_table("limited", rows, config=config(numGroupsLimit=5) | {"tableName": "limited"})
        asked = "SELECT k, COUNT(*) FROM {} GROUP BY k LIMIT 100"

        def found(table: str, **options: int) -> tuple[int, bool, tuple[str, ...]]:
            result = db.sql(asked.format(table), **options)
            return len(result), result.partial, result.reasons

        said = ("groups beyond numGroupsLimit are left out",)
        assert (found("t"), found("limited"), found("limited", numGroupsLimit=9)) == (
            (30, False, ()), (5, True, said), (9, True, said),
        )  # fmt: skip
        db._cluster.registry.update_cluster_config({GROUPS_SETTING: "7"})
        routing = db._cluster.runner.routing
        assert routing.wait_until(lambda: routing.group_options == {"numGroupsLimit": "7"}, 10)
        assert (found("t"), found("limited"), found("t", numGroupsLimit=9)) == (
            (7, True, said),
            (5, True, said),
            (9, True, said),
        )


def test_trimmed_groups_are_told(many: Database) -> None:
    asked = TOP.format(key="k")
    result = many.sql(asked, minServerGroupTrimSize=100, groupTrimThreshold=1000)
    assert result.stats.groups_trimmed
    assert any("trimmed" in reason for reason in result.reasons)
    alone = many.sql(asked, groupTrimThreshold=1000)  # with Pinot's size beside it
    assert alone.stats.groups_trimmed
    having = asked.replace("ORDER BY", "HAVING COUNT(*) > 0 ORDER BY")
    assert many.sql(
        having, minBrokerGroupTrimSize=100, groupTrimThreshold=1000, minServerGroupTrimSize=-1
    ).stats.groups_trimmed
