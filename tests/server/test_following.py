"""Rows that follow the last segment known to a broker: together, a prefix of the stream, each row once."""

import itertools
import random
from typing import Any

from gamay.ingest.stream.offsets import IntegerOffset
from gamay.server.answering.following import frozen_after
from gamay.server.loading.table import ConsumingSegment, TableData

P, NEXT, LAST = (f"t__0__{sequence}__20260101T0000Z" for sequence in range(3))


class Rows:
    """Rows of a segment, which has those from `start` on; whatever is asked of it, the world may go on before it answers."""

    def __init__(self, world: "World", name: str, start: int) -> None:
        self.world, self.name, self.start = world, name, start
        self.rows = self.offset = start
        self.rests = False

    def append(self) -> None:
        """Append a batch like a consumer: rows are visible before it reports them."""
        self.rests = False
        self.world.later.append(self._passed)
        self.rows += self.world.rng.randrange(4)

    def _passed(self) -> None:
        self.offset = self.rows

    def view(self) -> Any:
        self.world.go_on()
        return range(self.start, self.rows)

    def end(self) -> IntegerOffset | None:
        self.world.go_on()
        return IntegerOffset(self.offset) if self.rests else None

    def shown(self) -> ConsumingSegment:
        return ConsumingSegment(self.name, self.view, lambda: 0, None, IntegerOffset(self.start), self.end)


class World:
    """One partition on one server: segments end, are followed, or turn out to end further on."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.data = TableData("t_REALTIME")
        self.later: list[Any] = []
        self.segments = [Rows(self, P, 0)]
        self.ahead: Rows | None = None
        self.data.add_consuming(self.segments[0].shown())
        self.appending = True

    def go_on(self) -> None:
        while self.rng.random() < 0.5:
            self._step()

    def _step(self) -> None:
        if self.later:
            self.later.pop(0)()
            return
        growing = self.segments[-1]
        choice = self.rng.random()
        if self.ahead is not None and choice < 0.3:
            self.ahead.append()
        elif not growing.rests:
            if choice < 0.6:
                growing.append()
            else:
                growing.rests = True
        elif self.ahead is None and choice < 0.6:
            self.ahead = Rows(self, "ahead", growing.offset)
            self.data.show_prefetched(growing.name, self.ahead.shown())
        elif choice < 0.7:  # its end is another: more rows, and what was ahead is hidden only some time later
            hidden, self.ahead = growing.name, None
            growing.append()
            self.later.append(lambda: self.data.hide_prefetched(hidden))
        elif choice < 0.9 and len(self.segments) < 3:
            following = Rows(self, (P, NEXT, LAST)[len(self.segments)], growing.offset)
            if self.ahead is not None:
                following.rows = following.offset = self.ahead.rows
            self.ahead = None
            self.segments.append(following)
            self.data.add_consuming(following.shown(), growing.name)

    def ask(self, name: str) -> list[int]:
        contents = self.data.contents()
        view, _, end = contents.consuming[name].freeze_to_end()
        views: list[Any] = [view]
        if end is not None:
            views += [rows for rows, _ in frozen_after(contents, name, end)]
        return [row for rows in views for row in rows]


def test_what_is_read_is_a_prefix_at_any_moment() -> None:
    further = 0
    for seed in range(3000):
        world = World(seed)
        for _ in range(10):
            world.go_on()
            rows = world.ask(P)
            assert rows == list(range(len(rows))), f"seed {seed}"
            further += len(rows) > world.segments[0].rows
    assert further > 1000


def test_what_follows_is_forgotten_with_the_segments_after_it() -> None:
    world = World(0)
    names = [f"t__0__{sequence}__20260101T0000Z" for sequence in range(10)]
    for before, name in itertools.pairwise(names):
        world.data.add_consuming(Rows(world, name, 0).shown(), before)
    assert world.data.contents().following == {names[7]: names[8], names[8]: names[9]}
