"""`spark.readStream.format("gamay")`: the rows of a table's segments as these are committed.

The driver compares the segments read so far with the current ones (`gamay.spark.streaming.feed`); executors read segments as
for a DataFrame (`gamay.spark.reading.scan`). In tables with primary keys each row is a change: all rows of new segments are
returned, valid or not, unless an option restricts them to valid ones. Rows of consuming segments follow when these are
committed.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from gamay.base.errors import ConflictError, InvalidConfigError
from gamay.model.table.stored import stored_table_config
from gamay.spark.reading.reader import GamayReader
from gamay.spark.reading.snapshot import Wanted, plan, plan_named
from gamay.spark.streaming.feed import Feed, from_offset, to_offset, to_read
from gamay.spark.streaming.options import StreamReadOptions


class GamayStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream of some columns of a table, planned on the driver; executors read its batches.

    Raises as `GamayReader` does, and InvalidConfigError for a hybrid table without a choice of its type.
    """

    def __init__(self, options: StreamReadOptions, struct: StructType) -> None:
        self._options = options
        self._reader = GamayReader(options.read, struct)
        self._wanted = Wanted(tuple(struct.fieldNames()), (options.read.where,) if options.read.where else ())
        self._target: set[str] | None = None  # for the trigger availableNow: the segments when the query started

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset at which a new query starts."""
        return to_offset(self._feed()[0].committed() if self._options.starts_latest else {})

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of a batch."""
        return ReadMaxFiles(self._options.segments_max)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end offset of the next batch. Raises ConflictError as `Feed.after` does."""
        seen = from_offset(start)
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else len(seen) + 2**31
        after = self._feed()[0].after(seen, most, self._target)
        return start if after == seen else to_offset(after)

    def prepareForTriggerAvailableNow(self) -> None:
        """Restrict the query to the segments that exist now."""
        self._target = set(self._feed()[0].committed())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the parts that executors read of the segments between two offsets.

        Raises ConflictError for segments that were deleted or replaced, unless data loss is tolerated.
        """
        feed, snapshot = self._feed()
        wanted = to_read(from_offset(start), from_offset(end))
        found = [one for one in feed.half["segments"] if wanted.get(one["name"]) == one["crc"]]
        if len(found) < len(wanted) and self._options.fails_on_data_loss:
            gone = min(wanted.keys() - {one["name"] for one in found})
            raise ConflictError(
                f"segment '{gone}' of table '{feed.half['table']}' is gone, or was replaced, before this stream has "
                f"read it: say .option('failOnDataLoss', 'false') to go on without its rows"
            )
        if self._options.only_latest:
            parts = plan(self._options.read, self._wanted, only={one["name"]: one["crc"] for one in found})
        else:
            parts = plan_named(self._options.read, self._wanted, snapshot, found)
        return [InputPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one of the partitions."""
        return self._reader.read(partition)

    def _feed(self) -> tuple[Feed, dict[str, Any]]:
        cluster = self._options.read.cluster
        with cluster.client() as client:
            snapshot = client.read_snapshot(cluster.table, cluster.table_type)
        self._options.check_one_type(len(snapshot["halves"]))
        (half,) = snapshot["halves"]
        has_keys = stored_table_config(half["config"]).active_upsert is not None
        if self._options.only_latest and not has_keys:
            raise InvalidConfigError(
                f"the option 'changes' is for tables with primary keys: each row of '{half['table']}' counts"
            )
        return Feed(half, self._options.on_replace, has_keys), snapshot
