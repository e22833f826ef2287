"""Prefetched rows and spare buffers of a partition: visible to queries, and used only by a successor that they fit."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.waiting import PATIENCE_S

from gamay.cluster.records.completion import Call, CompletionRequest, CompletionResponse, Status
from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import CONSUMING, IN_PROGRESS, ONLINE, SegmentRecord
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.offsets import IntegerOffset, Offset
from gamay.ingest.stream.spi import MessageBatch, TransientStreamError
from gamay.segment.mutable.buffers import SpareBuffers
from gamay.segment.mutable.segment import MutableSegment
from gamay.server.consuming import successor
from gamay.server.consuming.consumption import Consumption
from gamay.server.consuming.intake import Taken
from gamay.server.consuming.prefetch import Prefetch, ReadBatch
from gamay.server.consuming.reading import Reading

STREAM = StreamConfig("log", "t")
TABLE, ME = "t_REALTIME", "Server_a_1"


class Reader:
    """Gives five messages a fetch up to offset `end`, then fails if it is to."""

    def __init__(self, end: int, *, fails: bool = False) -> None:
        self.end, self.fails, self.closed = end, fails, threading.Event()
        self.caught_up = threading.Event()

    def fetch(self, start: Offset, max_messages: int, max_bytes: int, timeout_ms: int) -> MessageBatch:
        assert isinstance(start, IntegerOffset)
        stop = min(start.value + min(5, max_messages), self.end)
        if stop <= start.value:
            self.caught_up.set()
            if self.fails:
                raise TransientStreamError("gone")
            return MessageBatch.empty(start)
        offsets = pa.array(range(start.value, stop), pa.int64())
        payloads = pa.array([b""] * (stop - start.value), pa.binary())
        return MessageBatch(payloads, offsets, offsets.to_numpy(), IntegerOffset(stop))

    def close(self) -> None:
        self.closed.set()


class Nothing:
    def take(self, messages: MessageBatch) -> Taken:
        return Taken(None, np.empty(0, np.int64), [], len(messages), 0)


def partition_of(world: Any) -> Any:
    return world.server.consumers._partitions[TABLE][0]


def prefetch_of(reader: Reader, rows_max: int = 1000) -> Prefetch:
    layout: Any = "layout"
    intake: Any = Nothing()
    return Prefetch("t__0__0__20260101T0000Z", IntegerOffset(3), layout, STREAM, rows_max, reader, lambda: intake)


def test_batches_follow_each_other_from_the_start() -> None:
    reader = Reader(20)
    prefetch = prefetch_of(reader)
    assert reader.caught_up.wait(PATIENCE_S)
    given, read = prefetch.finish()
    assert given is reader
    assert not reader.closed.is_set()
    assert [(str(one.start), len(one.batch)) for one in read] == [("3", 5), ("8", 5), ("13", 5), ("18", 2)]


def test_not_more_than_a_segment_is_read() -> None:
    reader = Reader(1_000_000)
    prefetch = prefetch_of(reader, rows_max=12)
    prefetch._thread.join(0.2)
    _, read = prefetch.finish()
    assert sum(len(one.batch) for one in read) <= 12


def test_only_a_segment_that_would_read_the_same_takes_it() -> None:
    prefetch, layout = prefetch_of(Reader(20)), "layout"
    fits: Callable[..., bool] = prefetch.fits
    assert fits(IntegerOffset(3), layout, STREAM)
    assert not fits(IntegerOffset(4), layout, STREAM)
    assert not fits(IntegerOffset(3), "another", STREAM)
    assert not fits(IntegerOffset(3), layout, StreamConfig("log", "u"))
    prefetch.close()


def test_an_error_leaves_all_to_the_successor() -> None:
    reader = Reader(20, fails=True)
    prefetch = prefetch_of(reader)
    assert reader.closed.wait(PATIENCE_S)
    assert prefetch.finish() == (None, prefetch._read)
    assert not prefetch._read


@pytest.mark.parametrize("keyed", [False, True])
def test_a_successor_shows_what_was_read_before_it_began(
    make_world: Any, eventually: Any, monkeypatch: Any, keyed: bool
) -> None:
    """Decoded, where its rows look up primary keys, else indexed."""
    taken, indexed = [], []
    read_before, account = Reading._read_before, Consumption._account

    def count_taken(self: Any, *wanted: Any) -> Any:
        found = read_before(self, *wanted)
        taken.append(0 if found is None else len(found.batch))
        return found

    def count_indexed(self: Any, read: ReadBatch) -> Any:
        indexed.append(0 if read.num_docs is None else len(read.batch))
        return account(self, read)

    monkeypatch.setattr(Reading, "_read_before", count_taken)
    monkeypatch.setattr(Consumption, "_account", count_indexed)
    keys = {"keys": ["n"], "sections": {"dedupConfig": {"dedupEnabled": True}}} if keyed else {}
    world = make_world(rows=300, **keys)
    world.controller.create(0, "0")
    for _ in range(10):
        world.produce(100)
    world.send(b"{not json")
    world.produce(50)
    world.start()
    eventually(lambda: world.count() == 1050 and list(world.segments().values()) == [ONLINE] * 3 + [CONSUMING])
    assert world.ask()[0] == [[1050, 550725.0, 0.0, 1049.0]]
    last = list(world.segments())[-1]
    letters = world.server.consumers.dead_letters(TABLE)
    eventually(lambda: len(letters.entries(10)) > 0)  # rows are seen first
    [letter] = letters.entries(10)
    assert (letter["offset"], letter["segment"]) == ("1000", last)
    assert (sum(taken) > 0, sum(indexed) > 0) == (keyed, not keyed)


def test_a_segment_gives_way_to_its_successor_for_a_while(
    make_world: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is served once the successor has rows, or soon if there is none, as while consumption is paused."""
    monkeypatch.setattr(successor, "_GIVE_WAY_S", 5.0)  # a machine that does other work takes its time
    world = make_world(rows=100)
    first = world.controller.create(0, "0")
    served: list[tuple[str, int]] = []
    world.start()
    manager = world.server.consumers
    plain = manager.serve

    def serve(table: str, segment: str, folder: Any) -> None:
        others = [other for name, other in manager.consumers(table).items() if name != segment]
        served.append((segment, sum(other.began.is_set() for other in others)))
        plain(table, segment, folder)

    manager.serve = serve
    world.produce(130)
    eventually(lambda: [name for name, _ in served] == [first])
    assert served[0][1] == 1
    monkeypatch.setattr(successor, "_GIVE_WAY_S", 0.1)
    world.controller.paused = True
    world.produce(70)
    eventually(lambda: len(served) == 2)
    assert served[1][1] == 0
    assert world.count() == 200


