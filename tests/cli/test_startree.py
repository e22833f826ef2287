"""`gamay startree advise`: the trees recommended for the queries of a file or a log answer these queries."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import gamay
from gamay.broker.answer.query_log import line
from gamay.cli.app import app
from gamay.query.answer.response import BrokerResponse

QUERIES = """
SELECT city, SUM(n), COUNT(*) FROM t WHERE k = 3 GROUP BY city;
SELECT AVG(n) FROM t WHERE city IN ('c1', 'é');
SELECT DISTINCT k FROM t WHERE city = 'c1';
SELECT SUM(n) FROM t WHERE id = 7;
SELECT city FROM t LIMIT 3;
SELECT nothing FROM t;
SELECT MODE(n) FROM t WHERE k = 1;
SELECT SUM(n) FROM t WHERE textScore(city, 'é') > 0;
"""
HELPED = [text for text in QUERIES.strip().split(";\n") if "SELECT city, " in text or "AVG" in text or "DISTINCT" in text]


def rows() -> pd.DataFrame:
    count = 30_000
    return pd.DataFrame(
        {
            "city": [f"c{i % 7}" if i % 5 else "é" for i in range(count)],
            "k": [i % 4 for i in range(count)],
            "n": [i % 97 for i in range(count)],
            "id": range(count),
        }
    )


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    with gamay.connect(tmp_path / "db") as db:
        db.create_table("t", rows())
    return next((tmp_path / "db").rglob("metadata.json")).parent


def advised(*arguments: str) -> tuple[Any, str]:
    """Return the config that is printed, and everything that is."""
    result = CliRunner().invoke(app, ["startree", "advise", *arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.output[result.output.index("{") : result.output.index("\n}\n") + 2]), result.output


def test_advised_trees_answer_the_queries(segment: Path, tmp_path: Path) -> None:
    file = tmp_path / "queries.sql"
    file.write_text(QUERIES, encoding="utf-8")
    config, said = advised(str(segment), str(file))
    (tree,) = config["starTreeIndexConfigs"]
    assert tree["dimensionsSplitOrder"] == ["city", "k"]
    assert tree["functionColumnPairs"] == ["COUNT__*", "AVG__n", "SUM__n"]
    for reason in (
        "'id' has 30,000 values, too many for a dimension", "it selects rows", "Unknown columnName 'nothing'",
        "a star-tree cannot keep mode(n)", "scores of texts are computed from rows",
    ):  # fmt: skip
        assert f"no tree helps: {reason}" in said
    assert len(re.findall(r"\n(?:SELECT .*?) +\d+ +\d+ ", said)) == len(HELPED) == 3
    assert not (segment / "startree.json").exists()
    with gamay.connect(tmp_path / "advised") as db:
        db.create_table("t", rows(), config={"tableIndexConfig": config})
        for text in HELPED:
            assert "FILTER_STARTREE_INDEX" in str(db.sql(f"EXPLAIN PLAN FOR {text}").rows()), text
            assert db.sql(text).rows() == db.sql(text, useStarTree=False).rows()


def test_queries_come_from_the_log_of_a_broker(segment: Path, tmp_path: Path) -> None:
    text = "SELECT SUM(n) FROM t WHERE city = 'é' AND \"k\" = 1"
    response = BrokerResponse(request_id="7")
    file = tmp_path / "broker.log"
    file.write_text(f"2026-01-01 INFO slow {line(text, 't', response)}\nother line\n", encoding="utf-8")
    config, _ = advised(str(segment), str(file))
    assert [tree["dimensionsSplitOrder"] for tree in config["starTreeIndexConfigs"]] == [["k", "city"]]


def test_files_without_queries_are_refused(segment: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    empty = tmp_path / "empty.sql"
    empty.write_text(" ;\n")
    assert "has no query; end each with a semicolon" in refused(str(segment), str(empty))
    assert "does not exist; give a file of queries" in refused(str(segment), str(tmp_path / "none.sql"))


@pytest.fixture
def refused() -> Callable[..., str]:
    def run(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["startree", "advise", *arguments])
        assert result.exception is not None
        return str(result.exception)

    return run
