"""REST: tables, and the documents that hold a schema and its tables."""

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import Depends, Query, Request

from gamay.base.errors import GamayError, InvalidConfigError
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import Services, body_docs, json_body, listed_for, status, told_of
from gamay.controller.tables.documents import TableDocument
from gamay.model.table.table_name import TableType, raw_table_name, table_type_of
from gamay.web.guarded import sender_of

_EXAMPLE = {
    "tableName": "trips",
    "tableType": "OFFLINE",
    "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
    "tenants": {},
    "tableIndexConfig": {"invertedIndexColumns": ["city"]},
    "metadata": {},
}
_TASK_TYPES = "taskTypeConfigsMap"
Body = Annotated[dict[str, Any], Depends(json_body)]
TypeParam = Annotated[str | None, Query(alias="type", description="OFFLINE or REALTIME")]
RequiredType = Annotated[str, Query(alias="type", description="OFFLINE or REALTIME")]
IgnoreTasks = Annotated[bool, Query(alias="ignoreActiveTasks", description="Cancel running tasks")]
Skip = Annotated[str, Query(alias="validationTypesToSkip", description="ALL, TASK, UPSERT, TENANT, …, separated by commas")]


class _WrappedError(GamayError):
    """An error that clients of this endpoint expect with status 500."""

    http_status = 500


def table_router(services: Services) -> GuardedRouter:
    """Return the routes of tables."""
    router = GuardedRouter(tags=["Table"])
    tables = services.tables

    @router.get("/tables", summary="List tables: raw names, or typed names if a type is given")
    def list_tables(
        request: Request,
        table_type: TypeParam = None,
        task_type: Annotated[str | None, Query(alias="taskType", description="Only tables with tasks of this type")] = None,
        sort_type: Annotated[str, Query(alias="sortType")] = "",
        sort_asc: Annotated[bool, Query(alias="sortAsc")] = True,
    ) -> dict[str, Any]:
        return {"tables": listed_for(request, _list_tables(services, table_type, task_type, sort_type, sort_asc))}

    @router.post("/tables", summary="Create a table", openapi_extra=body_docs("A table config", _EXAMPLE))
    def add_table(request: Request, body: Body, skip: Skip = "") -> dict[str, Any]:
        parsed = tables.add(body, skip, by=sender_of(request.scope))
        text = f"Table {parsed.value.typed_name} successfully added"
        return {**status(text), **told_of(parsed, tables.notices(parsed.value, body))}

    @router.post("/tables/validate", summary="Check a table config", openapi_extra=body_docs("A table config", _EXAMPLE))
    def validate_table(request: Request, body: Body, skip: Skip = "") -> dict[str, Any]:
        parsed = tables.parse(body, skip=skip, by=sender_of(request.scope))
        return {
            parsed.value.table_type.value: parsed.value.to_json(),
            **told_of(parsed, tables.notices(parsed.value, body)),
        }

    @router.get("/tables/{table}", summary="Show the configs of a table")
    def get_table(table: str, table_type: TypeParam = None) -> dict[str, Any]:
        found = tables.resolve(table, table_type)
        return {_type_name(typed): tables.document(typed) for typed in found}

    @router.put("/tables/{table}", summary="Change a table config", openapi_extra=body_docs("A table config", _EXAMPLE))
    def put_table(request: Request, table: str, body: Body, skip: Skip = "", force: bool = False) -> dict[str, Any]:
        parsed, late = tables.replace(table, body, skip, by=sender_of(request.scope), force=force)
        warnings = [*tables.notices(parsed.value, body), *late]
        return {**status(f"Table config updated for {table}"), **told_of(parsed, warnings)}

    @router.delete("/tables/{table}", summary="Delete a table: both types of a raw name")
    def delete_table(
        table: str, table_type: TypeParam = None, retention: str | None = None, ignore_tasks: IgnoreTasks = False
    ) -> dict[str, Any]:
        found = tables.resolve(table, table_type)
        _check_tasks(services, [] if ignore_tasks else found)
        for typed in found:
            tables.delete(typed, retention)
        return status(f"Tables: [{', '.join(found)}] deleted")

    @router.put("/tables/{table}/state", summary="Switch a table on or off")
    def put_state(table: str, table_type: RequiredType, state: str) -> dict[str, Any]:
        if state.lower() not in ("enable", "disable"):
            raise InvalidConfigError(f"Invalid state: '{state}', it must be enable or disable")
        typed = tables.resolve_one(table, table_type)
        tables.set_enabled(typed, state.lower() == "enable")
        return status(f"Request to {state} table '{typed}' is successful")

    @router.get("/tables/{table}/state", summary="Show whether a table is switched on")
    def get_state(table: str, table_type: RequiredType) -> dict[str, Any]:
        return {"state": "enabled" if tables.is_enabled(tables.resolve_one(table, table_type)) else "disabled"}

    return router


