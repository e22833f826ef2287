"""TEXT_MATCH finds rows as soon as they are consumed: by indexes of blocks, a scan of what follows, and after the commit."""

from collections.abc import Callable
from typing import Any

import pytest

from gamay.segment.mutable import segment as mutable
from gamay.segment.secondary.growing import GrowingIndexes


class _SmallBlocks(GrowingIndexes):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args, block_rows=100)


def test_rows_are_found_while_they_are_consumed(
    make_realtime: Callable[..., Any], eventually: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutable, "GrowingIndexes", _SmallBlocks)
    realtime = make_realtime(start=False)
    realtime.table["tableIndexConfig"] = {"noDictionaryColumns": ["s"]}
    realtime.table["fieldConfigList"] = [{"name": "s", "encodingType": "RAW", "indexes": {"text": {}}}]
    realtime.start()
    realtime.create()
    condition = "TEXT_MATCH(s, 'V3 OR v5')"

    def answer(options: str = "") -> tuple[int, int]:
        found = realtime.ask(f"{options}SELECT COUNT(*) FROM t WHERE {condition}")
        return found["resultTable"]["rows"][0][0], found["numEntriesScannedInFilter"]

    for rows in (350, 300):
        realtime.produce(rows)
        eventually(realtime.all_there)
        sent = realtime.sent[0]
        expected = sum(n % 7 in (3, 5) for n in range(sent))
        assert answer()[0] == expected
        assert answer("SET skipIndexes = 's=text'; ") == (expected, sent)
        eventually(lambda expected=expected, sent=sent: answer() == (expected, sent % 100))
    realtime.produce(500)
    eventually(realtime.all_there)
    eventually(lambda: "ONLINE" in realtime.segments().values())
    expected = sum(n % 7 in (3, 5) for n in range(1150))
    eventually(lambda: answer() == (expected, 50))
    realtime.stop()
    realtime.start()
    eventually(realtime.all_there)
    eventually(lambda: answer() == (expected, 50))
