"""Row filters on a hybrid table with servers in other processes: both halves, and plans not shared between principals."""

from typing import Any

from tests.broker.conftest import Cluster, NewCluster, rows_of

from gamay.cluster.access.principals import ANYONE, Principal
from gamay.query.answer.response import to_json

FEW = Principal("few", "", tables=frozenset({"t"}), row_filters={"t": ("k = 'key1'",)})
OTHERS = Principal("others", "", tables=frozenset({"t"}), row_filters={"t": ("k <> 'key1'", "n > 3")})
WRITTEN = {"few": "WHERE k = 'key1'", "others": "WHERE k <> 'key1' AND n > 3", "anyone": ""}


def asked(cluster: Cluster, sql: str, principal: Principal = ANYONE) -> dict[str, Any]:
    """Return the answer of the HTTP interface."""
    runner = cluster.runner
    pending = runner.begin(sql, {}, principal=principal)
    cluster.remote.loop.wait(runner.fetch(pending))
    found = to_json(runner.finish(pending))
    times = ("timeUsedMs", "requestId", "brokerReduceTimeMs")
    return {name: value for name, value in found.items() if name not in times and not name.endswith("CpuTimeNs")}


def test_both_halves_of_a_table(new_cluster: NewCluster) -> None:
    cluster = new_cluster(2)
    for table, first in (("t_OFFLINE", 10), ("t_REALTIME", 12)):
        segments = {f"{table[2]}{i}": rows_of(60 * i, 60, day=first + i) for i in range(4)}
        cluster.create(table, segments, {name: (i % 2,) for i, name in enumerate(segments)})
    assert cluster.routing.wait_until(lambda: len(cluster.routing.find("t")) == 2, 60)
    for sql in (
        "SELECT COUNT(*), SUM(n), MAX(x) FROM t {}",
        "SELECT day, k, COUNT(*) FROM t {} GROUP BY day, k ORDER BY 1, 2",
    ):
        expected = {name: asked(cluster, sql.format(where)) for name, where in WRITTEN.items()}
        assert len({str(answer["resultTable"]) for answer in expected.values()}) == 3
        for _ in range(3):
            for principal in (FEW, ANYONE, OTHERS, FEW):
                of_all = principal is ANYONE
                found = asked(cluster, sql.format(""), principal)
                assert found == {**expected[principal.name], "rlsFiltersApplied": not of_all}
