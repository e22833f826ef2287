"""The combination of a reader and a pipeline."""

from collections.abc import Iterator

import pyarrow as pa

from gamay.ingest.read.records import RecordReader
from gamay.ingest.transform.pipeline import Pipeline


def conformed_batches(reader: RecordReader, pipeline: Pipeline) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file in the schema's types, each of at least one row; raises RecordError naming file and
    position."""
    first_row = 0
    for batch in reader:
        if not first_row:
            pipeline.check_columns(batch.schema.names, reader.file)
        start = first_row
        conformed = pipeline.apply(batch, reader.file, lambda row, start=start: reader.position(start + row))  # type: ignore[misc]
        first_row += batch.num_rows
        if conformed.num_rows:
            yield conformed
