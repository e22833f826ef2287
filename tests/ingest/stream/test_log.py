"""The embedded log: appended messages are read back, through crashes and damage."""

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.clock import SYSTEM_CLOCK, ManualClock
from gamay.base.errors import ConflictError, InvalidConfigError, NotFoundError
from gamay.ingest.stream.log import blocks, files
from gamay.ingest.stream.log.plugin import LogMetadata
from gamay.ingest.stream.log.producer import Producer, keys_of_lines, partition_of
from gamay.ingest.stream.log.reader import PartitionReader
from gamay.ingest.stream.log.topic import Topic, TopicConfig, create_topic, open_topic
from gamay.ingest.stream.log.writer import PartitionWriter
from gamay.ingest.stream.offsets import SMALLEST, IntegerOffset, OffsetCriteria, OffsetKind
from gamay.ingest.stream.spi import MessageBatch, PermanentStreamError

MakeTopic = Callable[..., Topic]
MESSAGE = st.one_of(st.none(), st.binary(max_size=40))


def array(messages: list[bytes | None]) -> pa.BinaryArray:
    return pa.array(messages, pa.binary())


def numbered(first: int, count: int) -> pa.BinaryArray:
    return array([b"message %d" % i for i in range(first, first + count)])


def read_all(topic: Topic, start: int = 0, max_messages: int = 1_000, max_bytes: int = 1 << 20) -> list[MessageBatch]:
    reader = PartitionReader(topic, 0, SYSTEM_CLOCK)
    found = []
    at = IntegerOffset(start)
    while len(batch := reader.fetch(at, max_messages, max_bytes, 0)) or batch.gap is not None:
        found.append(batch)
        assert isinstance(batch.next_offset, IntegerOffset)
        at = batch.next_offset
    reader.close()
    return found


def payloads(batches: list[MessageBatch]) -> list[bytes | None]:
    return [value for batch in batches for value in batch.payloads.to_pylist()]


def files_of(topic: Topic) -> list[Path]:
    return sorted(topic.partition_folder(0).glob("*.log"))


# -- the format


@settings(deadline=None)
@given(st.lists(st.tuples(MESSAGE, MESSAGE), min_size=1, max_size=20), st.booleans(), st.integers(0, 2**40))
def test_a_block_comes_back_as_it_was(messages: list[tuple[bytes | None, bytes | None]], keyed: bool, offset: int) -> None:
    values, keys = array([m[0] for m in messages]), array([m[1] for m in messages]) if keyed else None
    # slices of larger arrays are what producers pass
    padded = pa.concat_arrays([array([b"before", None]), values, array([b"after"])]).slice(2, len(values))
    data = blocks.encode(padded, keys, offset, 1234)
    header = blocks.read_header(data, 0, 7)
    blocks.check(header, memoryview(data))
    assert (header.position, header.end, header.offset, header.timestamp) == (7, 7 + len(data), offset, 1234)
    found, found_keys = blocks.decode(header, pa.py_buffer(data), 0)
    found.validate(full=True)
    assert found.to_pylist() == values.to_pylist()
    assert (found_keys.to_pylist() if found_keys is not None else None) == (keys.to_pylist() if keys is not None else None)


def is_whole(block: bytearray) -> bool:
    try:
        found = list(blocks.walk(memoryview(block), 0, len(block)))
        for header, start in found:
            blocks.check(header, memoryview(block)[start : header.end])
    except blocks.DamagedBlockError:
        return False
    return len(found) == 1 and found[0][0].end == len(block)


