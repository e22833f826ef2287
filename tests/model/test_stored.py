"""Stored documents are parsed once."""

import pytest

from gamay.base.errors import InvalidConfigError
from gamay.model.schema.schema import Schema
from gamay.model.table.stored import stored_schema, stored_table_config
from gamay.model.table.table_config import TableConfig

CONFIG = {
    "tableName": "kept", "tableType": "OFFLINE", "segmentsConfig": {"replication": "1"}, "tenants": {},
    "tableIndexConfig": {}, "metadata": {},
}  # fmt: skip
SCHEMA = {"schemaName": "kept", "dimensionFieldSpecs": [{"name": "a", "dataType": "STRING"}]}


def test_what_is_stored_is_read_as_any_other_document_and_only_once() -> None:
    assert stored_table_config(dict(CONFIG)) == TableConfig.from_json(CONFIG).value
    assert stored_table_config(dict(CONFIG)) is stored_table_config(dict(CONFIG))
    assert stored_schema(dict(SCHEMA)) == Schema.from_json(SCHEMA).value
    assert stored_schema(dict(SCHEMA)) is stored_schema(dict(SCHEMA))


def test_another_document_is_another_config_and_a_wrong_one_is_refused_each_time() -> None:
    assert stored_table_config({**CONFIG, "description": "other"}).description == "other"
    for _ in range(2):
        with pytest.raises(InvalidConfigError):
            stored_schema({"schemaName": "kept", "dimensionFieldSpecs": [{"name": "a", "dataType": "NONE_SUCH"}]})
