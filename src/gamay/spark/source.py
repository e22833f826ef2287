"""The format `gamay` of Spark, to read tables and to write them, by PySpark's Data Source API for Python.

The driver settles what is read (`gamay.spark.reading.snapshot`), executors read it (`gamay.spark.reading.scan`).

Spark keeps one plan of a read for each `load()`, whatever queries are made of that DataFrame (PySpark 4.3: the field
`readInfo` of `PythonDataSourceV2`). So a DataFrame is one moment of the table; and filters that one query pushes down would
be those of all others, of both sides of a self-join, too. That is why rows are chosen by the option `where`, which belongs
to the DataFrame, and Spark's own filters are pushed down only by the option `pushDown`, for DataFrames of one query.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from gamay.base.ids import RANDOM_IDS
from gamay.spark.reading.reader import GamayReader, PushingReader
from gamay.spark.reading.snapshot import check_columns, table_schema
from gamay.spark.reading.types import struct_type
from gamay.spark.session.clusters import remember
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
        if options.where:
            from gamay.spark.reading.conditions import check_where  # loads the engine, see there

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


def _plain(options: Mapping[str, str]) -> dict[str, str]:
    return dict(options.items())
