"""`df.write.format("gamay")`: executors build segments and upload them hidden; the driver publishes them atomically.

Before a segment is uploaded, an entry in the segment lineage is started for it, so that no query sees it. The commit ends
these entries together with one for the replaced segments, so queries see either all old or all new segments.

Segments are named `<table>_job-<id>_<partition>_<attempt>_<number>`. By their names, segments of failed or duplicate task
attempts are found and removed, and a job that finds its own segments visible in the table is already complete.

Spark creates the writer in one process and commits in another, so modules that load the engine are imported where they are
used.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from gamay.base.errors import ConflictError, InvalidConfigError, NotFoundError
from gamay.client.controller import ControllerClient
from gamay.client.http import ServiceError
from gamay.ingest.job.spec import PushJobSpec
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType
from gamay.spark.building.attempts import with_attempts
from gamay.spark.building.report import SegmentReport
from gamay.spark.source_options import WriteOptions
from gamay.spark.writing.hidden import IN_PROGRESS, Announced, Replaced, upload_hidden
from gamay.spark.writing.layout import WriteLayout, check_stream_partitions
from gamay.spark.writing.telling import WriteTelling

ATTEMPTS = PushJobSpec(push_attempts=3, push_retry_interval_ms=500)


@dataclass
class Written(WriterCommitMessage):
    """The segments that one task uploaded. reports: on these segments. reading: on the input rows."""

    segments: tuple[Announced, ...]
    reports: tuple[SegmentReport, ...] = ()
    reading: tuple[SegmentReport, ...] = ()


@dataclass(frozen=True, slots=True)
class HiddenJob:
    """The segments of one write, identified by their names, from their upload until they are published."""

    table: str
    table_type: str
    job_id: str

    @property
    def prefix(self) -> str:
        """The common prefix of the names of its segments."""
        return f"{self.table}_job-{self.job_id}_"

    def is_visible(self, client: ControllerClient) -> bool:
        """Return whether queries see its segments."""
        return any(
            name.startswith(self.prefix) for name in client.list_segments(self.table, self.table_type, queried_only=True)
        )

    def remove_left(self, client: ControllerClient, kept: Sequence[str]) -> None:
        """Remove its hidden segments except those to keep, and revert their lineage entries."""
        stay = set(kept)
        for entry_id, entry in client.lineage(self.table, self.table_type).items():
            ours = [name for name in entry["segmentsTo"] if name.startswith(self.prefix) and name not in stay]
            if ours and entry["state"] == IN_PROGRESS:
                with suppress(ConflictError):  # another driver of the job has published them
                    client.revert_replace(self.table, entry_id, self.table_type)
        stay.update(client.list_segments(self.table, self.table_type, queried_only=True))

        def left() -> list[str]:
            names = client.list_segments(self.table, self.table_type)
            return [name for name in names if name.startswith(self.prefix) and name not in stay]

        while names := left():
            with suppress(NotFoundError):  # a cancelled task that was still uploading removes its own segment
                client.delete_segments(f"{self.table}_{self.table_type}", names)


class GamayWriter(DataSourceArrowWriter):
    """One write of a DataFrame into a table; created on the driver, and sent to executors and the committing process.

    Raises InvalidConfigError for options and columns that do not fit the table, NotFoundError for an unknown table.
    """

    def __init__(self, options: WriteOptions, struct: StructType, overwrite: bool) -> None:
        self._options = options
        self._overwrite = overwrite
        if options.replace_where and not overwrite:
            raise InvalidConfigError("the option 'replaceWhere' is for mode('overwrite') only")
        if overwrite and options.table_type == TableType.REALTIME.value:
            raise InvalidConfigError(f"REALTIME table '{options.cluster.table}' has what its stream has: only append to it")
        arrow_schema = to_arrow_schema(struct, timezone="UTC")
        with options.cluster.client() as client:
            if options.create_table:
                from gamay.spark.writing.new_table import create_table

                create_table(client, options, arrow_schema)
            schema, config = read_documents(client, options)
            self._is_done = self._job.is_visible(client)
            if not self._is_done:
                self._job.remove_left(client, ())
        self._documents = (orjson.dumps(schema.to_json()), orjson.dumps(config.to_json()))
        self._telling = WriteTelling(options, schema)
        if self._is_done:
            self._telling.keep()
        else:
            self._telling.begin()

    @property
    def _job(self) -> HiddenJob:
        return HiddenJob(self._options.cluster.table, self._options.table_type, self._options.job_id)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Build and upload the segments of one Spark partition, in an executor."""
        if self._is_done:
            return Written(())
        from pyspark import TaskContext

        from gamay.spark.writing.segment_writer import TaskWriter

        context: Any = TaskContext.get()
        prefix = f"{self._job.prefix}{context.partitionId():05d}_{context.attemptNumber()}"
        schema, config = self._read_documents()
        with self._options.cluster.client() as client:
            put = partial(upload_hidden, client, self._options)
            writer = TaskWriter(self._options, schema, config, put, prefix)
            return Written(tuple(writer.write(iterator)), tuple(writer.reports), (writer.reading,))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Atomically publish the new segments and hide those replaced; remove the segments left by failed attempts."""
        if self._is_done:
            return
        table, kind = self._options.cluster.table, self._options.table_type
        told = [message for message in messages if isinstance(message, Written)]
        written = [one for message in told for one in message.segments]
        with self._options.cluster.client() as client:
            try:
                self._job.remove_left(client, [one.name for one in written])
                replaced = self._replaced(client)
                entries = [*(one.entry for one in written), *(one.entry for one in replaced.rewritten)]
                if replaced.segments:
                    entries.append(client.start_replace(table, replaced.segments, [], kind))
                if entries:  # ending is idempotent, so it is retried if a response is lost
                    with_attempts(lambda: client.end_replaces(table, entries, kind), ATTEMPTS)
            except BaseException as error:
                self._job.remove_left(client, ())
                if not isinstance(error, ServiceError) or not self._job.is_visible(client):
                    raise  # else it succeeded, and only the response was lost
        reports = [report for message in told for report in message.reports]
        self._telling.complete(reports, [report for message in told for report in message.reading])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the hidden segments that tasks uploaded."""
        if self._is_done:
            return
        self._telling.fail()
        with self._options.cluster.client() as client:
            self._job.remove_left(client, ())

    def _replaced(self, client: ControllerClient) -> Replaced:
        """Return the segments to replace, after uploading their remaining rows in hidden segments."""
        table = self._options.cluster.table
        if not self._overwrite:
            return Replaced((), ())
        if not self._options.replace_where:
            return Replaced(tuple(client.list_segments(table, self._options.table_type, queried_only=True)), ())
        from gamay.spark.writing.replaced_rows import replaced_by

        return replaced_by(self._options, client, *self._read_documents(), f"{self._job.prefix}kept")

    def _read_documents(self) -> tuple[Schema, TableConfig]:
        schema, config = (orjson.loads(text) for text in self._documents)
        return Schema.from_json(schema).value, TableConfig.from_json(config).value