def test_a_successor_takes_buffers_that_were_made_before_it_began(
    make_world: Any, eventually: Any, monkeypatch: Any
) -> None:
    spares: list[bool] = []
    plain = MutableSegment.__init__

    def init(self: Any, *arguments: Any) -> None:
        spares.append(arguments[6] is not None)
        plain(self, *arguments)

    monkeypatch.setattr(MutableSegment, "__init__", init)
    world = make_world(rows=100)
    world.controller.create(0, "0")
    world.start()
    world.produce(80)
    manager = world.server.consumers
    eventually(lambda: partition_of(world)._spare is not None)
    world.produce(40)
    eventually(lambda: world.count() == 120 and list(world.segments().values()) == [ONLINE, CONSUMING])
    assert spares == [False, True]
    folder = manager._resources.folder / "t_REALTIME"
    eventually(lambda: len([path for path in folder.iterdir() if path.name.startswith("rows-")]) == 1)


def test_spare_buffers_of_a_partition_that_goes_elsewhere_are_removed(make_world: Any, eventually: Any) -> None:
    world = make_world(rows=100)
    world.controller.create(0, "0")
    world.start()
    world.produce(80)
    manager = world.server.consumers
    eventually(lambda: partition_of(world)._spare is not None)
    (segment,) = manager.consumers("t_REALTIME")
    shapes = manager.consumers("t_REALTIME")[segment]._consumption.rows.shapes
    data = world.server.table("t_REALTIME")
    assert data is not None
    manager.stop(data, segment)
    assert partition_of(world)._spare is None
    folder = manager._resources.folder / "t_REALTIME"
    late = SpareBuffers(folder / "spare-late", shapes)
    partition_of(world).keep_spare(late)
    assert partition_of(world)._spare is None
    assert not [path for path in folder.iterdir() if path.name.startswith("spare-")]


