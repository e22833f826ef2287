"""`df.write.format("gamay")`: executors build segments and upload them, hidden; the driver shows all of them in one step.

Each uploaded segment is announced before as one that will replace others (segment lineage), so that no query sees it. The
commit ends these announcements together with one of what is replaced: queries see all that was there, then all that is new.

Segments are named `<table>_job-<id>_<partition>_<attempt>_<number>`. What attempts of tasks have left behind that failed, or
came second, is told by their names and removed; and a job that finds segments of its own in the table has been done already.

Spark makes the writer in one process, and has another one commit: modules that load the engine are imported where they are
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
    """What one task has uploaded. reports: of these segments. reading: of the rows that they are made of."""

    segments: tuple[Announced, ...]
    reports: tuple[SegmentReport, ...] = ()
    reading: tuple[SegmentReport, ...] = ()


@dataclass(frozen=True, slots=True)
class HiddenJob:
    """The segments of one write, by their names, from their upload to the moment when all of them are shown."""

    table: str
    table_type: str
    job_id: str

    @property
    def prefix(self) -> str:
        """Return how the names of its segments begin."""
        return f"{self.table}_job-{self.job_id}_"

    def is_visible(self, client: ControllerClient) -> bool:
        """Return whether queries see segments of it."""
        return any(
            name.startswith(self.prefix) for name in client.list_segments(self.table, self.table_type, queried_only=True)
        )

    def remove_left(self, client: ControllerClient, kept: Sequence[str]) -> None:
        """Remove its segments that nobody sees and that are not to be kept, and what announced them."""
        stay = set(kept)
        for entry_id, entry in client.lineage(self.table, self.table_type).items():
            ours = [name for name in entry["segmentsTo"] if name.startswith(self.prefix) and name not in stay]
            if ours and entry["state"] == IN_PROGRESS:
                with suppress(ConflictError):  # another driver of the job has shown them meanwhile
                    client.revert_replace(self.table, entry_id, self.table_type)
        stay.update(client.list_segments(self.table, self.table_type, queried_only=True))
        found = client.list_segments(self.table, self.table_type)
        left = [name for name in found if name.startswith(self.prefix) and name not in stay]
        if left:
            client.delete_segments(f"{self.table}_{self.table_type}", left)


class GamayWriter(DataSourceArrowWriter):
    """One write of a DataFrame into a table; made on the driver, sent to executors, and back to the driver for the commit.

    Raises InvalidConfigError for options and columns that do not fit the table, NotFoundError for a table that is not there.
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
        """Show what was written, and hide what it replaces, in one step; remove what failed attempts have left."""
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
                if entries:  # ended once, they may be ended again: an answer may be lost
                    with_attempts(lambda: client.end_replaces(table, entries, kind), ATTEMPTS)
            except BaseException as error:
                self._job.remove_left(client, ())
                if not isinstance(error, ServiceError) or not self._job.is_visible(client):
                    raise  # else it has ended, and only the answer was lost
        reports = [report for message in told for report in message.reports]
        self._telling.complete(reports, [report for message in told for report in message.reading])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what tasks have uploaded; nobody has seen it."""
        if self._is_done:
            return
        self._telling.fail()
        with self._options.cluster.client() as client:
            self._job.remove_left(client, ())

    def _replaced(self, client: ControllerClient) -> Replaced:
        """Return what the new segments take the place of; the rows of it that stay are uploaded, hidden."""
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
    """Return the schema and config of the table to write to.

    Raises NotFoundError when it is not there, ConflictError when it has primary keys and rows of a condition are replaced,
    InvalidConfigError as `WriteLayout.of` and `check_stream_partitions`, and QueryError for a condition that does not fit.
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
