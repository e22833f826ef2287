"""In-memory sorting of the rows of a segment."""

from collections.abc import Iterator, Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.types import DataType
from gamay.spark.building.layout import filled

_BATCH_ROWS = 65_536


def in_order(batches: Sequence[pa.RecordBatch], schema: Schema, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield rows sorted stably by some columns, or unchanged if there are none.

    Nulls are sorted as their column's default value. Memory: the rows, and one copy of their largest column.
    """
    if not columns or not batches:
        yield from batches
        return
    rows = pa.Table.from_batches(batches)
    keys = {name: _sort_key(rows.column(name), schema.field(name)) for name in columns}
    indices = pc.sort_indices(pa.table(keys), [(name, "ascending") for name in keys])
    arrow_schema, parts = rows.schema, []
    for number in range(rows.num_columns):
        parts.append(_contiguous(rows.column(number)))
    del rows, keys
    for start in range(0, len(indices), _BATCH_ROWS):
        some = indices.slice(start, _BATCH_ROWS)
        yield pa.RecordBatch.from_arrays([part.take(some) for part in parts], schema=arrow_schema)


def _contiguous(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _sort_key(column: pa.ChunkedArray, spec: FieldSpec) -> pa.ChunkedArray | pa.Array:
    """Return the sort keys of a column's values."""
    values = filled(column, spec)
    if spec.data_type is not DataType.BIG_DECIMAL:
        return values
    texts = values.combine_chunks().dictionary_encode()  # the order of the texts is not that of the numbers
    places = {number: place for place, number in enumerate(sorted({Decimal(t) for t in texts.dictionary.to_pylist()}))}
    return pa.array([places[Decimal(t)] for t in texts.dictionary.to_pylist()], pa.int64()).take(texts.indices)
