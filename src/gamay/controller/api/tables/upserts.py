"""REST: memory estimates of tables with primary keys, and counts of their valid rows."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Depends, Query, Request

from gamay.base.errors import InvalidConfigError, nearest
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.not_offered import NotOfferedError
from gamay.controller.api.services import Services, body_docs, json_body
from gamay.controller.tables.primary_keys import valid_doc_counts
from gamay.controller.tables.tables import parse_table_type
from gamay.model.table.table_name import TableType, table_type_of
from gamay.model.task_settings import VALID_DOC_KINDS
from gamay.web.guarded import sender_of

_EXAMPLE = {"schema": {"schemaName": "orders"}, "tableConfig": {"tableName": "orders", "upsertConfig": {"mode": "FULL"}}}
_BYTES_MAX = 2**20
Body = Annotated[dict[str, Any], Depends(json_body)]
Cardinality = Annotated[int, Query(ge=0, description="Number of primary keys of one replica")]
KeySize = Annotated[
    float, Query(alias="primaryKeySize", ge=0, le=_BYTES_MAX, description="Mean bytes of a key that is not hashed")
]
Partitions = Annotated[int, Query(alias="numPartitions", ge=1, description="Number of partitions of the keys")]
TypeParam = Annotated[str | None, Query(alias="type", description="REALTIME")]
SegmentNames = Annotated[
    list[str], Query(alias="segmentNames", default_factory=list, description="Separated by commas, or repeated")
]
ValidDocKind = Annotated[str, Query(alias="validDocIdsType", description=", ".join(VALID_DOC_KINDS))]
Batch = Annotated[int, Query(alias="serverRequestBatchSize", ge=1, description="Segments per request to a server")]


def upsert_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["Upsert"])

    @router.post(
        "/upsert/estimateHeapUsage",
        summary="Estimate the memory of a table's primary keys",
        openapi_extra=body_docs("A schema and a table config", _EXAMPLE),
    )
    def estimate_memory(
        request: Request, body: Body, cardinality: Cardinality, key_size: KeySize = 16, partitions: Partitions = 1
    ) -> dict[str, Any]:
        from gamay.upsert.config.estimate import estimate

        for part in ("schema", "tableConfig"):
            if not isinstance(body.get(part), dict):
                raise InvalidConfigError(f"the body must have '{part}', a JSON object")
        schema = services.schemas.parse(body["schema"]).value
        config = services.tables.parse(body["tableConfig"], schema, by=sender_of(request.scope)).value
        found = estimate(schema, config, cardinality, key_size)
        if found is None:
            raise InvalidConfigError("the table has neither upsertConfig nor dedupConfig: it has no primary-key index")
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

    @router.get("/tables/{table}/validDocIdsMetadata", tags=["Table"], summary="Count the valid rows of segments")
    def valid_docs(
        table: str, names: SegmentNames, table_type: TypeParam = None, kind: ValidDocKind = "SNAPSHOT", batch: Batch = 500
    ) -> list[Mapping[str, Any]]:
        if kind.upper() not in VALID_DOC_KINDS:
            raise InvalidConfigError(
                f"validDocIdsType: '{kind}' is not among {', '.join(VALID_DOC_KINDS)}.{nearest(kind, VALID_DOC_KINDS)}"
            )
        only_realtime = f"Valid rows are known for REALTIME tables only, not for the OFFLINE table {table}"
        if parse_table_type(table_type) is TableType.OFFLINE:
            raise NotOfferedError(only_realtime)
        typed = services.tables.resolve(table, table_type)[-1]  # the REALTIME half of a hybrid table
        if table_type_of(typed) is TableType.OFFLINE:
            raise NotOfferedError(only_realtime)
        wanted = {name.strip() for part in names for name in part.split(",") if name.strip()}
        return valid_doc_counts(services.context, typed, wanted, kind.upper(), batch)

    return router
