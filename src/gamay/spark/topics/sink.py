"""The messages of a batch into the topic that is repartitioned, by tasks; what a task has written stays.

A task that is run again writes its messages again: each comes at least once, and those of a key in their order.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from gamay.spark.topics.placement import NOWHERE, Placement, Placer
from gamay.spark.topics.producers import open_producer


class RepartitionWriter(DataSourceStreamArrowWriter):
    """The writes of a streaming query into a topic; made on the driver, sent to executors."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the messages of one Spark partition, each to its partition of the topic. Raises as `Placer.partitions`."""
        placer = Placer(self._placement)
        with open_producer(self._placement.to) as producer:
            for batch in iterator:
                values, keys = (batch.column(name).cast(pa.binary()) for name in ("value", "key"))
                partitions = placer.partitions(keys, values)
                for partition in np.unique(partitions[partitions != NOWHERE]).tolist():
                    producer.send(partition, batch.filter(pc.equal(pa.array(partitions), partition)))
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        """Do nothing: what tasks have written is there."""

    def abort(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        """Do nothing: the batch is run again."""
