"""Assignment of messages to partitions of the target topic."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from gamay.base.errors import InvalidConfigError, RecordError
from gamay.ingest.stream.decode.fields import input_fields
from gamay.ingest.stream.offsets import IntegerOffset
from gamay.ingest.stream.plugins import open_decoder
from gamay.ingest.stream.spi import MessageBatch, Undecodable
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.spark.building.layout import partitioner
from gamay.spark.topics.topic import TopicAddress

NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Placement:
    """The parameters by which executors assign messages to partitions.

    to: the target topic. column: the partition column; schema and config are those of the table, as JSON. skips: whether
    messages without a definite partition are dropped; else they are errors.
    """

    to: TopicAddress
    column: str
    schema: dict[str, Any]
    config: dict[str, Any]
    skips: bool = False

    def to_json(self) -> str:
        """Return the placement as JSON."""
        return orjson.dumps(asdict(self)).decode()

    @classmethod
    def from_json(cls, text: str) -> "Placement":
        """Parse the result of `to_json`."""
        document = orjson.loads(text)
        return cls(**{**document, "to": TopicAddress(**document["to"])})


class Placer:
    """An assignment of messages to partitions by the values that they have in a table. For one task; not thread-safe."""

    def __init__(self, placement: Placement) -> None:
        """Raises InvalidConfigError for an unknown or misconfigured decoder."""
        ingestion = {k: v for k, v in (placement.config.get("ingestionConfig") or {}).items() if k != "filterConfig"}
        schema = Schema.from_json(placement.schema).value
        config = TableConfig.from_json({**placement.config, "ingestionConfig": ingestion}).value
        self._placement = placement
        self._decoder = open_decoder(placement.to.config, input_fields(schema, config))
        self._pipeline = Pipeline(schema, config, drop_failed=True)
        self._partitions = partitioner(schema, config, placement.column)

    def partitions(self, keys: pa.Array, values: pa.Array) -> "np.ndarray[Any, np.dtype[np.int32]]":
        """Return the partition of each message, NOWHERE for those to drop.

        keys, values: binary [n]. Raises RecordError for a message that is not a row, or has rows of several partitions,
        unless the placement skips these. Messages without a value have no row and are dropped.
        """
        count = len(values)
        batch = MessageBatch(
            values, pa.array(np.arange(count)), np.full(count, -1, np.int64), IntegerOffset(count), keys=keys
        )
        decoded = self._decoder.decode(batch)
        found = np.full(count, NOWHERE, np.int32)
        bad = list(decoded.undecodable)
        if decoded.rows.num_rows:
            rows = self._pipeline.apply(decoded.rows)
            of_row = np.asarray(self._partitions(rows))
            messages = np.asarray(decoded.message_of_row)[self._pipeline.origins]
            found[messages] = of_row  # for a message with several rows, that of the last one
            bad += [
                Undecodable(int(decoded.message_of_row[row]), why) for row, why in sorted(self._pipeline.dropped.items())
            ]
            bad += [
                Undecodable(int(message), "its rows are of several partitions")
                for message in np.unique(messages[found[messages] != of_row])
            ]
        if bad and not self._placement.skips:
            raise RecordError(
                f"a message cannot be put in its place: {bad[0].reason} ({values[bad[0].message].as_py()[:100]!r}); let "
                f"bad_messages be 'skip' to leave such ones out"
            )
        found[[one.message for one in bad]] = NOWHERE
        return found


def partition_column(schema: Schema, config: TableConfig, wanted: str | None) -> tuple[str, int]:
    """Return the partition column of a table, and the number of partitions.

    wanted: selects one of several, None prefers one of the primary key. Raises InvalidConfigError if the config has none.
    """
    partitioning = config.indexing.segment_partition
    columns = {} if partitioning is None else partitioning.columns
    keyed = [name for name in columns if name in schema.primary_key_columns]
    name = wanted or next(iter(keyed or columns), None)
    if name is None or name not in columns:
        what = "no column" if name is None else f"no column '{name}'"
        raise InvalidConfigError(
            f"segmentPartitionConfig of table '{config.typed_name}' has {what}: it must say by which function rows are "
            f"partitioned, as "
            f'{{"columnPartitionMap": {{"{name or "id"}": {{"functionName": "Murmur", "numPartitions": 8}}}}}}'
        )
    return name, columns[name].num_partitions
