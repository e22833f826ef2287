"""REST: JSON Schemas of the documents that users write, for their editors."""

from starlette.responses import Response

from gamay.controller.api.guarded_router import GuardedRouter
from gamay.ingest.json_schemas import NAMES, schema_text


def json_schema_router() -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["Schema"])

    @router.get("/jsonSchemas", summary="List the documents that have a JSON Schema")
    def names() -> list[str]:
        return list(NAMES)

    @router.get("/jsonSchemas/{name}", summary="Get the JSON Schema of a document, for editors")
    def one(name: str) -> Response:
        return Response(schema_text(name), media_type="application/schema+json")

    return router