def table_documents_router(services: Services) -> GuardedRouter:
    """Return the routes of the documents that hold a schema and its tables."""
    router = GuardedRouter(tags=["TableConfigs"])
    documents = services.documents

    @router.get("/tableConfigs", summary="List the raw names of all tables")
    def list_documents(request: Request) -> list[str]:
        return listed_for(request, sorted({raw_table_name(table) for table in services.tables.names()}))

    @router.post("/tableConfigs", summary="Add a schema and its tables", openapi_extra=body_docs("Schema and table configs"))
    def add_document(request: Request, body: Body, skip: Skip = "") -> dict[str, Any]:
        added = documents.add(body, skip, by=sender_of(request.scope))
        return _written(added, f"TableConfigs {added.name} successfully added")

    @router.post(
        "/tableConfigs/validate",
        summary="Check a schema and its tables",
        openapi_extra=body_docs("Schema and table configs"),
    )
    def validate_document(request: Request, body: Body, skip: Skip = "") -> dict[str, Any]:
        return _checked(documents.parse(body, skip, by=sender_of(request.scope)))

    @router.post(
        "/tableConfigs/tune",
        summary="Show the changes of the tuners that the table configs name",
        openapi_extra=body_docs("Schema and table configs"),
    )
    def tune_document(request: Request, body: Body) -> dict[str, Any]:
        return _checked(documents.parse(body, by=sender_of(request.scope)))

    @router.get("/tableConfigs/{name}", summary="Show a schema and its tables")
    def get_document(name: str) -> dict[str, Any]:
        try:
            return documents.document(name)
        except GamayError as error:
            raise _WrappedError(str(error)) from error

    @router.put(
        "/tableConfigs/{name}", summary="Change a schema and its tables", openapi_extra=body_docs("Schema and table configs")
    )
    def put_document(
        request: Request,
        name: str,
        body: Body,
        skip: Skip = "",
        reload: bool = False,
        force_schema: Annotated[bool, Query(alias="forceTableSchemaUpdate")] = False,
    ) -> dict[str, Any]:
        if reload:
            services.reloads.check(services.tables.resolve(name))  # before anything is stored
        changed = documents.replace(name, body, skip, by=sender_of(request.scope), force_schema=force_schema)
        if reload:
            services.reloads.follow(services.tables.resolve(name))
        return _written(changed, f"TableConfigs updated for {name}")

    @router.delete("/tableConfigs/{name}", summary="Delete a schema and its tables")
    def delete_document(name: str, ignore_tasks: IgnoreTasks = False) -> dict[str, Any]:
        if not ignore_tasks:
            _check_tasks(services, [typed for typed in services.tables.names() if raw_table_name(typed) == name])
        try:
            existed = documents.delete(name)
        except GamayError as error:
            raise _WrappedError(str(error)) from error
        return status(
            f"Deleted TableConfigs: {name}" if existed else f"TableConfigs: {name} don't exist. Invoked delete anyway"
        )

    return router


def _written(document: TableDocument, text: str) -> dict[str, Any]:
    return {**status(text), **told_of(document, document.warnings)}


def _checked(document: TableDocument) -> dict[str, Any]:
    return {**document.to_json(), **told_of(document, document.warnings)}


def _type_name(table: str) -> str:
    table_type = table_type_of(table)
    assert table_type is not None
    return table_type.value


def _check_tasks(services: Services, tables: Iterable[str]) -> None:
    """Raise _WrappedError for a table with running tasks."""
    for table in tables:
        if active := services.tasks.unfinished(table):
            raise _WrappedError(
                f"The table {table} has {len(active)} active running tasks: [{', '.join(active)}]. Try again when they have "
                "ended, or cancel them with ignoreActiveTasks=true"
            )


def _list_tables(
    services: Services, table_type: str | None, task_type: str | None, sort_type: str, ascending: bool
) -> list[str]:
    names = services.tables.names()
    if task_type:
        names = [name for name in names if task_type in services.tables.document(name).get("task", {}).get(_TASK_TYPES, {})]
    if table_type is not None and table_type.lower() == "dimension":
        names = [name for name in names if services.tables.document(name).get("isDimTable")]
    elif table_type is not None:
        wanted = table_type.strip().upper()
        if wanted not in TableType.__members__:
            raise InvalidConfigError(f"Illegal table type: '{table_type}', it must be OFFLINE, REALTIME or dimension")
        names = [name for name in names if name.endswith(f"_{wanted}")]
    if sort_type and sort_type.lower() not in ("name", "creationtime", "lastmodifiedtime"):
        raise InvalidConfigError(f"Illegal sortType: '{sort_type}', it must be name, creationTime or lastModifiedTime")
    if sort_type.lower() in ("creationtime", "lastmodifiedtime"):
        times = {
            name: services.context.registry.table_times(name)[sort_type.lower() == "lastmodifiedtime"] for name in names
        }
        return sorted(names, key=lambda name: (times[name], name), reverse=not ascending)
    if table_type is None and not task_type:
        names = sorted({raw_table_name(name) for name in names})
    return names if ascending else names[::-1]
