"""Secondary indexes of tables: built on load, changed with the config, and without effect on answers."""

import json
import logging
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.waiting import PATIENCE_S, eventually

import gamay
from gamay.server.loading.loader import SegmentLoader

WORDS = ("express", "Deposit", "quick", "BROWN", "fox", "naïve", "ſtraße")
FST = {"fieldConfigList": [{"name": "s", "indexes": {"fst": {}}}]}


def texts(count: int, seed: int = 1) -> list[str]:
    rng = random.Random(seed)
    return [f"{rng.choice(WORDS)}/{rng.randrange(3000):04}/{rng.choice(WORDS)}" for _ in range(count)]


def conditions(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        word, number = rng.choice(WORDS), f"{rng.randrange(3000):04}"
        part = rng.choice([word, number, f"{word}%{number}", f"{number}_{word[:3]}", word[1:4].swapcase()])
        pattern = rng.choice(
            [word, number, f"{number}/.*{word[:4]}", f"^{word}.*{number[:3]}", f"(a|{number})", f"{number}$"]
        )
        option = rng.choice(["", ", 'i'"])
        leaf = rng.choice([f"s LIKE '%{part}%'", f"REGEXP_LIKE(s, '{pattern}'{option})", f"s NOT LIKE '%{part}%'"])
        found.append(rng.choice([leaf, f"NOT ({leaf})", f"{leaf} AND n < 1000", f"{leaf} OR n = 7"]))
    return found


@pytest.mark.parametrize("null_handling", [True, False])
def test_answers_are_those_of_scans(tmp_path: Path, null_handling: bool) -> None:
    values: list[Any] = texts(4000)
    values[::7] = [None] * len(values[::7])
    rows = pd.DataFrame({"s": values, "n": range(4000)})
    with gamay.connect(tmp_path / "db") as db:
        db.create_table("t", rows, config=FST)
        for condition in conditions(60, seed=2):
            text = f"SELECT n FROM t WHERE {condition} ORDER BY n LIMIT 10000"
            indexed = db.sql(text, enableNullHandling=null_handling)
            scanned = db.sql(text, enableNullHandling=null_handling, skipIndexes="s=fst")
            assert indexed.rows() == scanned.rows(), condition
    with gamay.connect(tmp_path / "db") as db:  # after a restart
        text = "SELECT COUNT(*) FROM t WHERE s LIKE '%/0123/%'"
        assert db.sql(text).rows() == db.sql(text, skipIndexes="s=fst").rows()


def test_options_name_indexes_that_there_are(tmp_path: Path) -> None:
    with gamay.connect(tmp_path / "db") as db:
        db.create_table("t", pd.DataFrame({"s": ["a"], "n": [1]}))
        with pytest.raises(gamay.QueryError, match=r"skipIndexes must be of the form column=kind.*not 's=nonsense'"):
            db.sql("SELECT COUNT(*) FROM t WHERE s LIKE '%a%'", skipIndexes="s=nonsense")


def test_skipped_indexes_are_not_used(tmp_path: Path) -> None:
    with gamay.connect(tmp_path / "db") as db:
        indexing = {"invertedIndexColumns": ["s"], "rangeIndexColumns": ["n"], "noDictionaryColumns": ["n"]}
        rows = pd.DataFrame({"s": texts(5000), "n": random.Random(3).sample(range(5000), 5000)})
        db.create_table("t", rows, config={"tableIndexConfig": indexing})
        for condition, kind in ((f"s = '{rows['s'][0]}'", "inverted"), ("n < 10", "range")):
            text = f"SELECT COUNT(*) FROM t WHERE {condition}"
            plans = [
                " ".join(row[0] for row in db.sql(f"{options}EXPLAIN PLAN FOR {text}").rows())
                for options in ("", f"SET skipIndexes = 's={kind}&n={kind}'; ")
            ]
            assert f"{kind}_index" in plans[0], plans
            assert "FULL_SCAN" in plans[1], plans
            assert db.sql(text).rows() == db.sql(text, skipIndexes=f"s={kind}&n={kind}").rows()


def test_indexes_follow_the_config_and_answers_stay(
    trips: Any, make_segment: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        trips.push(make_segment(name, list(range(500))))
    text = "SELECT COUNT(*) FROM trips WHERE city LIKE '%oma%'"
    expected = trips.rows(text)
    table = trips.controller.get("/tables/trips").json()["OFFLINE"]
    stale = "/segments/trips_OFFLINE/needReload"
    for declared in ([{"name": "city", "indexTypes": ["FST"]}], [{"name": "city", "indexes": {"ifst": {}}}], []):
        table["fieldConfigList"] = declared
        assert "warnings" not in trips.controller.put("/tables/trips", json=table).json()
        assert trips.controller.get(stale).json()["needReload"]
        assert trips.rows(text) == expected
        trips.controller.post("/segments/trips/reload")
        eventually(lambda: not trips.controller.get(stale).json()["needReload"])
        assert trips.rows(text) == expected
        shown = trips.server.get("/tables/trips_OFFLINE/segments/a/metadata", params={"columns": "city"}).json()
        assert shown["indexes"]["city"]["fst-index"] == ("YES" if declared else "NO")
        assert bool({"fst", "ifst"} & shown["columns"][0]["indexSizeMap"].keys()) == bool(declared)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_damaged_indexes_are_built_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = pd.DataFrame({"s": texts(4000), "n": range(4000)})
    text = "SELECT COUNT(*) FROM t WHERE s LIKE '%/0123/%'"
    with gamay.connect(tmp_path / "db") as db:
        db.create_table("t", rows, config=FST)
        expected = db.sql(text).rows()
    for name in ("indexes.json", "index.bin"):
        (damaged,) = (tmp_path / "db").rglob(name)
        sound = damaged.read_bytes()
        damaged.write_bytes(sound[: len(sound) // 2] + bytes([sound[len(sound) // 2] ^ 0x55]) + sound[len(sound) // 2 + 1 :])
        caplog.clear()
        with gamay.connect(tmp_path / "db") as db:
            assert db.sql(text).rows() == expected
        assert "not used" in caplog.text
        (again,) = (tmp_path / "db").rglob("index.bin")
        assert name != "index.bin" or again.read_bytes() == sound


def test_a_hundred_segments_are_reloaded_beside_queries_and_pushes(
    trips: Any, make_segment: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        trips.push(make_segment(f"s{number:03}", list(range(10))), wait=number == 99)
    text = "SELECT COUNT(*), SUM(n) FROM trips WHERE city LIKE '%oma%'"
    eventually(lambda: trips.rows("SELECT COUNT(*) FROM trips") == [[1000]])
    expected = trips.rows(text)
    may_go_on, held = threading.Event(), threading.Event()

    def slow(self: Any, *arguments: Any, **options: Any) -> Any:
        if held.is_set():
            assert may_go_on.wait(PATIENCE_S)
        return load(self, *arguments, **options)

    load = SegmentLoader.load
    monkeypatch.setattr(SegmentLoader, "load", slow)
    table = trips.controller.get("/tables/trips").json()["OFFLINE"]
    table["fieldConfigList"] = [{"name": "city", "indexes": {"fst": {}, "inverted": {}}}]
    trips.controller.put("/tables/trips", json=table)
    told = trips.controller.post("/segments/trips/reload").json()["status"]
    (job,) = (entry["reloadJobId"] for entry in json.loads(told).values())

    def progress() -> int:
        return int(trips.controller.get(f"/segments/segmentReloadStatus/{job}").json()["successCount"])

    eventually(lambda: progress() > 0)
    held.set()
    before = progress()
    assert before < 100
    for _ in range(20):
        assert trips.rows(text) == expected
    may_go_on.set()
    archive = make_segment("late", list(range(10)))
    trips.push(archive, wait=True)  # returns once the segment can be queried
    late = trips.rows(text)
    assert late[0][0] == expected[0][0] * 101 // 100
    while progress() < 100:
        assert trips.rows(text) == late
    assert trips.rows(text) == late
    shown = trips.server.get("/tables/trips_OFFLINE/indexes").json()["columnToIndexesCount"]["city"]
    eventually(lambda: not trips.controller.get("/segments/trips_OFFLINE/needReload").json()["needReload"])
    assert (shown["fst-index"], shown["inverted-index"]) == (101, 101)
