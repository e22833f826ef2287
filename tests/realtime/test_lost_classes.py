"""Classes named by a table config: refused if they cannot be loaded, and missing after the table was created."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.realtime.conftest import SCHEMA, Realtime
from tests.waiting import PATIENCE_S

MERGER = """
class Longest:
    def __init__(self, keys, comparison, config):
        pass

    def merge(self, previous, new):
        return {"n": max(previous["n"], new["n"])}


class Silent:
    def __init__(self, keys, comparison, config):
        pass


class Strange:
    def __init__(self, keys):
        pass
"""


@pytest.fixture
def mergers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the import path that has the module `their_mergers`."""
    folder = tmp_path / "classes"
    folder.mkdir()
    (folder / "their_mergers.py").write_text(MERGER)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "their_mergers", raising=False)
    return folder


def _partial(realtime: Realtime, merger: str) -> dict[str, Any]:
    realtime.table |= {
        "routing": {"instanceSelectorType": "strictReplicaGroup"},
        "tableIndexConfig": {"nullHandlingEnabled": True},
        "upsertConfig": {"mode": "PARTIAL", "partialUpsertMergerClass": merger},
    }
    return realtime.table


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("no.such.Class", "cannot be imported"),
        ("their_mergers.Absent", "cannot be imported"),
        ("their_mergers.Silent", "has no method merge"),
        ("their_mergers.Strange", "cannot be made"),
        ("their_mergers.__name__", "is no class"),
    ],
)
def test_a_merger_class_that_cannot_merge_is_refused(
    make_realtime: Callable[..., Realtime], mergers: Path, path: str, reason: str
) -> None:
    realtime = make_realtime(start=False)
    realtime.start()
    realtime.rest("POST", "/schemas", json=SCHEMA | {"primaryKeyColumns": ["s"]})
    assert realtime.cluster is not None
    for call in ("/tables/validate", "/tables"):
        answer = httpx.post(realtime.cluster.controller_url + call, json=_partial(realtime, path), timeout=PATIENCE_S)
        assert answer.status_code == 400, answer.text
        assert f"partialUpsertMergerClass is '{path}'" in answer.text
        assert reason in answer.text
    realtime.rest("POST", "/tables", json=_partial(realtime, "their_mergers.Longest"))
    answer = httpx.put(
        realtime.cluster.controller_url + "/tables/t", params={"force": "true"}, json=_partial(realtime, path), timeout=60
    )
    assert answer.status_code == 400, answer.text


def test_a_table_whose_merger_class_is_lost_stays_queryable(
    make_realtime: Callable[..., Realtime], eventually: Callable[..., None], mergers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    realtime = make_realtime(segment_rows=100, start=False)
    realtime.start()
    realtime.rest("POST", "/schemas", json=SCHEMA | {"primaryKeyColumns": ["s"]})
    realtime.rest("POST", "/tables", json=_partial(realtime, "their_mergers.Longest"))
    realtime.produce(100)
    sealed = "SELECT COUNT(*), MAX(n) FROM t"
    eventually(lambda: list(realtime.segments().values()) == ["ONLINE", "CONSUMING"])
    eventually(lambda: realtime.ask(sealed).get("resultTable", {}).get("rows") == [[7, 99]])
    realtime.stop()

    (mergers / "their_mergers.py").rename(mergers / "elsewhere.py")
    monkeypatch.delitem(sys.modules, "their_mergers")
    realtime.start()
    realtime.produce(10)

    # the servers report the reason, and have notified the controller that they stopped
    eventually(lambda: "cannot be imported" in str(realtime.rest("GET", "/tables/t_REALTIME/realtimeStatus")))
    eventually(lambda: "OFFLINE" in realtime.segments().values())
    assert realtime.rest("GET", "/tables/t/status?type=REALTIME")["ingestionStatus"]["ingestionState"] == "UNHEALTHY"
    answer = realtime.ask(sealed)
    assert answer["exceptions"] == []
    assert answer["resultTable"]["rows"] == [[7, 99]]

    (mergers / "elsewhere.py").rename(mergers / "their_mergers.py")
    realtime.rest("GET", "/periodictask/run", params={"taskname": "RealtimeSegmentValidationManager"})
    eventually(lambda: realtime.ask(sealed)["resultTable"]["rows"] == [[7, 109]])
