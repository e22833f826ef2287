"""ORDER BY of few rows among many, over raw texts and several keys, against DuckDB."""

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import gamay

ROWS = 600_000


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return (db, DuckDB connection) with 600,000 documents, whose names and numbers repeat."""
    rng = np.random.default_rng(5)
    names, numbers = rng.integers(0, 40_000, ROWS).tolist(), rng.integers(0, 9, ROWS).tolist()
    docs = [f'{{"name":"user {name}","list":[{{"n":"A-{number}"}}]}}' for name, number in zip(names, numbers, strict=True)]
    rows = pa.table({"doc": docs, "k": rng.integers(0, 100, ROWS).astype(np.int32), "id": np.arange(ROWS)})
    schema = {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "doc", "dataType": "JSON"}, {"name": "k", "dataType": "INT"}],
        "metricFieldSpecs": [{"name": "id", "dataType": "LONG"}],
    }
    config = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {},
        "tenants": {},
        "tableIndexConfig": {"noDictionaryColumns": ["doc", "id"]},
    }
    folder: Path = tmp_path_factory.mktemp("sparse")
    peer = duckdb.connect()
    peer.register("t", rows)
    with gamay.connect(folder, threads=2) as db:
        db.create_table("t", rows, schema=schema, config=config)
        yield db, peer


@pytest.mark.parametrize("where", ["k = 7", "k IN (3, 50)", "k < 40", "k >= 0", "k = 7 AND id > 550000", "k = 100"])
@pytest.mark.parametrize("order", ["name, n, id", "name DESC, n, id DESC", "n, name, id", "name, id", "id DESC"])
@pytest.mark.parametrize("limit", [3, 700])
def test_first_rows_of_documents_are_those_of_duckdb(tables: Any, where: str, order: str, limit: int) -> None:
    db, peer = tables
    tail = f"FROM t WHERE {where} ORDER BY {order} LIMIT {limit}"
    name, n = "jsonExtractScalar(doc, '$.name', 'STRING')", "jsonExtractScalar(doc, '$.list[0].n', 'STRING')"
    ours = db.sql(f"SELECT {name} AS name, {n} AS n, id {tail}").rows()
    theirs = peer.sql(
        f"SELECT json_extract_string(doc, '$.name') AS name, json_extract_string(doc, '$.list[0].n') AS n, id {tail}"
    ).fetchall()
    assert ours == theirs


def test_groups_of_few_documents_are_those_of_duckdb(tables: Any) -> None:
    db, peer = tables
    tail = "FROM t WHERE k = 7 GROUP BY n ORDER BY n LIMIT 100"
    ours = db.sql(f"SELECT jsonExtractScalar(doc, '$.list[0].n', 'STRING') AS n, COUNT(*), SUM(id) {tail}").rows()
    theirs = peer.sql(f"SELECT json_extract_string(doc, '$.list[0].n') AS n, COUNT(*), SUM(id) {tail}").fetchall()
    assert [(n, count, float(total)) for n, count, total in theirs] == ours


def test_rows_of_several_segments_are_put_together_in_more_than_one_block(tmp_path: Path) -> None:
    docs, ids = [f'{{"n":{i % 7}}}' for i in range(2500)], np.arange(2500)
    parts = [pa.table({"doc": docs, "k": ids % 5, "id": ids + part}) for part in range(4)]
    schema = {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "doc", "dataType": "JSON"}, {"name": "k", "dataType": "LONG"}],
        "metricFieldSpecs": [{"name": "id", "dataType": "LONG"}],
    }
    index = {"noDictionaryColumns": ["doc", "id"], "invertedIndexColumns": ["k"]}
    config = {"tableName": "t", "tableType": "OFFLINE", "segmentsConfig": {}, "tenants": {}, "tableIndexConfig": index}
    rows = pa.concat_tables(parts)  # noqa: F841 - DuckDB reads it by its name
    tail = "WHERE k IN (1, 2, 3) GROUP BY n ORDER BY n LIMIT 10"
    with gamay.connect(tmp_path, threads=2) as db:
        db.create_table("t", parts[0], schema=schema, config=config)
        for part in parts[1:]:
            db.append("t", part)
        ours = db.sql(f"SELECT jsonExtractScalar(doc, '$.n', 'INT') AS n, COUNT(*), SUM(id * 2) FROM t {tail}").rows()
    theirs = duckdb.sql(
        f"SELECT CAST(doc->>'n' AS INT) AS n, COUNT(*), CAST(SUM(id * 2) AS DOUBLE) FROM rows {tail}"
    ).fetchall()
    assert ours == theirs
