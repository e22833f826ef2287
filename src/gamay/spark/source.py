"""Spark's data source `gamay`, which reads and writes tables by PySpark's Python Data Source API.

The driver plans a read (`gamay.spark.reading.snapshot`), executors run it (`gamay.spark.reading.scan`).

Spark keeps one read plan per `load()`, which all queries of that DataFrame share (PySpark 4.3: the field `readInfo` of
`PythonDataSourceV2`). So a DataFrame is a snapshot of the table, and filters pushed down by one query would apply to all
others, including both sides of a self-join. Rows are therefore selected by the option `where`, which belongs to the
DataFrame, and Spark's own filters are pushed down only with the option `pushDown`, for DataFrames used by one query.
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
    """Register the format `gamay` in a SparkSession and, given a controller, a temporary view for each of its tables.

    options: options of the format for all views, such as `token`. Returns the names of the views: those of the tables, with
    `_` instead of the dot after a database. Raises InvalidConfigError and the errors of `HttpService.request`.
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
    """A table of a Gamay cluster. Raises InvalidConfigError for unknown, missing or invalid options."""

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
            GamayWriter,  # imported here since reads do not need it, and each plan starts a new process
        )

        return GamayWriter(WriteOptions.of(_plain(self.options), RANDOM_IDS.new), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "GamayStreamWriter":
        from gamay.spark.streaming.sink import GamayStreamWriter

        return GamayStreamWriter(WriteOptions.of_stream(_plain(self.options)), schema, overwrite)


def _plain(options: Mapping[str, str]) -> dict[str, str]:
    return dict(options.items())