@settings(deadline=None)
@given(st.lists(MESSAGE, min_size=1, max_size=8), st.data())
def test_no_flipped_bit_goes_unnoticed(messages: list[bytes | None], data: st.DataObject) -> None:
    block = bytearray(blocks.encode(array(messages), None, 5, 6))
    at = data.draw(st.integers(0, len(block) - 1))
    block[at] ^= 1 << data.draw(st.integers(0, 7))
    assert not is_whole(block)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(MESSAGE, min_size=1, max_size=30), min_size=1, max_size=12),
    st.integers(1024, 4000),
    st.integers(1, 40),
    st.integers(1, 400),
    st.randoms(use_true_random=False),
)
def test_what_is_appended_is_read_from_any_offset(
    tmp_path_factory: pytest.TempPathFactory,
    appended: list[list[bytes | None]],
    segment_bytes: int,
    max_messages: int,
    max_bytes: int,
    rng: random.Random,
) -> None:
    topic = create_topic(tmp_path_factory.mktemp("log"), "t", TopicConfig(1, segment_bytes=segment_bytes))
    writer = PartitionWriter(topic, 0, SYSTEM_CLOCK)
    expected: list[bytes | None] = []
    for messages in appended:
        if rng.random() < 0.2:
            writer.close()
            writer = PartitionWriter(topic, 0, SYSTEM_CLOCK)
        assert writer.append(array(messages)) == (len(expected), len(expected) + len(messages))
        expected += messages
    writer.close()
    for start in {0, rng.randrange(len(expected)), len(expected)}:
        batches = read_all(topic, start, max_messages, max_bytes)
        assert payloads(batches) == expected[start:]
        offsets = np.concatenate([np.asarray(b.offsets) for b in batches]) if batches else np.array([])
        assert offsets.tolist() == list(range(start, len(expected)))
        for batch in batches:
            assert 1 <= len(batch) <= max_messages
            assert len(batch) == 1 or batch.num_bytes <= max_bytes
            assert batch.gap is None
            assert batch.end_offset == IntegerOffset(len(expected))
        assert not batches or batches[-1].next_offset == batches[-1].end_offset


# -- reading


def test_a_fetch_waits_for_messages_and_for_no_longer_than_it_may(topic: MakeTopic) -> None:
    made = topic()
    reader = PartitionReader(made, 0, SYSTEM_CLOCK)
    assert len(reader.fetch(IntegerOffset(0), 10, 1000, 20)) == 0
    writer = PartitionWriter(made, 0, SYSTEM_CLOCK)
    timer = threading.Timer(0.05, lambda: writer.append(array([b"late"])))
    timer.start()
    batch = reader.fetch(IntegerOffset(0), 10, 1000, 30_000)
    timer.join()
    assert batch.payloads.to_pylist() == [b"late"]
    assert batch.next_offset == IntegerOffset(1)


def test_close_ends_a_fetch_that_waits(topic: MakeTopic) -> None:
    reader = PartitionReader(topic(), 0, SYSTEM_CLOCK)
    threading.Timer(0.05, reader.close).start()
    assert len(reader.fetch(IntegerOffset(0), 10, 1000, 30_000)) == 0


def test_keys_and_times_come_with_the_messages(topic: MakeTopic) -> None:
    made, clock = topic(), ManualClock(1_000)
    writer = PartitionWriter(made, 0, clock)
    writer.append(array([b"a"]))
    clock.advance(1)
    writer.append(array([b"b", None]), array([b"k", None]))
    (batch,) = read_all(made)
    assert batch.keys is not None
    assert batch.keys.to_pylist() == [None, b"k", None]
    assert batch.timestamps_ms.tolist() == [1_000, 2_000, 2_000]
    with pytest.raises(InvalidConfigError, match="1 keys for 2 messages"):
        writer.append(array([b"b", b"c"]), array([b"k"]))


def test_a_message_larger_than_the_limits_is_returned_alone(topic: MakeTopic) -> None:
    made = topic()
    large = random.Random(1).randbytes(9 << 20)
    PartitionWriter(made, 0, SYSTEM_CLOCK).append(array([b"small", large, b"small"]))
    assert payloads(read_all(made, max_bytes=100)) == [b"small", large, b"small"]
    assert payloads(read_all(made, start=1)) == [large, b"small"]


def test_an_offset_behind_the_end_is_an_error(topic: MakeTopic) -> None:
    reader = PartitionReader(topic(), 0, SYSTEM_CLOCK)
    with pytest.raises(PermanentStreamError, match="ends at offset 0"):
        reader.fetch(IntegerOffset(5), 1, 1, 0)


