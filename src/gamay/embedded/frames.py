"""DataFrames and files that a query uses as tables: `FROM frame`, `JOIN 'rows.parquet' AS r`."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import InvalidConfigError
from gamay.embedded.sources import open_source
from gamay.functions.arrow import arrow_type
from gamay.ingest.read.readers import format_of
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.relational.leaf import ARROW_TYPES
from gamay.relational.names import Frame, columns_of

_NAME = "frame"
# variables of these types may share a table's name by coincidence
_NO_FRAMES = (str, bytes, int, float, bool, type(None), type, Mapping, list, tuple, set)


def frames_of(names: Iterable[str], variables: Mapping[str, Any]) -> dict[str, Frame]:
    """Return the rows of the names that are variables with rows, or files. variables: the caller's, by name.

    Raises NotFoundError for a missing file, InvalidConfigError and RecordError for rows that cannot be read.
    """
    found: dict[str, Frame] = {}
    for name in names:
        data = variables.get(name)
        if data is not None and not isinstance(data, _NO_FRAMES) and not callable(data):
            found[name] = frame_of(data)
        elif _is_file(name):
            found[name] = frame_of(name)
    return found


def frame_of(data: Any) -> Frame:
    """Return data, as `Database.append` takes it, as rows for a query."""
    source = open_source(data)
    schema = source.infer(_NAME, None)
    batches = list(source.rows(Pipeline(schema, TableConfig.offline(_NAME))))
    stored = pa.schema([pa.field(name, _stored(schema, name)) for name in schema.column_names])
    table = pa.Table.from_batches(batches) if batches else stored.empty_table()
    columns = {name: columns_of(schema)[name] for name in schema.column_names}
    return Frame(columns, pa.table({name: _plain(table.column(name), *columns[name]) for name in columns}))


def _stored(schema: Schema, name: str) -> pa.DataType:
    field = schema.field(name)
    element = arrow_type(field.data_type)
    return element if field.single_value else pa.list_(element)


def _plain(column: pa.ChunkedArray, data_type: DataType, multi_value: bool) -> pa.ChunkedArray:
    """Return a column in the type that multi-table queries compute with."""
    wanted = ARROW_TYPES.get(data_type, pa.string())
    if data_type is DataType.BIG_DECIMAL and pa.types.is_string(column.type):
        return column.cast(pa.decimal128(38, 10))
    if multi_value:
        return column.cast(pa.list_(wanted))
    if pa.types.is_timestamp(column.type):
        return pc.cast(column.cast(pa.timestamp("ms")), pa.int64())
    return column.cast(wanted)


def _is_file(name: str) -> bool:
    try:
        format_of(name)
    except InvalidConfigError:
        return False
    return True
