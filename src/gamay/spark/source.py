"""The format `gamay` of Spark, to read tables and to write them, by PySpark's Data Source API for Python.

The driver settles what is read (`gamay.spark.reading.snapshot`), executors read it (`gamay.spark.reading.scan`).

Spark keeps one plan of a read for each `load()`, whatever queries are made of that DataFrame (PySpark 4.3: the field
`readInfo` of `PythonDataSourceV2`). So a DataFrame is one moment of the table; and filters that one query pushes down would
be those of all others, of both sides of a self-join, too. That is why rows are chosen by the option `where`, which belongs
to the DataFrame, and Spark's own filters are pushed down only by the option `pushDown`, for DataFrames of one query.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from gamay.base.errors import InvalidConfigError
from gamay.base.ids import RANDOM_IDS
from gamay.model.schema.schema import Schema
from gamay.model.table.stored import stored_schema
from gamay.spark.reading.pushed_filters import condition
from gamay.spark.reading.scan import Scan
from gamay.spark.reading.snapshot import TablePart, Wanted, check_columns, check_where, plan, table_schema
from gamay.spark.reading.types import struct_type
from gamay.spark.source_options import ReadOptions, WriteOptions

if TYPE_CHECKING:
    from gamay.spark.streaming.sink import GamayStreamWriter
    from gamay.spark.streaming.source import GamayStreamReader
    from gamay.spark.writing.sink import GamayWriter

FORMAT = "gamay"


def register(spark: Any, controller: str | None = None, **options: str) -> list[str]:
    """Make the format `gamay` known to a SparkSession; given a controller, make each of its tables a temporary view.

    options: of the format, for all of these, such as `token`. Return the names of the views: those of the tables, in which
    `_` stands for the dot behind a database. Raises InvalidConfigError and the errors of `HttpService.request`.
    """
    spark.dataSource.register(GamayDataSource)
    if controller is None:
        return []
    from gamay.spark.queries.run import remember

    given = {"controller": controller, **options}
    remember(spark, given)
    with ReadOptions.of({**given, "table": "any"}).cluster.client() as client:
        tables = client.list_tables()
    views = []
    for table in tables:
        views.append(table.replace(".", "_"))
        spark.read.format(FORMAT).options(**given, table=table).load().createOrReplaceTempView(views[-1])
    return views


class GamayDataSource(DataSource):
    """A table of a Gamay cluster. Raises InvalidConfigError for options that are unknown, missing or wrong."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        options = ReadOptions.of_any(_plain(self.options))
        schema = table_schema(options.cluster)
        check_columns(options.columns, schema, options.cluster.table)
        check_where(options.where, schema, options.cluster.table)
        names = options.columns or tuple(spec.name for spec in schema.stored_fields)
        struct: StructType = struct_type([schema.field(name) for name in names], options.big_decimal)
        return struct

    def reader(self, schema: StructType) -> "GamayReader":
        options = ReadOptions.of(_plain(self.options))
        return (PushingReader if options.push_down else GamayReader)(options, schema)

    def streamReader(self, schema: StructType) -> "GamayStreamReader":
        from gamay.spark.streaming.options import StreamReadOptions
        from gamay.spark.streaming.source import GamayStreamReader

        return GamayStreamReader(StreamReadOptions.of(_plain(self.options)), schema)

    def writer(self, schema: StructType, overwrite: bool) -> "GamayWriter":
        from gamay.spark.writing.sink import (
            GamayWriter,  # not for those who read: planning is a process of its own each time
        )

        return GamayWriter(WriteOptions.of(_plain(self.options), RANDOM_IDS.new), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "GamayStreamWriter":
        from gamay.spark.streaming.sink import GamayStreamWriter

        return GamayStreamWriter(WriteOptions.of_stream(_plain(self.options)), schema, overwrite)


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


def _plain(options: Mapping[str, str]) -> dict[str, str]:
    return dict(options.items())
