"""REST: schemas."""

import math
from collections import Counter
from decimal import Decimal
from typing import Annotated, Any

from fastapi import Depends, Request

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.segments.multipart import stream_single
from gamay.controller.api.services import Services, body_docs, json_body, listed_for, named_in_database, status, told_of
from gamay.model.parse import load_json
from gamay.model.schema.default_null import COLUMN_TYPES, METRIC_TYPES, default_null_value
from gamay.model.types import DataType, FieldRole

_EXAMPLE = {
    "schemaName": "trips",
    "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "fare", "dataType": "DOUBLE"}],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP", "granularity": "1:MILLISECONDS"}
    ],
}
Body = Annotated[dict[str, Any], Depends(json_body)]


def schema_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["Schema"])
    schemas = services.schemas

    async def schema_body(request: Request) -> dict[str, Any]:
        return await _schema_body(request, services)

    @router.get("/schemas", summary="List the names of all schemas")
    def list_schemas(request: Request) -> list[str]:
        return listed_for(request, schemas.names())

    @router.get("/schemas/info", summary="Count the columns of all schemas by role")
    def schemas_info(request: Request) -> dict[str, Any]:
        return {
            "schemasInfo": [_info(services, name) for name in listed_for(request, schemas.names())],
            "uncachedSchemas": [],
        }

    @router.get("/schemas/fieldSpec", summary="List the column types with their default null values, by role")
    def field_spec() -> dict[str, Any]:
        return _field_spec()

    @router.post(
        "/schemas/validate", summary="Check a schema without storing it", openapi_extra=body_docs("A schema", _EXAMPLE)
    )
    def validate_schema(body: Body) -> dict[str, Any]:
        parsed = schemas.parse(body)
        return {**parsed.value.to_json(), **told_of(parsed)}

    @router.post("/schemas", summary="Add a schema, or replace it", openapi_extra=body_docs("A schema", _EXAMPLE))
    def add_schema(
        body: Annotated[dict[str, Any], Depends(schema_body)], override: bool = True, force: bool = False
    ) -> dict[str, Any]:
        parsed = schemas.add(body, override=override, force=force)
        return {**status(f"{parsed.value.name} successfully added"), **told_of(parsed)}

    @router.get("/schemas/{name}", summary="Show a schema")
    def get_schema(name: str) -> dict[str, Any]:
        return schemas.document(name)

    @router.put("/schemas/{name}", summary="Replace a schema", openapi_extra=body_docs("A schema", _EXAMPLE))
    def put_schema(
        name: str, body: Annotated[dict[str, Any], Depends(schema_body)], reload: bool = False, force: bool = False
    ) -> dict[str, Any]:
        users = _users(services, name) if reload else []
        services.reloads.check(users)  # checked before anything is stored
        parsed = schemas.replace(name, body, force=force)
        services.reloads.follow(users)
        return {**status(f"{name} successfully added"), **told_of(parsed)}

    @router.delete("/schemas/{name}", summary="Delete a schema that no table uses")
    def delete_schema(name: str) -> dict[str, Any]:
        schemas.delete(name)
        return status(f"Schema {name} deleted")

    @router.get("/tables/{table}/schema", summary="Show the schema of a table")
    def table_schema(table: str) -> dict[str, Any]:
        try:
            services.tables.resolve(table)
        except NotFoundError:
            return schemas.document(table)
        return services.tables.schema_of(table).to_json()

    return router


async def _schema_body(request: Request, services: Services) -> dict[str, Any]:
    """Return the schema in a request: a JSON body, or the only part of a multipart one."""
    if not request.headers.get("content-type", "").startswith("multipart/"):
        return await json_body(request)
    with services.uploads.scratch("read the schema") as scratch:
        document = load_json((await stream_single(request, scratch)).path.read_bytes(), "schema")
    if not isinstance(document, dict):
        raise InvalidConfigError("the schema must be a JSON object")
    return named_in_database(document, request.headers.get("database", ""))


def _users(services: Services, name: str) -> list[str]:
    """Return the typed tables of a schema."""
    try:
        return services.tables.resolve(name)
    except NotFoundError:
        return []


def _field_spec() -> dict[str, Any]:
    """Return the roles and types of columns, for schema editors."""
    roles = {}
    for role in (FieldRole.DIMENSION, FieldRole.METRIC, FieldRole.DATE_TIME):
        allowed = METRIC_TYPES if role is FieldRole.METRIC else COLUMN_TYPES
        defaults = {t.value: {"nullDefault": _shown(default_null_value(t, role))} for t in COLUMN_TYPES if t in allowed}
        roles[role.value] = {"allowedDataTypes": defaults}
    nothing = default_null_value(DataType.MAP, FieldRole.COMPLEX)
    roles[FieldRole.COMPLEX.value] = {"allowedDataTypes": {DataType.MAP.value: {"nullDefault": nothing}}}
    types = {t.value: {"isNumeric": t.is_numeric, "isFixedWidth": t.is_fixed_width} for t in (*COLUMN_TYPES, DataType.MAP)}
    return {"fieldTypes": roles, "dataTypes": types}


def _shown(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return str(value) if isinstance(value, Decimal) else value


def _info(services: Services, name: str) -> dict[str, Any]:
    counts = Counter(field.role for field in services.schemas.get(name).fields)
    return {
        "schemaName": name,
        "numDimensionFields": counts[FieldRole.DIMENSION],
        "numDateTimeFields": counts[FieldRole.DATE_TIME],
        "numMetricFields": counts[FieldRole.METRIC],
        "numComplexFields": counts[FieldRole.COMPLEX],
        "numTimeFields": counts[FieldRole.TIME],
    }
