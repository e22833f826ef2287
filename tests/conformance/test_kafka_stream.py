"""Features that only Kafka has: transactions, compaction, partitions by name, brokers that join and leave."""

import time
from typing import Any

import pyarrow as pa
import pytest

from gamay.ingest.stream.offsets import SMALLEST, Offset
from gamay.ingest.stream.spi import MessageBatch, PermanentStreamError

pytestmark = pytest.mark.kafka
LARGE = 1 << 24


def read_to_end(factory: Any, start: Offset) -> list[MessageBatch]:
    consumer = factory.partition_consumer(0)
    found = []
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        batch = consumer.fetch(start, 100, LARGE, 500)
        found.append(batch)
        start = batch.next_offset
        if not batch.next_offset < batch.end_offset:
            break
    consumer.close()
    return found


def transactions(kafka: Any) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": kafka.topic("t")})
    producer.init_transactions(30)
    for number, commits in enumerate([True, False, True]):
        producer.begin_transaction()
        for i in range(3):
            producer.produce(kafka.topic("t"), b"%d %d" % (number, i))
        if commits:
            producer.commit_transaction(30)
        else:
            producer.flush()
            producer.abort_transaction(30)


def test_markers_of_transactions_and_aborted_messages_are_passed_over(kafka: Any) -> None:
    kafka.create("t")
    transactions(kafka)
    committed = kafka.open("t", **{"stream.kafka.isolation.level": "read_committed"})
    metadata = committed.metadata()
    start, end = metadata.offset(0, SMALLEST), metadata.latest_offset(0)
    batches = read_to_end(committed, start)
    assert [v for b in batches for v in b.payloads.to_pylist()] == [b"%d %d" % (n, i) for n in (0, 2) for i in range(3)]
    assert all(b.gap is None for b in batches)
    assert batches[-1].next_offset == end  # past the last marker: caught up
    every = read_to_end(kafka.open("t"), start)
    assert sum(map(len, every)) == 9
    assert every[-1].next_offset == end
    metadata.close()


def test_some_partitions_only(kafka: Any) -> None:
    kafka.create("t", 4)
    assert kafka.open("t", **{"stream.kafka.partition.ids": "1-2"}).metadata().partition_ids() == (1, 2)
    with pytest.raises(PermanentStreamError, match="no partition 4"):
        kafka.open("t", **{"stream.kafka.partition.ids": "1,4-5"}).metadata().partition_ids()


def test_headers_come_where_metadata_is_asked_for(kafka: Any) -> None:
    kafka.create("t")
    kafka.producer.produce(kafka.topic("t"), b"x", headers=[("a", b"1"), ("b", None)])
    kafka.producer.flush()
    factory = kafka.open("t", **{"stream.kafka.metadata.populate": "true"})
    (batch,) = [b for b in read_to_end(factory, factory.parse_offset("0")) if len(b)]
    assert batch.headers is not None
    assert batch.headers.to_pylist() == [[("a", b"1"), ("b", b"")]]


def test_headers_are_written_as_they_were_read(kafka: Any) -> None:
    kafka.create("t")
    kafka.producer.produce(kafka.topic("t"), b"x", b"k", headers=[("a", b"1"), ("a", b"2")])
    kafka.produce("t", [b"y"])
    factory = kafka.open("t", **{"stream.kafka.metadata.populate": "true"})
    (batch,) = [b for b in read_to_end(factory, factory.parse_offset("0")) if len(b)]
    producer = factory.producer()
    assert list(map(str, producer.send(0, batch.payloads, batch.keys, batch.headers))) == ["2", "3"]
    producer.close()
    again = [b for b in read_to_end(factory, factory.parse_offset("2")) if len(b)]
    assert [h for b in again for h in b.headers.to_pylist()] == batch.headers.to_pylist() == [[("a", b"1"), ("a", b"2")], []]


def test_what_a_topic_does_not_take_is_told_by_message(kafka: Any) -> None:
    kafka.create("t")
    kafka.configure("t", **{"cleanup.policy": "compact", "max.message.bytes": "2000000"})
    producer = kafka.open("t").producer()
    payloads = pa.array([b"1", b"2", b"3" * 1_500_000, b"4" * 2_500_000], pa.binary())
    keyed = [producer.send(0, payloads.slice(n, 1), pa.array([b"k"], pa.binary()), None)[0] for n in range(4)]
    assert list(map(str, keyed[:3])) == ["0", "1", "2"]
    assert "MSG_SIZE_TOO_LARGE" in str(keyed[3])
    (unkeyed,) = producer.send(0, payloads.slice(0, 1), None, None)
    assert "INVALID_RECORD" in str(unkeyed)
    producer.close()
