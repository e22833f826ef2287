"""REST: planning tables with primary keys."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from gamay.base.errors import InvalidConfigError
from gamay.controller.api.services import Services, body_docs, json_body

_EXAMPLE = {"schema": {"schemaName": "orders"}, "tableConfig": {"tableName": "orders", "upsertConfig": {"mode": "FULL"}}}
_BYTES_MAX = 2**20
Body = Annotated[dict[str, Any], Depends(json_body)]
Cardinality = Annotated[int, Query(ge=0, description="How many primary keys one replica holds")]
KeySize = Annotated[
    float, Query(alias="primaryKeySize", ge=0, le=_BYTES_MAX, description="Mean bytes of a key that is not hashed")
]
Partitions = Annotated[int, Query(alias="numPartitions", ge=1, description="Over how many partitions keys are spread")]


def upsert_router(services: Services) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["Upsert"])

    @router.post(
        "/upsert/estimateHeapUsage",
        summary="Estimate the memory of a table's primary keys",
        openapi_extra=body_docs("A schema and a table config", _EXAMPLE),
    )
    def estimate_memory(
        body: Body, cardinality: Cardinality, key_size: KeySize = 16, partitions: Partitions = 1
    ) -> dict[str, Any]:
        from gamay.upsert.estimate import estimate

        for part in ("schema", "tableConfig"):
            if not isinstance(body.get(part), dict):
                raise InvalidConfigError(f"the body must have '{part}', a JSON object")
        schema = services.schemas.parse(body["schema"]).value
        config = services.tables.parse(body["tableConfig"], schema).value
        found = estimate(schema, config, cardinality, key_size)
        if found is None:
            raise InvalidConfigError("the table has neither upsertConfig nor dedupConfig: it looks no keys up")
        keys, values = round(cardinality * found.key_bytes), round(cardinality * found.entry_bytes)
        return {
            "bytesPerKey": found.key_bytes,
            "bytesPerValue": found.entry_bytes,
            "totalKeySpace(bytes)": keys,
            "totalValueSpace(bytes)": values,
            "totalSpace(bytes)": found.total_bytes,
            "numPartitions": partitions,
            "totalSpacePerPartition(bytes)": found.total_bytes / partitions,
        }

    return router
