"""A read of a table: what executors read is settled on the driver."""

from collections.abc import Iterable, Iterator, Sequence

import orjson
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from gamay.base.errors import InvalidConfigError
from gamay.model.schema.schema import Schema
from gamay.model.table.stored import stored_schema
from gamay.spark.reading.pushed_filters import condition
from gamay.spark.reading.snapshot import TablePart, Wanted, check_columns, plan, table_schema
from gamay.spark.reading.types import struct_type
from gamay.spark.source_options import ReadOptions


class GamayReader(DataSourceReader):
    """A read of some columns of a table, made on the driver, sent to executors.

    struct: the columns; those of a schema that the user has given, too: then other columns are not read at all.
    """

    def __init__(self, options: ReadOptions, struct: StructType) -> None:
        self._options = options
        self._struct = struct
        self._conditions = [options.where] if options.where else []
        schema = table_schema(options.cluster)
        self._schema_json = orjson.dumps(schema.to_json())
        check_columns(struct.fieldNames(), schema, options.cluster.table)
        _check_types(struct, schema, options)

    def partitions(self) -> Sequence[InputPartition]:
        """Return what executors read, of the table as it is now."""
        wanted = Wanted(tuple(self._struct.fieldNames()), tuple(self._conditions))
        return [InputPartition(part) for part in plan(self._options, wanted)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one of the partitions."""
        part: TablePart | None = partition.value
        if part is None:  # Spark's own partition, where there are none
            return iter(())
        from gamay.spark.reading.scan import Scan  # of executors: no process that plans has to load the engine

        target = to_arrow_schema(self._struct, timezone="UTC")
        return Scan(self._options, self._schema_json).read(part, target)


class PushingReader(GamayReader):
    """A read that takes over Spark's filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take over the filters that Gamay evaluates as Spark does; return the others."""
        schema = stored_schema(orjson.loads(self._schema_json))
        for one in filters:
            text = condition(one, schema, self._options.null_handling)
            if text is None:
                yield one
            else:
                self._conditions.append(text)


def _check_types(struct: StructType, schema: Schema, options: ReadOptions) -> None:
    expected = struct_type([schema.field(name) for name in struct.fieldNames()], options.big_decimal)
    for given, wanted in zip(struct.fields, expected.fields, strict=True):
        if given.dataType != wanted.dataType:
            raise InvalidConfigError(
                f"column '{given.name}' of table '{options.cluster.table}' is read as {wanted.dataType.simpleString()}, not "
                f"as {given.dataType.simpleString()}; cast it after reading"
            )
