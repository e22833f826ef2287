"""Creation of a table from the columns of a DataFrame."""

from typing import Any

import pyarrow as pa

from gamay.base.errors import ConflictError, InvalidConfigError
from gamay.client.controller import ControllerClient
from gamay.ingest.infer import infer_schema
from gamay.model.rules.validation import validate_schema, validate_table_config
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import FieldRole
from gamay.spark.source_options import WriteOptions

_ROLES = ("dimensionFieldSpecs", "metricFieldSpecs")


def create_table(client: ControllerClient, options: WriteOptions, columns: pa.Schema) -> None:
    """Create an OFFLINE table and its schema, unless the table exists.

    Raises InvalidConfigError for a time column that is missing or needs a format, and for an invalid table config.
    """
    table = options.cluster.table
    if table in client.list_tables():
        return
    schema, config = new_documents(options, columns)
    try:
        client.add_table_configs({"tableName": table, "schema": schema.to_json(), "offline": config.to_json()})
    except ConflictError:
        if table not in client.list_tables():  # else another process created it
            raise


def new_documents(options: WriteOptions, columns: pa.Schema) -> tuple[Schema, TableConfig]:
    """Return the schema and config of the new table. Raises InvalidConfigError as `create_table` does."""
    schema = Schema.from_json(_with_time(infer_schema(options.cluster.table, columns), options)).value
    config = TableConfig.from_json(_config(options)).value
    validate_schema(schema)
    validate_table_config(config, schema)
    return schema, config


def _with_time(schema: Schema, options: WriteOptions) -> dict[str, Any]:
    document = schema.to_json()
    name, time_format = options.time_column, options.time_format
    if name is None:
        return document
    if name not in schema:
        raise InvalidConfigError(f"the option 'timeColumn' names no column of the DataFrame: '{name}'")
    if schema.field(name).role is FieldRole.DATE_TIME:
        return document
    if time_format is None:
        raise InvalidConfigError(
            f"the values of timeColumn '{name}' are no timestamps: say .option('timeFormat', '1:MILLISECONDS:EPOCH'), or "
            f"how else they write times"
        )
    for role in _ROLES:
        document[role] = [spec for spec in document.get(role, []) if spec["name"] != name]
    spec = {"name": name, "dataType": schema.field(name).data_type.value, "format": time_format, "granularity": "1:DAYS"}
    document.setdefault("dateTimeFieldSpecs", []).append(spec)
    return document


def _config(options: WriteOptions) -> dict[str, Any]:
    document = TableConfig.offline(options.cluster.table).to_json()
    document["segmentsConfig"]["timeColumnName"] = options.time_column
    for key, value in options.table_config.items():
        is_section = isinstance(value, dict) and isinstance(document.get(key), dict)
        document[key] = {**document[key], **value} if is_section else value
    return document
