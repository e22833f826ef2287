"""Uses the additions of the pages of docs/extend, through the public interfaces.

Run with a copy of src that has it on the path, and a folder to work in.
"""

import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

import gamay
from gamay.embedded import EmbeddedCluster

ROWS = {"s": [chr(97 + i % 26) * (i % 90 + 1) for i in range(3000)], "x": [float(i % 7) for i in range(3000)]}


def use_functions(folder: Path) -> None:
    with gamay.connect(folder) as db:
        db.create_table("t", ROWS)
        assert db.sql("SELECT commonPrefixLength('gamay', 'game') FROM t LIMIT 1").rows() == [(3,)]
        squares = [value * value for value in ROWS["x"] if isinstance(value, float)]
        ((found,),) = db.sql("SELECT ROOT_MEAN_SQUARE(x) FROM t").rows()
        assert abs(found - (sum(squares) / len(squares)) ** 0.5) < 1e-9


def use_lengths(folder: Path, broken: str | None = None) -> None:
    """Use the index type of the page. broken: a kind that cannot be loaded."""
    with gamay.connect(folder) as db:
        db.create_table("l", ROWS, config=indexed_by("length"))
        text = "SELECT COUNT(*) FROM l WHERE length(s) = 17"
        plan = " ".join(row[0] for row in db.sql(f"EXPLAIN PLAN FOR {text}").rows())
        assert "FILTER_LENGTH_INDEX" in plan, plan
        expected = sum(len(s) == 17 for s in ROWS["s"] if isinstance(s, str))
        assert db.sql(text).rows() == db.sql(text, skipIndexes="s=length").rows() == [(expected,)]
        if broken is not None:
            with pytest.raises(gamay.InvalidConfigError, match=f"the index type '{broken}' cannot be loaded from"):
                db.create_table("b", ROWS, config=indexed_by(broken))
            assert db.tables() == ["l"]


def indexed_by(kind: str) -> dict[str, Any]:
    return {"fieldConfigList": [{"name": "s", "indexes": {kind: {}}}]}


def use_calls_and_tasks(folder: Path) -> None:
    cluster = EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False).start()
    try:
        with httpx.Client(base_url=cluster.controller_url, timeout=30) as controller:
            _use_calls_and_tasks(controller)
    finally:
        cluster.stop()


def _use_calls_and_tasks(controller: httpx.Client) -> None:
    def ask(method: str, path: str, **more: Any) -> Any:
        answer = controller.request(method, path, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    tasks = {"taskTypeConfigsMap": {"SegmentReportTask": {"minRows": "1"}}}
    config = gamay_table("t", task=tasks)
    schema = {"schemaName": "t", "dimensionFieldSpecs": [{"name": "s", "dataType": "STRING"}]}
    ask("POST", "/schemas", json=schema)
    assert "warnings" not in ask("POST", "/tables", json=config)
    ask(
        "POST",
        "/ingestFromFile",
        params={"tableNameWithType": "t_OFFLINE", "batchConfigMapStr": '{"inputFormat": "csv"}'},
        files={"file": ("rows.csv", b"s\na\nb\n")},
    )
    assert ask("GET", "/tables/t/segmentCount") == {"t_OFFLINE": 1}
    until(lambda: all(size > 0 for size in ask("GET", "/tables/t/bytesByServer")["t_OFFLINE"].values()))
    job = ask("POST", "/tasks/schedule", params={"taskType": "SegmentReportTask"})["SegmentReportTask"]
    until(lambda: ask("GET", f"/tasks/task/{job}/state") == "COMPLETED")
    assert "has 2 rows" in str(ask("GET", f"/tasks/subtask/{job}/progress"))


def gamay_table(name: str, **more: Any) -> dict[str, Any]:
    segments = {"replication": "1"}
    return {
        "tableName": name,
        "tableType": "OFFLINE",
        "segmentsConfig": segments,
        "tableIndexConfig": {},
        "tenants": {},
        **more,
    }


def until(holds: Any) -> None:
    for _ in range(300):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError("it does not come to pass within 30 s")


if __name__ == "__main__":
    use_functions(Path(sys.argv[1]) / "db")
    use_lengths(Path(sys.argv[1]) / "db")
    use_calls_and_tasks(Path(sys.argv[1]) / "cluster")
