"""A table as a Spark DataFrame, one Spark partition for each segment."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from gamay.base.errors import InvalidConfigError, nearest
from gamay.functions.arrow import arrow_type
from gamay.ingest.operands import to_arrow
from gamay.model.schema import Schema
from gamay.segment.reader import open_segment
from gamay.spark.push import controller_client
from gamay.spark.target import scratch_folder
from gamay.storage.archive import unpack

BATCH_ROWS = 65_536


def read_table(
    spark: Any,
    controller: str,
    table: str,
    *,
    table_type: str = "OFFLINE",
    columns: Sequence[str] | None = None,
    auth_token: str | None = None,
) -> Any:
    """Return the rows of a table as a DataFrame; executors fetch segments from the controller when it is evaluated.

    columns: those to read, None for all. BIG_DECIMAL comes as text, MAP as that of a JSON object, TIMESTAMP as a timestamp
    without zone, missing values as what the table stores for them. Raises NotFoundError for the table, InvalidConfigError
    for an unknown column.
    """
    with controller_client(controller, auth_token, None) as client:
        schema = Schema.from_json(client.table_schema(table)).value
        segments = sorted(client.list_segments(table, table_type, queried_only=True))
    names = list(columns) if columns is not None else [spec.name for spec in schema.stored_fields]
    for name in names:
        if name not in schema:
            raise InvalidConfigError(f"table '{table}' has no column '{name}'.{nearest(name, schema.column_names)}")
    target = pa.schema([(n, _spark_type(schema, n)) for n in names])
    from pyspark.sql.pandas.types import from_arrow_schema

    read = _reader(controller, table, segments, target, auth_token)
    return spark.range(0, len(segments), 1, max(1, len(segments))).mapInArrow(read, from_arrow_schema(target))


def _spark_type(schema: Schema, name: str) -> pa.DataType:
    spec = schema.field(name)
    kind = arrow_type(spec.data_type)
    kind = pa.timestamp("us") if pa.types.is_timestamp(kind) else kind
    return kind if spec.single_value else pa.list_(kind)


def _reader(
    controller: str, table: str, segments: Sequence[str], target: pa.Schema, auth_token: str | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from _rows(controller, table, segments[index], target, auth_token)

    return read


def _rows(controller: str, table: str, name: str, target: pa.Schema, auth_token: str | None) -> Iterator[pa.RecordBatch]:
    with scratch_folder() as scratch:
        with controller_client(controller, auth_token, None) as client:
            archive = client.download_segment(table, name, scratch / "segment.tar.gz")
        segment = open_segment(unpack(archive, scratch / "segment"))
        try:
            for start in range(0, segment.num_docs, BATCH_ROWS):
                stop = min(start + BATCH_ROWS, segment.num_docs)
                columns = [_column(segment, field, start, stop) for field in target]
                yield pa.RecordBatch.from_arrays(columns, schema=target)
        finally:
            segment.close()


def _column(segment: Any, field: pa.Field, start: int, stop: int) -> pa.Array:
    if field.name not in segment.column_names:
        return pa.nulls(stop - start, field.type)  # a column that is younger than the segment
    return to_arrow(segment.column(field.name).with_forward().values(start, stop), stop - start).cast(field.type)
