"""Star-trees of tables: built on load, displayed, changed with the config, rebuilt when damaged."""

import logging
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.waiting import eventually
from typer.testing import CliRunner

import gamay
from gamay.base.clock import SYSTEM_CLOCK
from gamay.cli.app import app
from gamay.embedded.database import Database
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.query.startree.build import add_star_trees
from gamay.segment.describe import describe
from gamay.storage.archive import pack

TREE = {"dimensionsSplitOrder": ["city", "k"], "functionColumnPairs": ["SUM__n"], "maxLeafRecords": 1, "maxSizeRatio": 100}
BY_CITY = "SELECT city, COUNT(*), SUM(n) FROM t WHERE k < 3 GROUP BY city ORDER BY city"
SKETCHES = (
    "DISTINCTCOUNTBITMAP", "DISTINCTCOUNTHLL", "DISTINCTCOUNTRAWHLL", "DISTINCTCOUNTHLLPLUS", "DISTINCTCOUNTULL",
    "DISTINCTCOUNTTHETASKETCH", "DISTINCTCOUNTCPCSKETCH", "SUMPRECISION", "PERCENTILEEST", "PERCENTILETDIGEST",
    "PERCENTILEKLL",
)  # fmt: skip
APPROXIMATE = ("PERCENTILETDIGEST", "PERCENTILEKLL")


def rows(count: int = 2000, seed: int = 1) -> pd.DataFrame:
    rng = random.Random(seed)
    return pd.DataFrame(
        {
            "city": [f"c{rng.randrange(5)}" for _ in range(count)],
            "k": [rng.randrange(4) for _ in range(count)],
            "n": [rng.randrange(100) for _ in range(count)],
        }
    )


def config(*trees: dict[str, Any]) -> dict[str, Any]:
    return {"tableIndexConfig": {"starTreeIndexConfigs": list(trees)}}


def plan(db: Database, text: str) -> str:
    return " ".join(row[0] for row in db.sql(f"EXPLAIN PLAN FOR {text}").rows())


@pytest.fixture
def db(tmp_path: Path) -> Any:
    with gamay.connect(tmp_path / "db") as opened:
        yield opened


def test_records_are_read_in_place_of_rows_and_explained(db: Database) -> None:
    db.create_table("t", rows(), config=config(TREE))
    found = db.sql(BY_CITY)
    assert found.stats.num_docs_scanned == 15
    assert found.rows() == db.sql(BY_CITY, useStarTree=False).rows()
    assert "FILTER_STARTREE_INDEX(dimensions:[city, k], records:20) FILTER_FULL_SCAN(" in plan(db, BY_CITY)
    for text, reason in (
        ("SELECT MAX(n) FROM t WHERE k = 1", "it does not have max(n)"),
        ("SELECT SUM(n) FROM t WHERE n = 1", "'n' is no dimension of it"),
        ("SELECT city FROM t WHERE k = 1", "rows are selected"),
        ("SELECT COUNT(*) FROM t", "the segment's metadata answers"),
        ("SET useStarTree = false; SELECT SUM(n) FROM t WHERE k = 1", "useStarTree=false"),
    ):
        options, _, query = text.rpartition("; ")
        told = plan(db, query) if not options else str(db.sql(f"{options}; EXPLAIN PLAN FOR {query}").rows())
        assert reason in told, told


@pytest.mark.parametrize("function", SKETCHES)
def test_sketches_are_merged_as_they_are_of_rows(db: Database, function: str) -> None:
    tree = {
        **{key: value for key, value in TREE.items() if key != "functionColumnPairs"},
        "aggregationConfigs": [{"columnName": "n", "aggregationFunction": function}],
    }
    db.create_table("t", rows(), config=config(tree))
    for percentile in (", 90", ", 10") if function.startswith("PERCENTILE") else ("",):
        text = f"SELECT city, {function}(n{percentile}) FROM t WHERE k < 3 GROUP BY city ORDER BY city"
        merged, scanned = db.sql(text), db.sql(text, useStarTree=False)
        assert merged.stats.num_docs_scanned == 15 < scanned.stats.num_docs_scanned
        if function in APPROXIMATE:
            pairs = zip(merged.rows(), scanned.rows(), strict=True)
            assert all(a[0] == b[0] and abs(a[1] - b[1]) <= 6 for a, b in pairs), (merged, scanned)
        else:
            assert merged.rows() == scanned.rows()


