"""`gamay.spark.repartition`: copies a topic to one partitioned as a REALTIME table with primary keys requires.

Such tables need all messages of a key in one partition of their topic, the one given by `segmentPartitionConfig`. Producers
that do not ensure this write to another topic, from which this job reads.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.client.controller import ControllerClient
from gamay.ingest.stream.config import StreamConfig, stream_configs
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import raw_table_name
from gamay.spark.topics.placement import Placement, Placer, partition_column
from gamay.spark.topics.producers import open_producer
from gamay.spark.topics.source import FORMAT, TopicSource
from gamay.spark.topics.topic import TopicAddress

BAD_MESSAGES = ("fail", "skip")


def repartition(
    spark: Any,
    client: ControllerClient,
    table: str,
    from_topic: str,
    checkpoint: str,
    *,
    source: Mapping[str, str] | None = None,
    folder: str | None = None,
    partition_by: str | None = None,
    messages_per_batch: int | None = None,
    bad_messages: str = "fail",
    fail_on_data_loss: bool = True,
    trigger: Mapping[str, Any] | None = None,
) -> Any:
    """Start a streaming query that copies the messages of a topic to the one that a table consumes; return the query.

    Each message is copied unchanged, with its key, to the partition that the table's partition function gives for its row.

    table: a REALTIME table. from_topic: the topic to read. checkpoint: the folder of the query's checkpoint.
    source: stream config keys in which `from_topic` differs from the table's topic, such as its brokers. folder: where the
    embedded log keeps its topics. partition_by: the column, None for that of the primary key. messages_per_batch:
    approximate, None for all available. bad_messages: `fail`, or `skip` to drop messages that are not rows.
    fail_on_data_loss: whether messages that the source lost before they were read fail the query. trigger: the arguments of
    `DataStreamWriter.trigger`; None stops when all messages available now are written.

    Raises InvalidConfigError for invalid arguments, NotFoundError for an unknown table or topic, and the errors of the
    stream and of `HttpService.request`.
    """
    if bad_messages not in BAD_MESSAGES:
        raise InvalidConfigError(f"bad_messages must be one of {', '.join(BAD_MESSAGES)}, not '{bad_messages}'")
    if messages_per_batch is not None and messages_per_batch < 1:
        raise InvalidConfigError(f"messages_per_batch must be at least 1, not {messages_per_batch}")
    schema, config = _documents(client, table)
    column, num_partitions = partition_column(schema, config, partition_by)
    written = TopicAddress(_keys(config), folder)
    read = TopicAddress(_with_topic({**written.keys, **(source or {})}, from_topic), folder)
    _check(read, written, num_partitions, column)
    placement = Placement(written, column, schema.to_json(), config.to_json(), bad_messages == "skip")
    Placer(placement)  # raises the errors of its decoder here
    with open_producer(written):
        pass
    spark.dataSource.register(TopicSource)
    reader = spark.readStream.format(FORMAT).option("topic", orjson.dumps({"keys": read.keys, "folder": folder}).decode())
    reader = reader.option("failOnDataLoss", str(fail_on_data_loss).lower())
    if messages_per_batch is not None:
        reader = reader.option("maxMessages", str(messages_per_batch))
    writer = reader.load().writeStream.format(FORMAT).option("placement", placement.to_json())
    writer = writer.option("checkpointLocation", checkpoint).queryName(f"repartition {from_topic} to {written.config.topic}")
    return writer.trigger(**(trigger or {"availableNow": True})).start()


def _documents(client: ControllerClient, table: str) -> tuple[Schema, TableConfig]:
    raw = raw_table_name(table)
    document = client.table_config(raw).get("REALTIME")
    if document is None:
        raise NotFoundError(f"there is no REALTIME table '{raw}'")
    return Schema.from_json(client.table_schema(raw)).value, TableConfig.from_json(document).value


def _keys(config: TableConfig) -> dict[str, str]:
    """Return the stream config keys of a table's topic."""
    topics = stream_configs(config)
    if len(topics) != 1:
        raise InvalidConfigError(f"table '{config.typed_name}' consumes {len(topics)} topics; one can be repartitioned into")
    stream = config.ingestion.stream
    return dict(config.indexing.stream_configs or {} if stream is None else stream.stream_config_maps[0])


def _with_topic(keys: dict[str, str], topic: str) -> dict[str, str]:
    kind = StreamConfig.parse(keys, "source").stream_type
    return {**keys, f"stream.{kind}.topic.name": topic}


def _check(read: TopicAddress, written: TopicAddress, num_partitions: int, column: str) -> None:
    same = read.config.topic == written.config.topic and read.config.properties == written.config.properties
    if same and read.config.client_properties == written.config.client_properties:
        raise InvalidConfigError(f"the topic '{written.config.topic}' cannot be repartitioned into itself")
    found = written.partitions()
    read.partitions()
    if found != tuple(range(num_partitions)):
        raise InvalidConfigError(
            f"the topic '{written.config.topic}' has {len(found)} partitions, but segmentPartitionConfig has numPartitions "
            f"{num_partitions} for '{column}'; they must be the same"
        )
