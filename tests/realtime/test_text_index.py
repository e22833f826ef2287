"""TEXT_MATCH finds rows as soon as they are consumed: by indexes of blocks, a scan of later rows, and after the commit."""

from collections.abc import Callable
from typing import Any

import pytest

from gamay.segment.secondary import growing


def test_rows_are_found_while_they_are_consumed(
    make_realtime: Callable[..., Any], eventually: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "BLOCK_ROWS", 100)
    realtime = make_realtime(segment_rows=2000, start=False)
    realtime.table["tableIndexConfig"] = {"noDictionaryColumns": ["s"]}
    realtime.table["fieldConfigList"] = [{"name": "s", "encodingType": "RAW", "indexes": {"text": {}}}]
    realtime.start()
    realtime.create()

    def scanned(options: str = "") -> int:
        """Check that all rows are found, and return how many texts were read for that."""
        found = realtime.ask(f"{options}SELECT COUNT(*) FROM t WHERE TEXT_MATCH(s, 'V3 OR v5')")
        assert found["resultTable"]["rows"] == [[sum(n % 7 in (3, 5) for n in range(realtime.sent[0]))]]
        return int(found["numEntriesScannedInFilter"])

    def scored() -> None:
        """Check that the rows have the same scores with the indexes of blocks and without."""
        best = "SELECT n, textScore(s, 'V3^2 OR v5') AS score FROM t ORDER BY score DESC, n LIMIT 500"
        with_index, without = (realtime.ask(f"{options}{best}") for options in ("", "SET skipIndexes = 's=text'; "))
        rows = with_index["resultTable"]["rows"]
        assert rows == without["resultTable"]["rows"]
        matching = [n for n in range(realtime.sent[0]) if n % 7 in (3, 5)]
        assert sorted(n for n, score in rows if score) == matching[: len(rows)] or len(matching) > len(rows)
        assert rows[0][1] > 0

    def blocks_are_used() -> bool:
        return scanned() < 100

    for rows in (350, 300):
        realtime.produce(rows)
        eventually(realtime.all_there)
        scanned()
        eventually(blocks_are_used)
        scored()
        assert scanned("SET skipIndexes = 's=text'; ") == realtime.sent[0]
    realtime.produce(2050 - realtime.sent[0])
    eventually(realtime.all_there)
    eventually(lambda: "ONLINE" in realtime.segments().values())
    eventually(lambda: scanned() == 50)
    realtime.stop()
    realtime.start()
    eventually(realtime.all_there)
    eventually(lambda: scanned() == 50)
