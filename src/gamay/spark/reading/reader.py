"""A read of a table, planned on the driver."""

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
    """A read of some columns of a table, created on the driver and sent to executors.

    struct: the columns to read, which may be those of a schema given by the user.
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
        """Return the parts that executors read, from a snapshot of the table taken now."""
        wanted = Wanted(tuple(self._struct.fieldNames()), tuple(self._conditions))
        return [InputPartition(part) for part in plan(self._options, wanted)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one of the partitions."""
        part: TablePart | None = partition.value
        if part is None:  # Spark's placeholder if there are no partitions
            return iter(())
        from gamay.spark.reading.scan import Scan  # only in executors, so that planning does not load the engine

        target = to_arrow_schema(self._struct, timezone="UTC")
        return Scan(self._options, self._schema_json).read(part, target)


class PushingReader(GamayReader):
    """A read that applies Spark's filters itself where possible."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Accept the filters that Gamay evaluates exactly as Spark does; return the others."""
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
