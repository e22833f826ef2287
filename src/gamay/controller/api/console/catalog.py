"""REST: what the query page offers for completion: tables with their columns, functions, and options."""

from collections.abc import Iterable
from typing import Any

from fastapi import Request

from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import Services, listed_for
from gamay.functions.registry import function_names, is_aggregate
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.table.table_name import raw_table_name
from gamay.sql.options.option_values import NO_EFFECT, OPTIONS


def catalog_router(services: Services) -> GuardedRouter:
    """Return the route."""
    router = GuardedRouter(tags=["Console"])

    @router.get("/console/catalog", summary="List what queries can name: tables and their columns, functions, options")
    def catalog(request: Request) -> dict[str, Any]:
        registry = services.context.registry
        types: dict[str, list[str]] = {}
        for table in listed_for(request, services.tables.names()):
            types.setdefault(raw_table_name(table), []).append(table.rpartition("_")[2])
        found = []
        for name, kinds in sorted(types.items()):
            document = registry.get_schema(name)
            columns = () if document is None else _columns(Schema.from_json(document).value.stored_fields)
            found.append({"name": name, "types": sorted(kinds), "columns": list(columns)})
        functions = [{"name": function, "aggregate": is_aggregate(function)} for function in function_names()]
        options = sorted((option for option in OPTIONS if option not in NO_EFFECT), key=str.lower)
        return {"tables": found, "functions": functions, "options": options}

    return router


def _columns(fields: Iterable[FieldSpec]) -> Iterable[dict[str, Any]]:
    for field in fields:
        column: dict[str, Any] = {"name": field.name, "type": field.data_type.value, "role": field.role.value}
        if not field.single_value:
            column["multiValue"] = True
        if field.format is not None:
            column["format"] = field.to_json().get("format")
        if field.description:
            column["description"] = field.description
        yield column