def test_values_of_multi_value_columns_are_aggregated(db: Database) -> None:
    rng = random.Random(3)
    listed = rows()[["city", "k"]].to_dict("records")
    listed = [{**row, "tags": [rng.randrange(9) for _ in range(rng.randrange(1, 4))]} for row in listed]
    dimensions = [{"name": "city", "dataType": "STRING"}, {"name": "k", "dataType": "INT"}]
    schema = {"dimensionFieldSpecs": [*dimensions, {"name": "tags", "dataType": "INT", "singleValueField": False}]}
    pairs = ["COUNTMV__tags", "SUMMV__tags", "AVGMV__tags", "DISTINCTCOUNTBITMAP__tags"]
    db.create_table("t", listed, schema, config({**TREE, "functionColumnPairs": pairs}))
    for text, records in (
        ("SELECT city, COUNTMV(tags), SUMMV(tags), AVGMV(tags) FROM t WHERE k < 3 GROUP BY city ORDER BY city", 15),
        ("SELECT COUNTMV(tags), DISTINCTCOUNTBITMAP(tags) FROM t WHERE k = 1", 1),
    ):
        expected = db.sql(text, useStarTree=False).rows()
        for _ in range(2):  # the second one is answered at once
            found = db.sql(text)
            assert found.rows() == expected
            assert found.stats.num_docs_scanned == records
    with pytest.raises(gamay.InvalidConfigError, match="'tags', a multi-value column"):
        db.create_table("u", listed[:1], schema, config({**TREE, "dimensionsSplitOrder": ["tags"]}))


def test_sketches_of_other_parameters_are_made_of_rows(db: Database) -> None:
    tree = {
        **{key: value for key, value in TREE.items() if key != "functionColumnPairs"},
        "aggregationConfigs": [
            {"columnName": "n", "aggregationFunction": "DISTINCTCOUNTHLL", "functionParameters": {"log2m": 10}}
        ],
    }
    db.create_table("t", rows(), config=config(tree))
    for log2m, uses_tree in (("", False), (", 10", True), (", 12", False)):
        text = f"SELECT DISTINCTCOUNTHLL(n{log2m}) FROM t WHERE k = 1"
        assert ("FILTER_STARTREE_INDEX" in plan(db, text)) == uses_tree, text
        assert db.sql(text).rows() == db.sql(text, useStarTree=False).rows()


def test_bounds_of_values_that_may_be_nan_are_read_from_rows(db: Database) -> None:
    tree = {**TREE, "functionColumnPairs": ["MIN__n / k", "MAX__n + k", "SUM__n"]}
    db.create_table("t", rows(), config=config(tree))
    assert "it does not have min(divide(n,k))" in plan(db, "SELECT MIN(n / k) FROM t WHERE k < 2")
    for text in ("SELECT SUM(n) FROM t WHERE k = 1", "SELECT MAX(n + k) FROM t WHERE k = 1"):
        assert "FILTER_STARTREE_INDEX" in plan(db, text)
    for text in ("SELECT MIN(n / k) FROM t WHERE k < 2", "SELECT MAX(n + k) FROM t WHERE k < 2"):
        assert str(db.sql(text).rows()) == str(db.sql(text, useStarTree=False).rows())


def test_trees_of_no_meaning_are_refused(db: Database) -> None:
    for change, reason in (
        ({"functionColumnPairs": ["SUM__city"]}, r"starTreeIndexConfigs\[0\]: Aggregate 'sum' needs numbers"),
        ({"dimensionsSplitOrder": ["split(city, 'c')"]}, "it is no single value"),
        ({"dimensionsSplitOrder": ["lower(k"]}, "neither a column nor an expression"),
    ):
        with pytest.raises(gamay.InvalidConfigError, match=reason):
            db.create_table("t", rows(), config=config({**TREE, **change}))
    assert db.tables() == []


