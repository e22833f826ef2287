"""What rows that come in could not be brought through, found before there are any."""

from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig


def check_ingestion(schema: Schema, config: TableConfig) -> None:
    """Raise InvalidConfigError for expressions that cannot be computed, such as of functions that there are not."""
    from gamay.ingest.transform.pipeline import Pipeline  # which opening a database does not need
    from gamay.ingest.transform.post_merge import post_merge_transform

    Pipeline(schema, config).check()
    if config.upsert is not None:
        post_merge_transform(schema, config.upsert.post_partial_upsert_transforms)