def rows_seen(world: Any) -> int:
    """Return how many rows a broker is answered from; they are the first ones of the stream."""
    [[count, total, least, most]], _ = world.ask(follow=True)
    assert count == 0 or (total, least, most) == (count * (count - 1) // 2, 0, count - 1)
    return int(count)


def hold(world: Any) -> threading.Event:
    """Keep segments from being committed until the event is set."""
    released = threading.Event()

    def answer(call: Call, _: CompletionRequest) -> CompletionResponse | None:
        return CompletionResponse(Status.HOLD) if call is Call.CONSUMED and not released.is_set() else None

    world.controller.script = answer
    return released


def num_prefetched(world: Any) -> int:
    prefetch = partition_of(world)._prefetch
    return 0 if prefetch is None or prefetch._begun is None else prefetch._begun.rows.num_docs


def test_rows_behind_an_end_that_was_none_are_seen_again_in_their_segment(make_world: Any, eventually: Any) -> None:
    world = make_world(rows=100)
    hold(world)
    world.controller.create(0, "0")
    world.start()
    world.produce(190)
    eventually(lambda: rows_seen(world) == 190)
    assert len(world.segments()) == 1
    answers = [CompletionResponse(Status.CATCH_UP, "180")]
    world.controller.script = lambda call, _: answers.pop() if call is Call.CONSUMED and answers else None
    eventually(lambda: rows_seen(world) <= 190 and list(world.segments().values()) == [ONLINE, CONSUMING])
    first = world.registry.get_segment(TABLE, next(iter(world.segments())))
    assert (first.end_offset, first.total_docs) == ("180", 180)
    eventually(lambda: rows_seen(world) == 190)


def test_what_no_segment_follows_is_hidden_until_one_does(make_world: Any, eventually: Any) -> None:
    world = make_world(rows=100)
    released = hold(world)
    world.controller.paused = True
    world.controller.create(0, "0")
    world.start()
    world.produce(130)
    eventually(lambda: rows_seen(world) == 130)
    released.set()
    eventually(lambda: list(world.segments().values()) == [ONLINE] and rows_seen(world) == 100)
    assert not world.server.consumers.prefetched_behind(TABLE)
    world.controller.create(0, "100", 1)
    eventually(lambda: rows_seen(world) == 130)


def test_nothing_is_seen_behind_a_forced_end(make_world: Any, eventually: Any) -> None:
    """Tables are paused this way; prefetched rows are for a successor, if there is one."""
    world = make_world(rows=100)
    released = hold(world)
    segment = world.controller.create(0, "0")
    world.start()
    world.produce(50)
    eventually(lambda: rows_seen(world) == 50)
    world.server.consumers.force_commit(TABLE, [segment])
    eventually(lambda: world.server.consumers.prefetched_behind(TABLE) == [segment])
    world.produce(30)
    eventually(lambda: num_prefetched(world) == 30)
    assert rows_seen(world) == 50
    released.set()
    eventually(lambda: rows_seen(world) == 80 and list(world.segments().values()) == [ONLINE, CONSUMING])


def test_a_successor_that_takes_fewer_rows_reads_them_again(make_world: Any, eventually: Any) -> None:
    world = make_world(rows=100)
    released = hold(world)
    first = world.controller.create(0, "0")
    world.start()
    world.produce(190)
    eventually(lambda: rows_seen(world) == 190)
    begun = partition_of(world)._prefetch._begun.folder
    second = str(LlcName.must_parse(first).next(1_800_000_000_000))

    def create(partition: int, offset: str, sequence: int) -> None:
        if sequence == 1:
            record = SegmentRecord(
                second, status=IN_PROGRESS, start_offset=offset, creation_time_ms=1, num_replicas=1, flush_threshold_rows=40
            )
            world.registry.create_segment(TABLE, record)
            world.registry.update_ideal_state(TABLE, lambda ideal: ideal.with_segments({second: {ME: CONSUMING}}))

    world.controller.create = create
    released.set()
    eventually(lambda: world.segments() == {first: ONLINE, second: ONLINE} and rows_seen(world) == 140)
    assert not begun.exists()
