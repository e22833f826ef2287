"""The contract of every stream type towards its consumers."""

import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gamay.ingest.stream.offsets import LARGEST, SMALLEST, Offset, OffsetCriteria, OffsetKind
from gamay.ingest.stream.spi import MessageBatch, PartitionConsumer, PermanentStreamError, StreamConsumerFactory

LARGE = 1 << 24
MESSAGES = [b"message %d %s" % (i, b"x" * (i % 150)) for i in range(500)]


def smallest(factory: StreamConsumerFactory, partition: int = 0) -> Offset:
    metadata = factory.metadata()
    found = metadata.offset(partition, SMALLEST)
    metadata.close()
    return found


def read(
    consumer: PartitionConsumer, start: Offset, count: int, max_messages: int = 1000, max_bytes: int = LARGE
) -> list[MessageBatch]:
    """Fetch until there are `count` messages; each fetch begins where the one before ended."""
    found: list[MessageBatch] = []
    deadline = time.monotonic() + 120
    while sum(map(len, found)) < count and time.monotonic() < deadline:
        batch = consumer.fetch(start, max_messages, max_bytes, 1_000)
        assert len(batch.payloads) == len(batch.offsets) == len(batch.timestamps_ms)
        assert len(batch) <= max_messages
        assert len(batch) <= 1 or batch.num_bytes <= max_bytes
        assert start <= batch.next_offset
        assert all(start <= batch.offset(i) < batch.next_offset for i in {0, len(batch) - 1} if len(batch))
        if batch.end_offset is not None:
            assert batch.next_offset <= batch.end_offset
        found.append(batch)
        start = batch.next_offset
    return found


def payloads(batches: list[MessageBatch]) -> list[Any]:
    return [value for batch in batches for value in batch.payloads.to_pylist()]


def test_an_empty_partition(stream: Any) -> None:
    stream.create("t", 2)
    factory = stream.open("t")
    metadata = factory.metadata()
    assert metadata.partition_ids() == (0, 1)
    start = metadata.offset(1, SMALLEST)
    assert start == metadata.offset(1, LARGEST) == metadata.latest_offset(1)
    consumer = factory.partition_consumer(1)
    batch = consumer.fetch(start, 10, LARGE, 50)
    assert len(batch) == 0
    assert batch.next_offset == start
    consumer.close()
    metadata.close()


@pytest.mark.parametrize(("max_messages", "max_bytes"), [(1000, LARGE), (7, LARGE), (1000, 400)])
def test_everything_is_read_once_and_in_order(stream: Any, max_messages: int, max_bytes: int) -> None:
    stream.create("t")
    stream.produce("t", MESSAGES)
    factory = stream.open("t")
    consumer = factory.partition_consumer(0)
    batches = read(consumer, smallest(factory), len(MESSAGES), max_messages, max_bytes)
    assert payloads(batches) == MESSAGES
    offsets = np.concatenate([np.asarray(batch.offsets) for batch in batches])
    assert (np.diff(offsets) > 0).all()
    assert not batches[-1].next_offset < batches[-1].end_offset
    consumer.close()


def test_reading_goes_on_from_any_offset_by_another_consumer(stream: Any) -> None:
    stream.create("t")
    stream.produce("t", MESSAGES)
    factory = stream.open("t")
    first = factory.partition_consumer(0)
    batches = read(first, smallest(factory), len(MESSAGES))
    whole = batches[0] if len(batches) == 1 else None
    for message in (0, 1, 250, 499):
        at = batches[0].offset(message) if whole else factory.parse_offset(str(message))
        second = stream.open("t").partition_consumer(0)
        assert payloads(read(second, factory.parse_offset(str(at)), 500 - message)) == MESSAGES[message:]
        second.close()
    # and backwards, on the same consumer
    assert payloads(read(first, smallest(factory), 3))[:3] == MESSAGES[:3]
    first.close()


def test_a_batch_can_be_cut(stream: Any) -> None:
    stream.create("t")
    stream.produce("t", MESSAGES[:20])
    factory = stream.open("t")
    consumer = factory.partition_consumer(0)
    start = smallest(factory)
    (batch,) = read(consumer, start, 20, max_messages=20)
    target = batch.offset(12)
    for cut in (batch.head(12), batch.before(target)):
        assert payloads([cut]) == MESSAGES[:12]
        assert cut.next_offset == target
        assert cut.next_offset < cut.end_offset
    assert batch.before(start).next_offset == start
    assert batch.before(batch.next_offset) is batch
    assert payloads(read(consumer, target, 8)) == MESSAGES[12:20]
    consumer.close()