def test_files_that_are_too_old_or_too_much_go_and_readers_are_told(topic: MakeTopic) -> None:
    made, clock = topic(segment_bytes=1024, retention_ms=10_000), ManualClock()
    writer = PartitionWriter(made, 0, clock)
    for first in range(0, 300, 10):
        writer.append(numbered(first, 10))
        clock.advance(1)
    begin = LogMetadata(made, clock).offset(0, SMALLEST)
    assert isinstance(begin, IntegerOffset)
    assert 100 < begin.value < 300
    batches = read_all(made)
    assert batches[0].gap is not None
    assert (batches[0].gap.first, batches[0].gap.next) == (IntegerOffset(0), begin)
    assert payloads(batches) == numbered(begin.value, 300 - begin.value).to_pylist()

    limited = topic("limited", segment_bytes=1024, retention_bytes=3000)
    writer = PartitionWriter(limited, 0, clock)
    for first in range(0, 1000, 10):
        writer.append(numbered(first, 10))
    assert 3000 <= sum(path.stat().st_size for path in files_of(limited)) <= 3000 + 3 * 1024


def test_a_reader_that_is_overtaken_by_retention_reads_on_with_a_gap(topic: MakeTopic) -> None:
    made = topic(segment_bytes=1024, retention_bytes=1)
    writer = PartitionWriter(made, 0, SYSTEM_CLOCK)
    reader = PartitionReader(made, 0, SYSTEM_CLOCK)
    writer.append(numbered(0, 10))
    assert len(reader.fetch(IntegerOffset(0), 5, 1 << 20, 0)) == 5
    for first in range(10, 500, 10):
        writer.append(numbered(first, 10))
    seen: list[int] = []
    gaps = []
    at = IntegerOffset(5)
    while at.value < 500:
        batch = reader.fetch(at, 100, 1 << 20, 0)
        seen += np.asarray(batch.offsets).tolist()
        gaps += [batch.gap] if batch.gap else []
        assert isinstance(batch.next_offset, IntegerOffset)
        at = batch.next_offset
    lost = {o for gap in gaps for o in range(int(str(gap.first)), int(str(gap.next)))}
    assert sorted(lost | set(seen)) == list(range(5, 500))
    assert not lost & set(seen)
    assert lost


def test_offsets_by_time(topic: MakeTopic) -> None:
    made, clock = topic(segment_bytes=1024), ManualClock(1_000_000)
    writer = PartitionWriter(made, 0, clock)
    for first in range(0, 500, 10):
        writer.append(numbered(first, 10))
        clock.advance(1)
    metadata = LogMetadata(made, clock)

    def at(kind: OffsetKind, millis: int) -> int:
        return int(str(metadata.offset(0, OffsetCriteria(kind, millis))))

    assert at(OffsetKind.TIMESTAMP, 0) == 0
    for message in range(0, 50, 7):
        assert at(OffsetKind.TIMESTAMP, 1_000_000 + message * 1000) == message * 10
        assert at(OffsetKind.TIMESTAMP, 1_000_000 + message * 1000 - 1) == message * 10
    assert at(OffsetKind.PERIOD, 10_000) == 400
    assert at(OffsetKind.TIMESTAMP, 2_000_000) == 500


# -- what goes wrong


def test_a_torn_tail_is_cut_back(topic: MakeTopic) -> None:
    made = topic()
    writer = PartitionWriter(made, 0, SYSTEM_CLOCK)
    writer.append(numbered(0, 10))
    (path,) = files_of(made)
    whole = path.read_bytes()
    torn = blocks.encode(numbered(10, 10), None, 10, 0)
    for length in (1, 47, 48, 60, len(torn) - 1):
        path.write_bytes(whole + torn[:length])
        assert payloads(read_all(made)) == numbered(0, 10).to_pylist()
        fresh = PartitionWriter(made, 0, SYSTEM_CLOCK)
        assert path.read_bytes() == whole
        fresh.close()
    # a writer that was there all the time cuts too
    path.write_bytes(whole + torn[:20])
    assert writer.append(numbered(10, 5)) == (10, 15)
    assert payloads(read_all(made)) == numbered(0, 15).to_pylist()


