"""A committed segment has its star-trees from its first query on, beside consuming rows."""

from collections.abc import Callable
from typing import Any


def test_trees_are_built_at_the_commit(make_realtime: Callable[..., Any], eventually: Callable[..., None]) -> None:
    realtime = make_realtime(start=False)
    tree = {"dimensionsSplitOrder": ["s", "p"], "functionColumnPairs": ["SUM__n", "MAX__n"], "maxSizeRatio": 100}
    realtime.table["tableIndexConfig"] = {"starTreeIndexConfigs": [tree]}
    realtime.start()
    realtime.create()

    def answer() -> tuple[Any, int]:
        found = realtime.ask("SELECT s, COUNT(*), SUM(n), MAX(n) FROM t GROUP BY s ORDER BY s")
        return found.get("resultTable", {}).get("rows"), found["numDocsScanned"]

    realtime.produce(1400)
    eventually(realtime.all_there)
    eventually(lambda: "ONLINE" in realtime.segments().values())
    rows = list(range(1400))
    expected = [[f"v{rest}", len(rows[rest::7]), float(sum(rows[rest::7])), float(max(rows[rest::7]))] for rest in range(7)]
    eventually(lambda: answer() == (expected, 7 + 400))
    realtime.stop()
    realtime.start()
    eventually(realtime.all_there)
    assert answer() == (expected, 7 + 400)
