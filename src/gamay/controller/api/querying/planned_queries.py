"""Validation of queries over several tables: they are planned against schemas, without reading rows."""

from collections.abc import Mapping
from typing import Any

from gamay.base.errors import ErrorCode, InvalidConfigError, QueryError, nearest
from gamay.cluster.access.principals import Principal
from gamay.cluster.records.registry import Registry
from gamay.functions.expression import Call, Expression, Literal
from gamay.functions.registry import ValueType
from gamay.model.schema.schema import Schema
from gamay.model.table.table_name import raw_table_name
from gamay.model.types import DataType
from gamay.relational.execute import prepare
from gamay.relational.names import Frame, columns_of, map_values_of
from gamay.sql.options.option_values import MULTI_STAGE, NULL_HANDLING, flag
from gamay.sql.parser import parse_query

_FORM = '{"sql": "SELECT …"} or {"sqls": ["SELECT …"]}, optionally with "schemas" and "tableConfigs"'


def validated(document: Any, registry: Registry, principal: Principal) -> list[dict[str, Any]]:
    """Return for each query of a request whether it can be planned, and what is wrong otherwise.

    The schemas are those of the request, else those of the tables that the sender may use. Raises InvalidConfigError.
    """
    queries = _queries(document)
    schemas = _sent_schemas(document) if "schemas" in document else _stored_schemas(registry, principal)
    catalog = _Catalog(schemas)
    return [_validated(sql, catalog) for sql in queries]


def _queries(document: Any) -> list[str]:
    if not isinstance(document, dict):
        raise InvalidConfigError(f"the request body must be {_FORM}")
    if document.get("logicalTableConfigs"):
        raise InvalidConfigError("logicalTableConfigs: there are no logical tables; name the tables themselves")
    queries = document.get("sqls") or [document.get("sql")]
    if not isinstance(queries, list) or not all(isinstance(sql, str) and sql.strip() for sql in queries):
        raise InvalidConfigError(f"the request has no query; write {_FORM}")
    return queries


def _sent_schemas(document: Mapping[str, Any]) -> dict[str, Schema]:
    sent = document["schemas"]
    if not isinstance(sent, list):
        raise InvalidConfigError("schemas: must be a list of schemas")
    by_name = {schema.name: schema for schema in (Schema.from_json(each).value for each in sent)}
    for config in document.get("tableConfigs") or ():
        name = config.get("tableName") if isinstance(config, dict) else None
        if not isinstance(name, str) or raw_table_name(name) not in by_name:
            raise InvalidConfigError(f"tableConfigs: schemas has none for the table {name!r}")
    return by_name


def _stored_schemas(registry: Registry, principal: Principal) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    for table in registry.table_names():
        name = raw_table_name(table)
        document = registry.get_schema(name) if principal.may_use(table) else None
        if document is not None:
            found[name] = Schema.from_json(document).value
    return found


def _validated(sql: str, catalog: "_Catalog") -> dict[str, Any]:
    answer: dict[str, Any] = {"compiledSuccessfully": True, "errorMessage": None, "errorCode": None, "sql": sql}
    try:
        query = parse_query(sql, {MULTI_STAGE: "true"})
        if query.relational is not None:
            prepare(query.relational, catalog, null_handling=flag(query.options, NULL_HANDLING))
    except QueryError as error:
        answer |= {"compiledSuccessfully": False, "errorMessage": error.client_message(), "errorCode": error.code.name}
    return answer


class _Catalog:
    """Catalog of schemas, independent of the tables that exist."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas
        self._by_name = {name.lower(): schema for name, schema in schemas.items()}

    def schemas(self) -> Mapping[str, Schema]:
        return self._schemas

    def columns(self, table: str) -> Mapping[str, ValueType]:
        return columns_of(self._schema(table))

    def map_values(self, table: str) -> Mapping[str, DataType]:
        return map_values_of(self._schema(table))

    def frame(self, name: str) -> Frame | None:
        return None

    def size(self, table: str) -> int:
        return 0

    def answer(self, call: Call) -> Expression:
        return Literal(None, DataType.UNKNOWN)

    def _schema(self, table: str) -> Schema:
        found = self._by_name.get(raw_table_name(table).lower())
        if found is None:
            hint = nearest(table, self._schemas)
            raise QueryError(ErrorCode.TABLE_DOES_NOT_EXIST, f"Table '{table}' does not exist.{hint}")
        return found
