"""What the description of the REST interface (`/swagger.json`, `/help`) tells beside its routes."""

from typing import Any

from fastapi import FastAPI

# in the order in which a newcomer needs them
TAGS = {
    "Schema": "Schemas, and JSON Schemas of the documents that users write",
    "Table": "Tables: create, change, validate, drop, see",
    "TableConfigs": "Schema and table configs together, in one step",
    "Ingest": "Rows from a file or a URI, without a job",
    "Segment": "Segments: push, list, reload, replace, delete",
    "Query": "Queries through the controller, those that run, and how to end them",
    "Realtime": "Consumption: pause, resume, commit, what lags",
    "Upsert": "Tables with primary keys",
    "Task": "Tasks of minions and their schedules",
    "Rebalance": "Moving segments to where a table's config wants them",
    "Tenant": "Tenants and their instances",
    "Instance": "Processes of the cluster",
    "Broker": "Which brokers answer for which tables",
    "Cluster": "The cluster as a whole, and its settings",
    "Database": "Databases",
    "User": "Users and their rights",
    "Auth": "Who asks, and what it may do",
    "Console": "The web console",
    "PeriodicTask": "What the leading controller does from time to time",
    "Zookeeper": "The metadata store",
    "Logger": "Logs and their levels",
    "AppConfigs": "This process",
    "Debug": "What is looked at when something is wrong",
    "SegmentCompletion": "What servers ask while they commit; not for users",
    "NotOffered": "Calls of the reference that Gamay answers with why it has no such thing",
}


def describe(app: FastAPI, *, is_open: bool) -> None:
    """Order the groups of routes and say what they are for. is_open: nobody has to log in; else it says how to."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        document = plain()
        document["tags"] = [{"name": name, "description": text} for name, text in TAGS.items()]
        if not is_open:
            schemes = {"basic": {"type": "http", "scheme": "basic"}}
            document.setdefault("components", {})["securitySchemes"] = schemes
            document["security"] = [{name: []} for name in schemes]
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # the documented way to extend it
