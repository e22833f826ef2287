"""Short constructors of schemas and table configs."""

import pytest

from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig


@pytest.fixture
def schema():
    """Make a schema: `schema(a="INT", b="STRING[]", c="metric LONG", d={whole spec})`."""

    def make(**columns):
        lists = {"dimensionFieldSpecs": [], "metricFieldSpecs": [], "dateTimeFieldSpecs": []}
        for name, given in columns.items():
            spec = given if isinstance(given, dict) else {"dataType": given.removeprefix("metric ").removesuffix("[]")}
            spec = {"name": name, **spec}
            if isinstance(given, str) and given.endswith("[]"):
                spec["singleValueField"] = False
            if "format" in spec:
                lists["dateTimeFieldSpecs"].append({"granularity": "1:MILLISECONDS", **spec})
            elif isinstance(given, str) and given.startswith("metric "):
                lists["metricFieldSpecs"].append(spec)
            else:
                lists["dimensionFieldSpecs"].append(spec)
        return Schema.from_json({"schemaName": "t", **lists}).value

    return make


@pytest.fixture
def table():
    """Make a table config from its ingestionConfig: `table(transformConfigs=[…], time_column="ts")`."""

    def make(time_column=None, **ingestion):
        document = TableConfig.offline("t").to_json()
        document["ingestionConfig"] = ingestion
        if time_column:
            document["segmentsConfig"]["timeColumnName"] = time_column
        parsed = TableConfig.from_json(document)
        assert not parsed.unrecognized
        return parsed.value

    return make
