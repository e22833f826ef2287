"""REST: recommended indexes for queries, given a schema and cardinalities."""

from typing import Any

from fastapi import Request

from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import body_docs
from gamay.model.parse import load_json
from gamay.query.advice.recommend import recommend

_EXAMPLE = {
    "schema": {"schemaName": "t", "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING", "cardinality": 5000}]},
    "queriesWithWeights": {"SELECT COUNT(*) FROM t WHERE city = 'Rome'": 1},
}


def recommender_router() -> GuardedRouter:
    """Return the route; it must be added before the routes that would match its path as a table name."""
    router = GuardedRouter(tags=["Table"])

    @router.put(
        "/tables/recommender",
        summary="Recommend indexes for queries, given a schema and cardinalities",
        openapi_extra=body_docs("A schema, whose field specs may have a cardinality, and queries with weights", _EXAMPLE),
    )
    async def recommended(request: Request) -> dict[str, Any]:
        return recommend(load_json(await request.body(), "request body"))

    return router