def test_keys_tombstones_and_times(stream: Any) -> None:
    stream.create("t")
    before_ms = time.time_ns() // 1_000_000 - 1
    stream.produce("t", [b"a", None, b""], keys=[b"k", b"gone", None])
    factory = stream.open("t")
    consumer = factory.partition_consumer(0)
    (batch,) = read(consumer, smallest(factory), 3)
    assert batch.payloads.to_pylist() == [b"a", None, b""]
    assert batch.keys is not None
    assert batch.keys.to_pylist() == [b"k", b"gone", None]
    assert (batch.timestamps_ms >= before_ms).all()
    assert (batch.timestamps_ms <= time.time_ns() // 1_000_000 + 1).all()
    consumer.close()


def test_partitions_do_not_mix(stream: Any) -> None:
    stream.create("t", 3)
    for partition in range(3):
        stream.produce("t", [b"%d of %d" % (i, partition) for i in range(50)], partition)
    factory = stream.open("t")
    for partition in range(3):
        consumer = factory.partition_consumer(partition)
        found = payloads(read(consumer, smallest(factory, partition), 50))
        assert found == [b"%d of %d" % (i, partition) for i in range(50)]
        consumer.close()


def test_a_fetch_waits_for_messages(stream: Any) -> None:
    stream.create("t")
    factory = stream.open("t")
    consumer = factory.partition_consumer(0)
    start = smallest(factory)
    timer = threading.Timer(0.2, lambda: stream.produce("t", [b"late"]))
    timer.start()
    batch = consumer.fetch(start, 10, LARGE, 20_000)
    timer.join()
    assert payloads([batch]) == [b"late"]
    consumer.close()


def test_close_ends_a_fetch_that_waits(stream: Any) -> None:
    stream.create("t")
    factory = stream.open("t")
    consumer = factory.partition_consumer(0)
    threading.Timer(0.2, consumer.close).start()
    began = time.monotonic()
    assert len(consumer.fetch(smallest(factory), 10, LARGE, 300_000)) == 0
    assert time.monotonic() - began < 200


def test_offsets_by_time(stream: Any) -> None:
    stream.create("t")
    stream.produce("t", [b"old"] * 3)
    time.sleep(0.05)
    between_ms = time.time_ns() // 1_000_000
    time.sleep(0.05)
    stream.produce("t", [b"new"] * 2)
    factory = stream.open("t")
    metadata = factory.metadata()

    def at(kind: OffsetKind, millis: int) -> Offset:
        return metadata.offset(0, OffsetCriteria(kind, millis))

    start, end = metadata.offset(0, SMALLEST), metadata.offset(0, LARGEST)
    assert at(OffsetKind.TIMESTAMP, 0) == start
    assert at(OffsetKind.PERIOD, 3_600_000) == start
    assert at(OffsetKind.TIMESTAMP, between_ms + 3_600_000) == end
    consumer = factory.partition_consumer(0)
    assert payloads(read(consumer, at(OffsetKind.TIMESTAMP, between_ms), 2)) == [b"new"] * 2
    consumer.close()
    metadata.close()


def test_what_the_stream_has_lost_is_told(stream: Any) -> None:
    stream.create("t")
    stream.produce("t", MESSAGES)
    factory = stream.open("t")
    start = smallest(factory)
    stream.lose("t", 300)
    earliest = smallest(factory)
    assert start < earliest
    consumer = factory.partition_consumer(0)
    batches = read(consumer, start, 500 - int(str(earliest)))
    gaps = [batch.gap for batch in batches if batch.gap is not None]
    assert [(gap.first, gap.next) for gap in gaps] == [(start, earliest)]
    assert payloads(batches) == MESSAGES[int(str(earliest)) :]
    consumer.close()


def test_a_consumer_that_is_overtaken_by_losses(stream: Any) -> None:
    stream.create("t")
    stream.produce("t", MESSAGES)
    factory = stream.open("t")
    consumer = factory.partition_consumer(0)
    first = consumer.fetch(smallest(factory), 5, LARGE, 10_000)
    stream.lose("t", 300)
    rest = read(consumer, first.next_offset, 500 - 300)
    lost = sum(int(str(b.gap.next)) - int(str(b.gap.first)) for b in rest if b.gap is not None)
    assert len(first) + lost + len(payloads(rest)) == 500
    assert payloads(rest)[-200:] == MESSAGES[-200:]
    consumer.close()


def test_what_does_not_exist(stream: Any) -> None:
    stream.create("t")
    with pytest.raises(PermanentStreamError):
        stream.open("no-such-topic").metadata().partition_ids()
    factory = stream.open("t")
    beyond = factory.parse_offset("12345")
    consumer = factory.partition_consumer(0)
    with pytest.raises(PermanentStreamError, match="12345"):
        consumer.fetch(beyond, 1, 1, 100)
    consumer.close()


def test_partitions_can_be_added(stream: Any) -> None:
    stream.create("t", 1)
    factory = stream.open("t")
    metadata = factory.metadata()
    assert metadata.partition_ids() == (0,)
    stream.grow("t", 3)
    deadline = time.monotonic() + 120
    while len(metadata.partition_ids()) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert metadata.partition_ids() == (0, 1, 2)
    stream.produce("t", [b"x"], 2)
    consumer = factory.partition_consumer(2)
    assert payloads(read(consumer, metadata.offset(2, SMALLEST), 1)) == [b"x"]
    consumer.close()
    metadata.close()


def from_group(stream: Any, group: str, count: int, begin: str = "smallest") -> tuple[Any, list[Any]]:
    kind = "log" if type(stream).__name__ == "LogHarness" else "kafka"
    factory = stream.open("t", **{f"stream.{kind}.consumer.prop.auto.offset.reset": begin})
    member = factory.stream_consumer(group)
    found: list[Any] = []
    deadline = time.monotonic() + 120
    while len(found) < count and time.monotonic() < deadline:
        for batch in member.fetch(1000, 500).values():
            found += batch.payloads.to_pylist()
    return member, found


def test_a_group_goes_on_from_its_checkpoint_and_from_nowhere_else(stream: Any) -> None:
    stream.create("t", 2)
    first = [b"first %d" % i for i in range(40)]
    for partition in range(2):
        stream.produce("t", first[partition::2], partition)
    member, found = from_group(stream, "g", 40)
    assert sorted(found) == sorted(first)
    assert {p: int(str(o)) for p, o in member.commit().items()} == {0: 20, 1: 20}
    stream.produce("t", [b"second"], 1)
    found = []
    while not found:
        found = [v for b in member.fetch(1000, 500).values() for v in b.payloads.to_pylist()]
    assert found == [b"second"]
    assert int(str(member.position()[1])) == 21
    member.close()  # without a checkpoint: the message comes again
    member, found = from_group(stream, "g", 1)
    assert found == [b"second"]
    member.close()
    other, found = from_group(stream, "h", 41)
    assert len(found) == 41
    other.close()


def test_a_group_can_begin_elsewhere_and_save_another_place(stream: Any) -> None:
    stream.create("t", 2)
    for partition in range(2):
        stream.produce("t", [b"%d %d" % (partition, i) for i in range(20)], partition)
    factory = stream.open("t")
    member = factory.stream_consumer("g", {0: factory.parse_offset("15")})  # the other one from its start
    found: list[Any] = []
    deadline = time.monotonic() + 120
    while len(found) < 25 and time.monotonic() < deadline:
        for batch in member.fetch(1000, 500).values():
            found += batch.payloads.to_pylist()
    assert sorted(found) == sorted([b"0 %d" % i for i in range(15, 20)] + [b"1 %d" % i for i in range(20)])
    member.commit({0: factory.parse_offset("18"), 1: factory.parse_offset("20")})
    member.close()
    member, found = from_group(stream, "g", 2)
    assert found == [b"0 18", b"0 19"]
    member.close()


def test_messages_are_written_to_the_partition_that_is_named(stream: Any) -> None:
    stream.create("t", 2)
    stream.produce("t", [b"first"], 1)
    factory = stream.open("t")
    producer = factory.producer()
    sent = producer.send(
        1, pa.array([b"a", b"", b"c" * 3_000], pa.binary()), pa.array([b"k", None, b"m"], pa.binary()), None
    )
    sent += producer.send(1, pa.array([b"d"], pa.binary()), None, None)
    assert [str(offset) for offset in sent] == ["1", "2", "3", "4"]
    producer.close()
    consumer = factory.partition_consumer(1)
    batches = read(consumer, smallest(factory, 1), 5)
    assert payloads(batches) == [b"first", b"a", b"", b"c" * 3_000, b"d"]
    keys = [key for b in batches for key in (b.keys.to_pylist() if b.keys is not None else [None] * len(b))]
    assert keys == [None, b"k", None, b"m", None]
    metadata = factory.metadata()
    assert metadata.offset(0, SMALLEST) == metadata.latest_offset(0)
    metadata.close()
    consumer.close()


def test_a_partition_that_is_not_there_takes_no_messages(stream: Any) -> None:
    stream.create("t")
    producer = stream.open("t").producer()
    try:
        (error,) = producer.send(7, pa.array([b"a"], pa.binary()), None, None)
    except PermanentStreamError as raised:
        error = raised
    assert isinstance(error, PermanentStreamError)
    assert "7" in str(error)
    producer.close()
