"""Metrics aggregated during consumption have, in each row, the value of the column they aggregate."""

import pyarrow as pa
import pytest

from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType, FieldRole

SCHEMA = Schema(
    "t",
    (
        FieldSpec("s", DataType.STRING),
        *(FieldSpec(name, DataType.DOUBLE, FieldRole.METRIC) for name in ("price", "most")),
        FieldSpec("n", DataType.LONG, FieldRole.METRIC),
    ),
)


@pytest.mark.parametrize(("kind", "most"), [("REALTIME", [1.0, 2.0, None]), ("OFFLINE", [9.0, 9.0, 9.0])])
def test_values_come_from_the_source_column(kind, most):
    functions = {"price": "SUM(price)", "most": 'MAX("price")', "n": "COUNT(*)"}
    document = TableConfig.offline("t").to_json() | {"tableType": kind, "tableName": "t"}
    document["ingestionConfig"] = {
        "aggregationConfigs": [{"columnName": n, "aggregationFunction": f} for n, f in functions.items()]
    }
    pipeline = Pipeline(SCHEMA, TableConfig.from_json(document).value)
    rows = pipeline.apply(pa.RecordBatch.from_pydict({"s": ["a"] * 3, "price": [1, 2, None], "most": [9, 9, 9]}))
    assert rows["price"].to_pylist() == [1.0, 2.0, None]
    assert rows["most"].to_pylist() == most
    assert rows["n"].to_pylist() == [None] * 3
