"""`df.writeStream.format("gamay")`: the segments of each micro-batch are published atomically and exactly once.

Executors build segments and upload them hidden, as in `gamay.spark.writing.sink`. The driver publishes them and atomically
stores the query's id and the batch's number in the table's records (`gamay.controller.segments.lineage`). If Spark repeats a
batch because the driver died before it was checkpointed, tasks find that number and write nothing, and the controller
rejects later commits of the batch, including those of a driver that was assumed dead.

Spark passes the number of a batch to the commit, but the query's id to tasks only, which return it with their segments.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from gamay.base.errors import ConflictError, InvalidConfigError
from gamay.base.ids import RANDOM_IDS
from gamay.client.controller import ControllerClient
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType
from gamay.spark.building.attempts import with_attempts
from gamay.spark.source_options import WriteOptions
from gamay.spark.writing.hidden import Announced, upload_hidden
from gamay.spark.writing.sink import ATTEMPTS, HiddenJob, read_documents

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


@dataclass
class StreamWritten(WriterCommitMessage):
    """The segments that one task uploaded. query_id: common to all batches of a checkpoint."""

    query_id: str
    segments: tuple[Announced, ...]


class GamayStreamWriter(DataSourceStreamArrowWriter):
    """The writer of a streaming query into a table; created on the driver for each batch and sent to executors.

    overwrite: each batch replaces all rows of the table (output mode `complete`).
    Raises InvalidConfigError for options and columns that do not fit the table, NotFoundError for an unknown table.
    """

    def __init__(self, options: WriteOptions, struct: StructType, overwrite: bool) -> None:
        self._options = options
        self._overwrite = overwrite
        with options.cluster.client() as client:
            if options.create_table:
                from gamay.spark.writing.new_table import create_table

                create_table(client, options, to_arrow_schema(struct, timezone="UTC"))
            schema, config = read_documents(client, options)
        if overwrite and options.table_type == TableType.REALTIME.value:
            raise InvalidConfigError(
                f"REALTIME table '{options.cluster.table}' has what its stream has: use .outputMode('append')"
            )
        if overwrite and config.active_upsert is not None:
            raise InvalidConfigError(
                f"table '{options.cluster.table}' has primary keys: rows replace those of their keys; "
                f"use .outputMode('update') or .outputMode('append')"
            )
        self._documents = (orjson.dumps(schema.to_json()), orjson.dumps(config.to_json()))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamWritten:
        """Build and upload the segments of one Spark partition of a batch, in an executor."""
        from pyspark import TaskContext

        from gamay.spark.writing.segment_writer import TaskWriter

        context: Any = TaskContext.get()
        query_id, batch_id = context.getLocalProperty(_QUERY_ID), int(context.getLocalProperty(_BATCH_ID))
        schema, config = (orjson.loads(text) for text in self._documents)
        # unique, since a dead driver may have left segments of this task, which the commit removes
        attempt = RANDOM_IDS.new()[:8]
        prefix = f"{self._job(query_id, batch_id).prefix}{context.partitionId():05d}_{attempt}"
        with self._options.cluster.client() as client:
            if self._is_shown(client, query_id, batch_id):
                return StreamWritten(query_id, ())
            put = partial(upload_hidden, client, self._options)
            parts = (self._options, Schema.from_json(schema).value, TableConfig.from_json(config).value, put, prefix)
            return StreamWritten(query_id, tuple(TaskWriter(*parts).write(iterator)))

    def commit(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        """Publish a batch atomically, unless it already was; remove the segments left by failed attempts."""
        told = [message for message in messages if isinstance(message, StreamWritten)]
        if not told:
            return
        table, kind, query_id = self._options.cluster.table, self._options.table_type, told[0].query_id
        job = self._job(query_id, batch_id)
        written = [one for message in told for one in message.segments]
        with self._options.cluster.client() as client:
            try:
                if self._is_shown(client, query_id, batch_id):
                    job.remove_left(client, ())
                    return
                job.remove_left(client, [one.name for one in written])
                entries = [one.entry for one in written]
                replaced = client.list_segments(table, kind, queried_only=True) if self._overwrite else []
                if replaced:
                    entries.append(client.start_replace(table, replaced, [], kind))
                if entries:
                    batch = (query_id, batch_id)
                    with_attempts(lambda: client.end_replaces(table, entries, kind, batch), ATTEMPTS)
            except BaseException as error:
                job.remove_left(client, ())
                if not isinstance(error, ConflictError) or not self._is_shown(client, query_id, batch_id):
                    raise  # else another driver has published it

    def abort(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        """Remove the batch's hidden segments; without a message from any task, the next attempt removes them."""
        for message in messages:
            if isinstance(message, StreamWritten):
                with self._options.cluster.client() as client:
                    self._job(message.query_id, batch_id).remove_left(client, ())
                return

    def _is_shown(self, client: ControllerClient, query_id: str, batch_id: int) -> bool:
        return client.shown_batches(self._options.cluster.table, self._options.table_type).get(query_id, -1) >= batch_id

    def _job(self, query_id: str, batch_id: int) -> HiddenJob:
        return HiddenJob(self._options.cluster.table, self._options.table_type, f"{query_id}-{batch_id}")
