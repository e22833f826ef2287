"""REST: features that Pinot has and Gamay does not: their lists are empty, other requests are refused with the reason.

Clients and consoles learn that the feature is missing, rather than that the path is unknown.
"""

from collections.abc import Callable

from gamay.base.errors import GamayError
from gamay.controller.api.guarded_router import GuardedRouter

_TIME_SERIES = "there is no time-series engine: ask by SQL, with GROUP BY over DATETRUNC and GAPFILL"
_LOGICAL = "there are no logical tables: a hybrid table joins its OFFLINE and its REALTIME half, more tables do not join"
_VIEWS = "there are no materialized views: let a job write the table that you want to query"
_WORKLOADS = "there are no query workloads: quotas of tables, databases and applications limit the queries of each client"
_GROOVY = "there is no Groovy, so there is nothing to analyse"
_DDL = "tables are not changed by SQL: use POST /schemas and POST /tables, or POST /tableConfigs for both"
_REINGESTED = "a pauseless segment is repaired from another replica, not ingested again"
_RESOURCES = "there are no data resources: POST /tables creates a table, and POST /tenants tags brokers and servers for it"
_COPY = "tables are not copied between clusters: push the segments to the other cluster by their metadata"

# the lists that consoles request
EMPTY_LISTS = ("/timeseries/languages", "/logicalTables", "/materializedViews")
REFUSED = (
    ("POST", "/query/timeseries", _TIME_SERIES),
    ("GET", "/timeseries/api/v1/query_range", _TIME_SERIES),
    ("POST", "/logicalTables", _LOGICAL),
    ("GET", "/logicalTables/{name}", _LOGICAL),
    ("PUT", "/logicalTables/{name}", _LOGICAL),
    ("DELETE", "/logicalTables/{name}", _LOGICAL),
    ("GET", "/materializedViews/{name}", _VIEWS),
    ("DELETE", "/materializedViews/{name}", _VIEWS),
    ("GET", "/queryWorkloadConfigs", _WORKLOADS),
    ("POST", "/queryWorkloadConfigs", _WORKLOADS),
    ("GET", "/queryWorkloadConfigs/{name}", _WORKLOADS),
    ("DELETE", "/queryWorkloadConfigs/{name}", _WORKLOADS),
    ("GET", "/queryWorkloadConfigs/instance/{name}", _WORKLOADS),
    ("POST", "/queryWorkloadConfigs/{name}/refresh", _WORKLOADS),
    ("POST", "/segments/reingested", _REINGESTED),
    ("GET", "/cluster/configs/groovy/staticAnalyzerConfig", _GROOVY),
    ("POST", "/cluster/configs/groovy/staticAnalyzerConfig", _GROOVY),
    ("GET", "/cluster/configs/groovy/staticAnalyzerConfig/default", _GROOVY),
    (
        "POST",
        "/sql/ddl",
        _DDL,
    ),
    (
        "POST",
        "/tables/{table}/copy",
        _COPY,
    ),
    ("POST", "/dataresources", _RESOURCES),
    ("PUT", "/dataresources", _RESOURCES),
)


class NotOfferedError(GamayError):
    """A request for something that Gamay does not have."""

    http_status = 501


def not_offered_router() -> GuardedRouter:
    """Return the routes; they must be added before routes that would match these paths as names."""
    router = GuardedRouter(tags=["NotOffered"])
    for path in EMPTY_LISTS:
        router.add_api_route(path, _nothing, methods=["GET"], summary="An empty list: there are none")
    for method, path, reason in REFUSED:
        router.add_api_route(path, _refusal(reason), methods=[method], summary=f"Refused: {reason}")
    return router


def _nothing() -> list[str]:
    return []


def _refusal(reason: str) -> Callable[[], None]:
    def refuse() -> None:
        raise NotOfferedError(f"This is not offered: {reason}")

    return refuse
