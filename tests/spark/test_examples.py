"""The examples of the repository work as documented."""

import json
from pathlib import Path

import duckdb
import pytest

from gamay.ingest.job.spec import load_job_spec
from gamay.ingest.read.readers import open_reader
from gamay.ingest.run import conformed_batches
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.rules.validation import validate_schema, validate_table_config
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig

AIRLINE = Path(__file__).parents[2] / "examples" / "airline"


@pytest.fixture
def documents():
    schema = Schema.from_json(json.loads((AIRLINE / "schema.json").read_text()))
    table = TableConfig.from_json(json.loads((AIRLINE / "table.json").read_text()))
    assert not schema.unrecognized
    assert not table.unrecognized
    return schema.value, table.value


def test_documents_are_valid(documents):
    validate_schema(documents[0])
    validate_table_config(documents[1], documents[0])
    assert load_job_spec(AIRLINE / "job.yaml").push_mode == "tar"


def test_rows(documents):
    rows = []
    for file in sorted((AIRLINE / "rawdata").glob("*.csv")):
        for batch in conformed_batches(open_reader(str(file), "csv"), Pipeline(*documents)):
            rows += [
                (r["DaysSinceEpoch"], r["Route"], r["DivAirports"], r["DepDelay"], r["Cancelled"]) for r in batch.to_pylist()
            ]
    query = f"""SELECT DaysSinceEpoch, Origin || '-' || Dest, string_split(DivAirports, ';'), DepDelay, Cancelled
                FROM read_csv('{AIRLINE}/rawdata/*.csv')"""
    assert sorted(map(str, rows)) == sorted(map(str, duckdb.sql(query).fetchall()))
    assert len(rows) == 900