def test_trees_follow_the_config_and_answers_stay(
    trips: Any, make_segment: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    values = list(range(500))
    for name in ("a", "b"):
        trips.push(make_segment(name, values))
    text = "SELECT city, COUNT(*), SUM(n) FROM trips GROUP BY city ORDER BY city"
    expected = trips.rows(text)
    table = trips.controller.get("/tables/trips").json()["OFFLINE"]
    stale = "/segments/trips_OFFLINE/needReload"
    trees: list[dict[str, Any]]
    for trees, scanned in (
        ([{"dimensionsSplitOrder": ["city"], "functionColumnPairs": ["SUM__n"], "maxSizeRatio": 100}], 6),
        ([{"dimensionsSplitOrder": ["city"], "functionColumnPairs": ["MAX__n"], "maxSizeRatio": 100}], 1000),
        ([], 1000),
    ):
        table["tableIndexConfig"]["starTreeIndexConfigs"] = trees
        assert "warnings" not in trips.controller.put("/tables/trips", json=table).json()
        assert trips.controller.get(stale).json()["needReload"]
        assert trips.rows(text) == expected
        trips.controller.post("/segments/trips/reload")
        eventually(lambda: not trips.controller.get(stale).json()["needReload"])
        for _ in range(3):  # what was known of the query's shape does not outlive the segments
            assert trips.query(text)["numDocsScanned"] == scanned
            assert trips.rows(text) == expected
        shown = trips.server.get("/tables/trips_OFFLINE/segments/a/metadata").json()["star-tree-index"]
        assert [tree["dimension-columns"] for tree in shown] == [tree["dimensionsSplitOrder"] for tree in trees]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_trees_that_come_with_an_archive_are_used_as_they_are(trips: Any, make_segment: Callable[..., Path]) -> None:
    table = trips.controller.get("/tables/trips").json()["OFFLINE"]
    tree = {"dimensionsSplitOrder": ["city"], "functionColumnPairs": ["SUM__n"], "maxSizeRatio": 100}
    table["tableIndexConfig"]["starTreeIndexConfigs"] = [tree]
    trips.controller.put("/tables/trips", json=table)
    folder = make_segment("a", list(range(500)), suffix="")
    schema = Schema.from_json(trips.controller.get("/schemas/trips").json()).value
    add_star_trees(folder, schema, TableConfig.from_json(table).value, SYSTEM_CLOCK)
    trips.push(pack(folder, folder.parent / "a.tar.gz"))
    assert trips.query("SELECT city, SUM(n) FROM trips GROUP BY city")["numDocsScanned"] == 3
    pushed = folder / "startree.json"
    copies = [file.read_bytes() for file in trips.data_dir.rglob("startree.json")]
    assert copies
    assert all(copy == pushed.read_bytes() for copy in copies)


def test_trees_are_advised_by_the_largest_segment_of_a_table(
    trips: Any, make_segment: Callable[..., Path], tmp_path: Path
) -> None:
    for name, count in (("a", 10), ("b", 500)):
        trips.push(make_segment(name, list(range(count))))
    queries = tmp_path / "queries.sql"
    queries.write_text("SELECT city, SUM(n) FROM trips GROUP BY city;\n")
    command = ["startree", "advise", "trips", str(queries), "--controller", str(trips.controller.base_url)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, (result.output, result.exception)
    assert "by segment b of 500 rows" in result.output
    assert '"dimensionsSplitOrder": [\n        "city"\n      ]' in result.output


def test_damaged_trees_are_rebuilt_and_never_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with gamay.connect(tmp_path / "db") as db:
        db.create_table("t", rows(), config=config(TREE))
        expected = db.sql(BY_CITY).rows()
    for file in ("startree.bin", "startree.json"):
        (damaged,) = (tmp_path / "db").rglob(file)
        assert "star-tree of" in describe(damaged.parent)
        content = bytearray(damaged.read_bytes())
        content[len(content) // 2] ^= 0x55
        damaged.write_bytes(content)
        caplog.clear()
        with gamay.connect(tmp_path / "db") as db:
            found = db.sql(BY_CITY)
            assert found.rows() == expected
            assert found.stats.num_docs_scanned == 15
        assert "are built again" in caplog.text, caplog.text


def test_default_trees(db: Database) -> None:
    schema = {
        "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}, {"name": "k", "dataType": "INT"}],
        "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}],
    }
    settings = {"tableIndexConfig": {"enableDefaultStarTree": True}}
    db.create_table("t", rows()[["city", "k", "n"]], schema, settings)
    found = db.sql(BY_CITY)
    assert found.stats.num_docs_scanned == 15
    assert found.rows() == db.sql(BY_CITY, useStarTree=False).rows()
