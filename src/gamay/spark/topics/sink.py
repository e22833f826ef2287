"""The sink of repartitioned messages: tasks write to the target topic, without rollback.

A repeated task writes its messages again, so delivery is at least once, and in order for each key.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from gamay.spark.topics.placement import NOWHERE, Placement, Placer
from gamay.spark.topics.producers import open_producer


class RepartitionWriter(DataSourceStreamArrowWriter):
    """The writer of a streaming query into a topic; created on the driver and sent to executors."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the messages of one Spark partition, each to its topic partition. Raises as `Placer.partitions` does."""
        placer = Placer(self._placement)
        with open_producer(self._placement.to) as producer:
            for batch in iterator:
                values, keys = (batch.column(name).cast(pa.binary()) for name in ("value", "key"))
                partitions = placer.partitions(keys, values)
                for partition in np.unique(partitions[partitions != NOWHERE]).tolist():
                    producer.send(partition, batch.filter(pc.equal(pa.array(partitions), partition)))
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        """Do nothing: the messages are already written."""

    def abort(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        """Do nothing: Spark repeats the batch."""