def read_documents(client: ControllerClient, options: WriteOptions) -> tuple[Schema, TableConfig]:
    """Return the schema and config of the target table.

    Raises NotFoundError if it does not exist, ConflictError if it has primary keys and `replaceWhere` is set,
    and InvalidConfigError for an invalid condition and as `WriteLayout.of` and `check_stream_partitions` do.
    """
    table, kind = options.cluster.table, options.table_type
    try:
        configs = client.table_config(table)
    except NotFoundError:
        configs = {}
    if kind not in configs:
        raise NotFoundError(f"there is no {kind} table '{table}'{_hint(kind, configs)}")
    config = TableConfig.from_json(configs[kind]).value
    if config.active_upsert is not None and options.replace_where:
        raise ConflictError(f"table '{table}' has primary keys: rows replace those of their keys; append to it")
    schema = Schema.from_json(client.table_schema(table)).value
    layout = WriteLayout.of(options, schema, config)
    if kind == TableType.REALTIME.value:
        check_stream_partitions(layout, config, client.list_segments(table, kind))
    if options.replace_where:
        from gamay.spark.writing.replaced_rows import check_condition

        check_condition(options.replace_where, schema, config)
    return schema, config


def _hint(kind: str, configs: Mapping[str, Any]) -> str:
    other = next(iter(configs), None)
    if other is not None:
        return f", but {'an' if other == TableType.OFFLINE.value else 'a'} {other} one: say .option('tableType', '{other}')"
    return "; say .option('createTable', 'true') to create it" if kind == TableType.OFFLINE.value else ""