def test_a_whole_block_of_a_process_that_was_killed_before_it_said_so_is_kept(topic: MakeTopic) -> None:
    made = topic()
    PartitionWriter(made, 0, SYSTEM_CLOCK).append(numbered(0, 10))
    with files_of(made)[0].open("ab") as file:
        file.write(blocks.encode(numbered(10, 10), None, 10, 0))
    writer = PartitionWriter(made, 0, SYSTEM_CLOCK)
    assert writer.append(numbered(20, 1)) == (20, 21)
    assert payloads(read_all(made)) == numbered(0, 21).to_pylist()


@pytest.mark.parametrize("lost", ["state", "index", "both"])
def test_after_a_crash_of_the_machine_the_log_is_found_anew(topic: MakeTopic, lost: str, monkeypatch) -> None:
    made = topic(segment_bytes=200_000)
    writer = PartitionWriter(made, 0, SYSTEM_CLOCK)
    for first in range(0, 20_000, 1_000):
        writer.append(numbered(first, 1_000))
    writer.close()
    folder = made.partition_folder(0)
    if lost != "index":
        (folder / "state").write_bytes(random.Random(1).randbytes(48))
    if lost != "state":
        for path in folder.glob("*.index"):
            path.write_bytes(b"")
    monkeypatch.setattr(files, "boot_id", lambda: b"0123456789abcdef")
    with files_of(made)[-1].open("ab") as file:
        file.write(bytes(3_000))  # a file system may leave a hole where the last write was
    assert payloads(read_all(made)) == numbered(0, 20_000).to_pylist()
    assert PartitionWriter(made, 0, SYSTEM_CLOCK).append(numbered(20_000, 1)) == (20_000, 20_001)
    assert payloads(read_all(made, 19_999)) == numbered(19_999, 2).to_pylist()


def test_damage_in_the_middle_is_a_gap_and_reading_goes_on(topic: MakeTopic) -> None:
    made = topic(segment_bytes=2_000)
    writer = PartitionWriter(made, 0, SYSTEM_CLOCK)
    for first in range(0, 600, 10):
        writer.append(numbered(first, 10))
    path = files_of(made)[2]
    content = bytearray(path.read_bytes())
    content[300] ^= 0x40
    path.write_bytes(content)
    batches = read_all(made)
    gaps = [b.gap for b in batches if b.gap is not None]
    assert len(gaps) == 1
    lost = set(range(int(str(gaps[0].first)), int(str(gaps[0].next))))
    assert 0 < len(lost) < 100
    assert payloads(batches) == [m for i, m in enumerate(numbered(0, 600).to_pylist()) if i not in lost]


PRODUCER = """
import sys
from pathlib import Path
import pyarrow as pa
from gamay.base.clock import SYSTEM_CLOCK
from gamay.ingest.stream.log.topic import open_topic
from gamay.ingest.stream.log.writer import PartitionWriter

name = sys.argv[2]
writer = PartitionWriter(open_topic(Path(sys.argv[1]), "events"), 0, SYSTEM_CLOCK)
for number in range(1_000_000):
    lines = [f"{name} {number} {line} {'x' * (number % 97)}".encode() for line in range(1 + number % 50)]
    writer.append(pa.array(lines, pa.binary()))
    print(number, flush=True)
"""


@pytest.mark.chaos
def test_producers_that_are_killed_lose_nothing_that_was_acknowledged(topic: MakeTopic) -> None:
    made = topic(segment_bytes=50_000)
    rng = random.Random(4)
    acknowledged: dict[str, int] = {}
    for round_ in range(3):
        running = {
            f"p{round_}{i}": subprocess.Popen(
                [sys.executable, "-c", PRODUCER, str(made.folder.parent), f"p{round_}{i}"], stdout=subprocess.PIPE, text=True
            )
            for i in range(2)
        }
        for name, process in running.items():
            assert process.stdout is not None
            for _ in range(rng.randrange(5, 60)):
                acknowledged[name] = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
            rest = process.communicate()[0].splitlines()
            whole = [line for line in rest if line]
            if whole:
                acknowledged[name] = max(acknowledged[name], int(whole[-2 if len(whole) > 1 else -1]))
    PartitionWriter(made, 0, SYSTEM_CLOCK).append(array([b"end 0 0 "]))
    seen: dict[str, list[tuple[int, int]]] = {}
    for payload in payloads(read_all(made)):
        assert payload is not None
        name, number, line, filling = payload.decode().split(" ")
        assert name == "end" or filling == "x" * (int(number) % 97)
        seen.setdefault(name, []).append((int(number), int(line)))
    for name, last in acknowledged.items():
        complete = [(n, line) for n in range(last + 1) for line in range(1 + n % 50)]
        assert seen[name][: len(complete)] == complete
        assert len(set(seen[name])) == len(seen[name])


