"""REST: segments that are not as the table config wants them, and jobs that load segments again."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.cluster.records import ERROR
from gamay.controller.api.services import Services, status

TypeParam = Annotated[str | None, Query(alias="type", description="OFFLINE or REALTIME")]
Target = Annotated[str, Query(alias="targetInstance")]
JobTypes = Annotated[str, Query(alias="jobTypes", description="By commas; RELOAD_SEGMENT")]

_STALE = "stored with other encodings or indexes than the table config asks for now"


def segment_check_router(services: Services) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["Segment"])
    tables = services.tables

    @router.get("/segments/{table}/needReload", summary="Tell whether a reload would change how segments are stored")
    def need_reload(table: str, verbose: bool = False) -> dict[str, Any]:
        stale = {server: bool(names) for server, names in _stale(services, tables.resolve_one(table)).items()}
        shown = {server: {"needReload": flag, "instanceId": server} for server, flag in stale.items()}
        answer: dict[str, Any] = {"needReload": any(stale.values())}
        return answer | ({"serverToSegmentsCheckReloadList": shown} if verbose else {})

    @router.get("/segments/{table}/isStale", summary="List the segments that are not stored as the table config asks for")
    def is_stale(table: str) -> dict[str, Any]:
        return {
            server: {
                "staleSegmentList": [{"segmentName": name, "stale": True, "reason": _STALE} for name in names or []],
                "validResponse": names is not None,
                "errorMessage": None if names is not None else f"server '{server}' does not answer",
            }
            for server, names in _stale(services, tables.resolve_one(table)).items()
        }

    @router.post("/segments/{table}/{segment}/reset", summary="Load a segment again that could not be loaded, or anew")
    def reset_one(table: str, segment: str, target: Target = "") -> dict[str, Any]:
        typed = tables.resolve_one(table)
        services.reloads.submit(typed, [segment], target=target)
        return status(f"Successfully reset segment: {segment} of table: {typed}")

    @router.post("/segments/{table}/reset", summary="Load segments again that could not be loaded, or all")
    def reset_all(
        table: str, errors_only: Annotated[bool, Query(alias="errorSegmentsOnly")] = False, target: Target = ""
    ) -> dict[str, Any]:
        typed = tables.resolve_one(table)
        view = services.context.registry.get_external_view(typed)
        failed = [] if view is None else [name for name, states in view.states.items() if ERROR in states.values()]
        if failed or not errors_only:
            services.reloads.submit(typed, failed if errors_only else (), target=target)
        return status(f"Successfully reset segments of table: {typed}")

    @router.get("/table/{table}/jobs", tags=["Table"], summary="List the jobs that were submitted for a table")
    def jobs(table: str, table_type: TypeParam = None, kinds: JobTypes = "") -> dict[str, Any]:
        wanted = {kind.strip().upper() for kind in kinds.split(",") if kind.strip()}
        if wanted and "RELOAD_SEGMENT" not in wanted:
            return {}
        return {i: job for typed in tables.resolve(table, table_type) for i, job in services.reloads.jobs(typed).items()}

    return router


def _stale(services: Services, table: str) -> dict[str, list[str] | None]:
    """Return the stale segments by server; None for one that does not answer. Raises for a REALTIME table."""
    if not table.endswith("_OFFLINE"):
        raise InvalidConfigError(f"Segments are compared with the config for OFFLINE tables only, not for {table}")
    ideal = services.context.registry.must_get_ideal_state(table)
    found: dict[str, list[str] | None] = {}
    for server in sorted({server for states in ideal.states.values() for server in states}):
        try:
            found[server] = list(services.context.servers.stale_segments(server, table))
        except NotFoundError:
            found[server] = None
    return found
