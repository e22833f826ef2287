"""`gamay index advise`: the indexes recommended for the queries of a file save as much as predicted."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import gamay
from gamay.cli.app import app

QUERIES = """
SELECT SUM(n) FROM t WHERE city = 'c3';
SELECT COUNT(*) FROM t WHERE n BETWEEN 10 AND 12 AND k <> 3;
SELECT COUNT(*) FROM t WHERE url LIKE '%/07b%/end';
SELECT COUNT(*) FROM t WHERE id = 7;
SELECT city, COUNT(*) FROM t GROUP BY city;
SELECT nothing FROM t;
"""


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    count = 30_000
    return pd.DataFrame(
        {
            "city": [f"c{i % 700}" for i in range(count)],
            "k": [i % 4 for i in range(count)],
            "n": [i * 7919 % 9973 for i in range(count)],
            "id": range(count),
            "url": [f"http://example.com/{i:05x}/end" for i in range(count)],
        }
    )


@pytest.fixture(scope="module")
def folder(rows: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("advise")
    with gamay.connect(data / "db") as db:
        db.create_table("t", rows)
    return data


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["index", "advise", *arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_advised_indexes_save_what_is_read(rows: pd.DataFrame, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "queries.sql"
    file.write_text(QUERIES)
    segment = next((folder / "db").rglob("metadata.json")).parent
    before = sorted(path.name for path in segment.rglob("*"))
    said = run(str(segment), str(file))
    config: Any = json.loads(said[said.index("{") : said.index("\n}\n") + 2])
    found = {entry["name"]: set(entry["indexes"]) for entry in config["fieldConfigList"]}
    assert {"city": {"inverted"}, "n": {"range"}}.items() <= found.items()
    assert "id" not in found  # rows are in its order already
    assert "no condition that an index could answer: SELECT city, COUNT(*)" in said
    assert "not a query of this table: Unknown columnName 'nothing'" in said
    assert sorted(path.name for path in segment.rglob("*")) == before
    with gamay.connect(tmp_path / "advised") as db, gamay.connect(folder / "db") as plain:
        db.create_table("t", rows, config=config)
        for text in QUERIES.split(";\n")[:4]:
            assert db.sql(text).rows() == plain.sql(text).rows(), text
        text = QUERIES.split(";\n")[0]
        read = [one.sql(text).stats.num_entries_scanned_in_filter for one in (db, plain)]
        assert read == [0, len(rows)]


def test_nothing_is_advised_where_nothing_helps(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "queries.sql"
    file.write_text("SELECT COUNT(*) FROM t WHERE k >= 0;\n")
    said = run(str(next((folder / "db").rglob("metadata.json")).parent), str(file))
    assert "fieldConfigList" not in said
    assert "no index helps: none saves enough: SELECT COUNT(*) FROM t WHERE k >= 0" in said


def test_columns_that_are_selective_together_alone_get_one_index(rows: pd.DataFrame, folder: Path, tmp_path: Path) -> None:
    queries = [
        "SELECT SUM(n) FROM t WHERE a = 3 AND b IN ('b4', 'b5');",
        "SELECT SUM(n) FILTER (WHERE b = 'b7') FROM t WHERE a = 1;",
        "SELECT SUM(n) FROM t WHERE city = 'c3' AND k = 2;",  # the city alone does
        "SELECT SUM(n) FROM t WHERE k = 1 AND half = 1;",  # both together do not
        "SELECT SUM(n) FROM t WHERE b = 'b5' AND NOT (a = 2 AND b = 'b3');",
    ]
    file = tmp_path / "queries.sql"
    file.write_text("\n".join(queries))
    number = np.arange(len(rows))
    wider = rows.assign(a=number % 41, b=[f"b{i}" for i in number // 41 % 37], half=number % 2)
    with gamay.connect(tmp_path / "db") as db:
        db.create_table("t", wider)
    segment = next((tmp_path / "db").rglob("metadata.json")).parent
    said = run(str(segment), str(file))
    config: Any = json.loads(said[said.index("{") : said.index("\n}\n") + 2])
    assert config["tableIndexConfig"] == {"compoundInvertedIndexConfigs": [{"columns": ["a", "b"]}]}
    of_columns = {entry["name"]: [*entry["indexes"]] for entry in config["fieldConfigList"]}
    assert of_columns == {"city": ["inverted"], "b": ["inverted"]}  # the last query asks for b outside of the conjunction
    (line,) = [line for line in said.splitlines() if "compound_inverted" in line and "yes" in line]
    assert "a, b" in line
    with gamay.connect(tmp_path / "advised") as db, gamay.connect(tmp_path / "db") as plain:
        db.create_table("t", wider, config=config)
        for text in queries:
            assert db.sql(text).rows() == plain.sql(text).rows(), text
        read = [one.sql(queries[0]).stats.num_entries_scanned_in_filter for one in (db, plain)]
        assert (read[0], read[1] > 0) == (0, True)
        present = next((tmp_path / "advised").rglob("metadata.json")).parent
    assert "compound_inverted" not in run(str(present), str(file))  # it has one
