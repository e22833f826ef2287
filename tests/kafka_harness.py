"""A Kafka topic that tests can change; `tests/conftest.py` starts the broker."""

import os
import time
from collections.abc import Sequence

from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.plugins import open_stream
from gamay.ingest.stream.spi import StreamConsumerFactory, StreamContext


class KafkaHarness:
    def __init__(self, address: str) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        self.address = address
        self.admin = AdminClient({"bootstrap.servers": address})
        self.producer = Producer({"bootstrap.servers": address})
        self.names: dict[str, str] = {}

    def topic(self, name: str) -> str:
        """Return the name of this run: brokers may outlive it."""
        return self.names.get(name, name)

    def open(self, topic: str, **keys: str) -> StreamConsumerFactory:
        named = {"streamType": "kafka", "stream.kafka.topic.name": self.topic(topic)}
        config = StreamConfig.parse({**named, "stream.kafka.broker.list": self.address, **keys})
        return open_stream(config, StreamContext())

    def create(self, topic: str, partitions: int = 1) -> None:
        from confluent_kafka.admin import NewTopic

        self.names[topic] = f"{topic}-{os.getpid()}-{time.time_ns()}"
        for done in self.admin.create_topics([NewTopic(self.topic(topic), partitions, 1)]).values():
            done.result()
        while len(self.admin.list_topics(self.topic(topic)).topics[self.topic(topic)].partitions) != partitions:
            time.sleep(0.02)

    def produce(
        self, topic: str, messages: Sequence[bytes | None], partition: int = 0, keys: Sequence[bytes | None] | None = None
    ) -> None:
        for message, key in zip(messages, keys or [None] * len(messages), strict=True):
            self.producer.produce(self.topic(topic), message, key, partition)
        assert self.producer.flush(30) == 0

    def grow(self, topic: str, partitions: int) -> None:
        from confluent_kafka.admin import NewPartitions

        for done in self.admin.create_partitions([NewPartitions(self.topic(topic), partitions)]).values():
            done.result()

    def configure(self, topic: str, **settings: str) -> None:
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

        to_set = [ConfigEntry(k, v, incremental_operation=AlterConfigOpType.SET) for k, v in settings.items()]
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.topic(topic), incremental_configs=to_set)
        for done in self.admin.incremental_alter_configs([resource]).values():
            done.result()

    def lose(self, topic: str, before: int) -> None:
        from confluent_kafka import TopicPartition

        for done in self.admin.delete_records([TopicPartition(self.topic(topic), 0, before)]).values():
            done.result()