def test_threads_and_writers_share_a_partition(topic: MakeTopic) -> None:
    made = topic(segment_bytes=5_000)
    writers = [PartitionWriter(made, 0, SYSTEM_CLOCK) for _ in range(2)]
    ranges: list[tuple[int, int, int]] = []

    def work(number: int) -> None:
        for i in range(20):
            first, end = writers[number % 2].append(array([b"%d %d" % (number, i * 3 + j) for j in range(3)]))
            ranges.append((number, first, end))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = payloads(read_all(made))
    assert len(found) == 4 * 60
    for number in range(4):
        mine = [m for m in found if m is not None and m.startswith(b"%d " % number)]
        assert mine == [b"%d %d" % (number, i) for i in range(60)]
    assert sorted((first, end) for _, first, end in ranges) == [(i, i + 3) for i in range(0, 240, 3)]


# -- topics and producers


def test_topics(tmp_path: Path) -> None:
    made = create_topic(tmp_path, "a.b_c-1", TopicConfig(2))
    with pytest.raises(ConflictError):
        create_topic(tmp_path, "a.b_c-1", TopicConfig(2))
    for bad in ("", "..", "a/b", ".hidden", "x" * 300):
        with pytest.raises(InvalidConfigError):
            create_topic(tmp_path, bad, TopicConfig(1))
    with pytest.raises(NotFoundError, match=r"Did you mean 'a\.b_c-1'"):
        open_topic(tmp_path, "a.b_c-2")
    made.alter(TopicConfig(5))
    assert LogMetadata(open_topic(tmp_path, "a.b_c-1"), SYSTEM_CLOCK).partition_ids() == (0, 1, 2, 3, 4)
    assert PartitionWriter(made, 4, SYSTEM_CLOCK).append(array([b"x"])) == (0, 1)
    with pytest.raises(InvalidConfigError, match="only grow"):
        made.alter(TopicConfig(1))
    with pytest.raises(NotFoundError, match="0 to 4, not 5"):
        PartitionWriter(made, 5, SYSTEM_CLOCK)
    for settings_ in ({"partitions": 0}, {"partitions": 1, "segment_bytes": 1}, {"partitions": 1, "retention_ms": 0}):
        with pytest.raises(InvalidConfigError):
            TopicConfig(**settings_)
    assert [p.name for p in tmp_path.iterdir()] == ["a.b_c-1"]


def test_keys_choose_the_partition_as_kafka_does() -> None:
    # the values of Kafka's own tests of its murmur2
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    keys = array(list(known))
    assert partition_of(keys, 1 << 31).tolist() == [h & 0x7FFFFFFF for h in known.values()]


def test_a_producer_spreads_messages(topic: MakeTopic) -> None:
    made = topic(partitions=3)
    producer = Producer(made, SYSTEM_CLOCK)
    producer.send(numbered(0, 4))
    producer.send(numbered(4, 2))
    assert producer.ends == {0: 2, 1: 2, 2: 2}
    producer.send(numbered(0, 5), partition=1)
    assert producer.ends == {0: 2, 1: 7, 2: 2}
    keys = array([b"a", b"b", b"a", None])
    producer.send(numbered(0, 4), keys)
    assert sum(producer.ends.values()) == 15
    producer.close()


def test_keys_of_lines() -> None:
    lines = array([b'{"k": "x"}', b"", b'{"k": 5}', b'{"k": [1]}'])
    assert keys_of_lines(lines, "k").to_pylist() == [b"x", None, b"5", b"[1]"]
    for line, words in ((b"[1]", "line 7 is not a JSON object"), (b"{}", "line 7 has no column 'k'")):
        with pytest.raises(Exception, match=words):
            keys_of_lines(array([line]), "k", 7)
