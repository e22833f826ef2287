"""Columns that are computed after a partial upsert merged a row: `postPartialUpsertTransformConfigs`."""

from collections.abc import Callable, Sequence

import pyarrow as pa

from gamay.ingest.transform.rows import Rows
from gamay.ingest.transform.transforms import Evaluator, parse_transform
from gamay.model.schema.schema import Schema
from gamay.model.table.ingestion import TransformConfig


def post_merge_transform(schema: Schema, configs: Sequence[TransformConfig]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return a function that recomputes columns of a conformed batch from the merged values of the others.

    They are computed in the order given, so later ones see earlier ones; a value that cannot be computed is null.
    Raises InvalidConfigError for an expression that cannot be parsed.
    """
    where = "upsertConfig.postPartialUpsertTransformConfigs"
    transforms = [parse_transform(c.column_name, c.transform_function, f"{where} of '{c.column_name}'") for c in configs]
    evaluator = Evaluator(schema)

    def compute(batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = Rows.of(batch)
        for transform in transforms:
            computed, _ = evaluator.compute(transform, rows)
            rows.put(transform.column, computed)
        columns = [rows.converted(schema.field(name), None)[0] for name in batch.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    return compute
