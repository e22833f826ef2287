"""What is read while a segment is completed: taken by a successor that it fits, and by nobody else."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gamay.cluster.records import CONSUMING, ONLINE
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.offsets import IntegerOffset, Offset
from gamay.ingest.stream.spi import MessageBatch, TransientStreamError
from gamay.segment.mutable.buffers import SpareBuffers
from gamay.server.consuming import consumer as consuming
from gamay.server.consuming.ahead import ReadAhead
from gamay.server.consuming.intake import Taken
from gamay.server.consuming.reading import Reading

STREAM = StreamConfig("log", "t")


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


def ahead_of(reader: Reader, rows_max: int = 1000) -> ReadAhead:
    layout: Any = "layout"
    intake: Any = Nothing()
    return ReadAhead("t__0__0__20260101T0000Z", IntegerOffset(3), layout, STREAM, rows_max, reader, lambda: intake)


def test_batches_follow_each_other_from_the_start() -> None:
    reader = Reader(20)
    ahead = ahead_of(reader)
    assert reader.caught_up.wait(30)
    given, read = ahead.finish()
    assert given is reader
    assert not reader.closed.is_set()
    assert [(str(one.start), len(one.batch)) for one in read] == [("3", 5), ("8", 5), ("13", 5), ("18", 2)]


def test_not_more_than_a_segment_is_read() -> None:
    reader = Reader(1_000_000)
    ahead = ahead_of(reader, rows_max=12)
    ahead._thread.join(0.2)
    _, read = ahead.finish()
    assert sum(len(one.batch) for one in read) <= 12


def test_only_a_segment_that_would_read_the_same_takes_it() -> None:
    ahead, layout = ahead_of(Reader(20)), "layout"
    fits: Callable[..., bool] = ahead.fits
    assert fits(IntegerOffset(3), layout, STREAM)
    assert not fits(IntegerOffset(4), layout, STREAM)
    assert not fits(IntegerOffset(3), "another", STREAM)
    assert not fits(IntegerOffset(3), layout, StreamConfig("log", "u"))
    ahead.close()


def test_an_error_leaves_all_to_the_successor() -> None:
    reader = Reader(20, fails=True)
    ahead = ahead_of(reader)
    assert reader.closed.wait(30)
    assert ahead.finish() == (None, ahead._read)
    assert not ahead._read


def test_a_successor_shows_what_was_read_before_it_began(make_world: Any, eventually: Any, monkeypatch: Any) -> None:
    taken: list[int] = []
    plain = Reading._read_before

    def read_before(self: Any, *wanted: Any) -> Any:
        found = plain(self, *wanted)
        taken.append(0 if found is None else len(found.batch))
        return found

    monkeypatch.setattr(Reading, "_read_before", read_before)
    world = make_world(rows=300)
    world.controller.create(0, "0")
    for _ in range(10):
        world.produce(100)
    world.send(b"{not json")
    world.produce(50)
    world.start()
    eventually(lambda: world.count() == 1050 and list(world.segments().values()) == [ONLINE] * 3 + [CONSUMING])
    assert world.ask()[0] == [[1050, 550725.0, 0.0, 1049.0]]
    assert sum(taken) > 0
    last = list(world.segments())[-1]
    [letter] = world.server.consumers.dead_letters("t_REALTIME").entries(10)
    assert (letter["offset"], letter["segment"]) == ("1000", last)


def test_a_segment_gives_way_to_its_successor_for_a_while(
    make_world: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is served once the successor shows rows, and soon when none comes, as while consumption rests."""
    monkeypatch.setattr(consuming, "_SUCCESSOR_S", 5.0)  # a machine that does other work takes its time
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
    monkeypatch.setattr(consuming, "_SUCCESSOR_S", 0.1)
    world.controller.paused = True
    world.produce(70)
    eventually(lambda: len(served) == 2)
    assert served[1][1] == 0
    assert world.count() == 200


def test_a_successor_takes_buffers_that_were_made_before_it_began(
    make_world: Any, eventually: Any, monkeypatch: Any
) -> None:
    spares: list[bool] = []
    plain = consuming.MutableSegment.__init__

    def init(self: Any, *arguments: Any) -> None:
        spares.append(arguments[-1] is not None)
        plain(self, *arguments)

    monkeypatch.setattr(consuming.MutableSegment, "__init__", init)
    world = make_world(rows=100)
    world.controller.create(0, "0")
    world.start()
    world.produce(80)
    manager = world.server.consumers
    eventually(lambda: ("t_REALTIME", 0) in manager._spare)
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
    eventually(lambda: ("t_REALTIME", 0) in manager._spare)
    (segment,) = manager.consumers("t_REALTIME")
    shapes = manager.consumers("t_REALTIME")[segment]._rows.shapes
    data = world.server.table("t_REALTIME")
    assert data is not None
    manager.stop(data, segment)
    assert not manager._spare
    folder = manager._resources.folder / "t_REALTIME"
    late = SpareBuffers(folder / "spare-late", shapes)
    manager.keep_spare("t_REALTIME", 0, late)
    assert not manager._spare
    assert not [path for path in folder.iterdir() if path.name.startswith("spare-")]
