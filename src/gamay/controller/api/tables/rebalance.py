"""REST: rebalancing tables and tenants."""

from typing import Annotated, Any

from fastapi import Depends, Query, Request

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import Services, body_docs, optional_json_body, principal_of
from gamay.controller.rebalance.options import RebalanceOptions

RequiredType = Annotated[str, Query(alias="type", description="OFFLINE or REALTIME")]
Tables = Annotated[str, Query(description="Typed names, separated by commas")]
_TABLE_LISTS = ("includeTables", "excludeTables", "parallelWhitelist", "parallelBlacklist")
_TENANT_PARAMETERS = (*_TABLE_LISTS, "degreeOfParallelism", "verboseResult")
_OPTIONS_HELP = "Options besides type: " + ", ".join(RebalanceOptions().to_json())


def rebalance_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["Rebalance"])
    tables, rebalances = services.tables, services.rebalances

    @router.post(
        "/tables/{table}/rebalance",
        summary="Move segments to the servers that the table config demands",
        description=_OPTIONS_HELP,
    )
    def rebalance(request: Request, table: str, table_type: RequiredType) -> dict[str, Any]:
        given = {name: value for name, value in request.query_params.items() if name != "type"}
        options = RebalanceOptions.parse(given)
        return rebalances.rebalance(tables.resolve_one(table, table_type), options).to_json()

    @router.delete("/tables/{table}/rebalance", summary="Cancel the rebalances of a table after their current step")
    def cancel(table: str, table_type: RequiredType) -> list[str]:
        return rebalances.cancel(tables.resolve_one(table, table_type))

    @router.get("/rebalanceStatus/{job_id}", summary="Show the progress of a rebalance")
    def status(request: Request, job_id: str) -> dict[str, Any]:
        principal_of(request).check_table(rebalances.table_of(job_id))
        return rebalances.status(job_id)

    _tenant_routes(router, services)
    return router


def _tenant_routes(router: GuardedRouter, services: Services) -> None:
    tables = services.tables

    @router.get("/tenants/rebalanceStatus/{job_id}", summary="Show the progress of a tenant's rebalance")
    def tenant_status(job_id: str) -> dict[str, Any]:
        return services.tenant_rebalances.status(job_id)

    @router.delete("/tenants/rebalance/{job_id}", summary="Cancel the rebalance of a tenant")
    def cancel_tenant(job_id: str) -> dict[str, Any]:
        services.tenant_rebalances.cancel(job_id)
        return {"status": f"Successfully cancelled tenant rebalance job: {job_id}"}

    @router.get("/tenants/{name}/rebalanceJobs", summary="List the rebalances of a tenant")
    def tenant_jobs(name: str) -> dict[str, Any]:
        return dict(services.tenant_rebalances.jobs(name))

    @router.post(
        "/tenants/{name}/rebalance",
        summary="Rebalance all tables of a tenant",
        description=_OPTIONS_HELP,
        openapi_extra=body_docs(
            "Options as for one table, and the parameters", {"tenantName": "DefaultTenant", "minAvailableReplicas": -1}
        ),
    )
    def rebalance_tenant(
        request: Request,
        name: str,
        document: Annotated[dict[str, Any], Depends(optional_json_body)],
        _parallel: Annotated[int, Query(alias="degreeOfParallelism", ge=1)] = 1,
        _include: Annotated[str, Query(alias="includeTables", description="Typed names, separated by commas")] = "",
        _exclude: Annotated[str, Query(alias="excludeTables", description="Typed names, separated by commas")] = "",
        _beside: Annotated[
            str, Query(alias="parallelWhitelist", description="Tables that may be rebalanced in parallel")
        ] = "",
        _alone: Annotated[str, Query(alias="parallelBlacklist", description="Tables that are rebalanced alone")] = "",
        _verbose: Annotated[bool, Query(alias="verboseResult")] = False,
    ) -> dict[str, Any]:
        given = {**document, **request.query_params}
        if (named := given.pop("tenantName", name)) != name:
            raise InvalidConfigError(f"tenantName: the body names tenant '{named}', the path '{name}'")
        told = {key: given.pop(key) for key in _TENANT_PARAMETERS if key in given}
        included, excluded, beside_others, by_themselves = (_names(key, told.get(key, "")) for key in _TABLE_LISTS)
        known = set(tables.names())
        if missing := [t for t in (*included, *excluded, *beside_others, *by_themselves) if t not in known]:
            raise NotFoundError(f"Table {', '.join(missing)} not found")
        return services.tenant_rebalances.rebalance(
            name,
            RebalanceOptions.parse(given),
            include=included,
            exclude=excluded,
            parallel=_count("degreeOfParallelism", told.get("degreeOfParallelism", 1)),
            may_run_beside=lambda t: (not beside_others or t in beside_others) and t not in by_themselves,
            verbose=str(told.get("verboseResult", "false")).lower() == "true",
        )


def _names(key: str, value: Any) -> list[str]:
    """Return table names that are given as a list, or as a comma-separated string. Raises InvalidConfigError."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidConfigError(f"{key}: must be a list of typed table names, not {value!r}")
    return [name.strip() for name in names if name.strip()]


def _count(key: str, value: Any) -> int:
    if not str(value).isdecimal() or int(value) < 1:
        raise InvalidConfigError(f"{key}: must be a number of tables, 1 or more, not {value!r}")
    return int(value)
