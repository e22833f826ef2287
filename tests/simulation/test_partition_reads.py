"""Tables with primary keys while servers die, load, commit and are exchanged: no query splits a partition among servers.

The broker's code is the real one: from (old) views of the cluster to candidates, from these to the segments requested from
each server, and to replacements for servers that fail or lack segments. `GAMAY_SIMULATION_SEEDS` is the number of histories.
"""

import os
import random
from collections import defaultdict
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gamay.base.errors import ErrorCode, QueryError
from gamay.broker.routes.selection import (
    Candidates,
    Replicas,
    SelectorKind,
    Turn,
    choose,
    one_consuming_each,
    whole_partitions,
)
from gamay.broker.scatter.connection import UnreachableServerError
from gamay.broker.scatter.state import Ask, Part, Scatter
from gamay.cluster.place.rebalance_steps import StepRules, next_step
from gamay.cluster.records.llc_name import LlcName, partition_of
from gamay.cluster.records.records import CONSUMING, ONLINE

SEEDS = int(os.environ.get("GAMAY_SIMULATION_SEEDS", "300"))
_TIME = "20260101T0000Z"
_SERVERS = ("S0", "S1", "S2", "S3")


class Table:
    """ideal: the assigned segments of servers; loaded: the segments of each, by state; alive: the servers that answer."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.ideal: dict[str, dict[str, str]] = {}
        self.loaded: dict[str, dict[str, str]] = {server: {} for server in _SERVERS}
        self.alive = set(_SERVERS)
        self.target = {partition: tuple(rng.sample(_SERVERS, 2)) for partition in range(4)}
        self.partitions = 0
        self.uploads = 0
        self.new_partition()

    def new_partition(self) -> None:
        if self.partitions < len(self.target):
            self._add(LlcName("t", self.partitions, 0, _TIME), self.target[self.partitions])
            self.partitions += 1

    def _add(self, name: LlcName, servers: Sequence[str]) -> None:
        self.ideal[str(name)] = dict.fromkeys(servers, CONSUMING)

    def commit(self) -> None:
        consuming = [name for name, states in self.ideal.items() if CONSUMING in states.values()]
        name = self.rng.choice(consuming)
        able = [server for server in self.ideal[name] if self.loaded[server].get(name) == CONSUMING]
        if able:
            servers = list(self.ideal[name])
            self.ideal[name] = dict.fromkeys(servers, ONLINE)
            self._add(LlcName.must_parse(name).next(0), servers)

    def upload(self) -> None:
        """Add a segment with its partition in its name."""
        partition = self.rng.randrange(self.partitions)
        like = next(states for name, states in self.ideal.items() if partition_of(name) == partition)
        self.ideal[f"up__t__{partition}__{self.uploads}__x"] = dict.fromkeys(like, ONLINE)
        self.uploads += 1

    def transition(self) -> None:
        """Let a server execute a transition that the ideal state demands, in any order."""
        todo: list[tuple[str, str, str | None]] = []
        for server in sorted(self.alive):
            has = self.loaded[server]
            for name, states in self.ideal.items():
                if server in states and has.get(name) != states[server]:
                    todo.append((server, name, states[server]))
            todo += [(server, name, None) for name in has if server not in self.ideal[name]]
        if todo:
            server, name, state = self.rng.choice(todo)
            if state is None:
                del self.loaded[server][name]
            else:
                self.loaded[server][name] = state

    def die_or_start(self) -> None:
        server = self.rng.choice(_SERVERS)
        if server in self.alive:
            self.alive.discard(server)
        else:
            self.loaded[server] = {}  # reloads, one segment after the other
            self.alive.add(server)

    def rebalance(self) -> None:
        """Do the next step of a rebalance once the one before it is done; begin another one where all have arrived."""
        if any(
            self.loaded[server].get(name) != state for name, states in self.ideal.items() for server, state in states.items()
        ):
            return
        placed = {
            name: {server: next(iter(states.values())) for server in self.target[cast(int, partition_of(name))]}
            for name, states in self.ideal.items()
        }
        if placed == self.ideal:
            self.target[self.rng.randrange(len(self.target))] = tuple(self.rng.sample(_SERVERS, 2))
        self.ideal = next_step(self.ideal, placed, StepRules(1, self.rng.choice([None, 2]), strict=True))

    def view(self) -> "View":
        """Return the broker's view at this moment."""
        online: dict[str, Candidates] = {}
        able: dict[str, Candidates] = {}
        for name, states in self.ideal.items():
            found = sorted(server for server in states if server in self.alive and name in self.loaded[server])
            able[name] = tuple(found)
            online[name] = tuple(server for server in found if self.loaded[server][name] == ONLINE)
        return View(online, able)


def _place_of(name: str) -> tuple[int, int] | None:
    parsed = LlcName.parse(name)
    return None if parsed is None else (parsed.partition, parsed.sequence)


class View:
    """A route, as built by `gamay.broker.routes.route`; it may be out of date when it is used."""

    def __init__(self, online: dict[str, Candidates], able: dict[str, Candidates]) -> None:
        consuming = {name: servers for name, servers in able.items() if not online[name]}
        self.ready = one_consuming_each(online, consuming, _place_of)
        self.replicas: Replicas = whole_partitions(self.ready, able, partition_of)
        self.candidates = dict(zip(self.replicas.segments, self.replicas.candidates, strict=True))
        self.optional = self.replicas.optional
        self.table, self.selector = "t_REALTIME", SelectorKind.STRICT_REPLICA_GROUP
        self.route = cast(Any, SimpleNamespace(
            table=self.table, selector=self.selector, optional=self.optional,
            candidates=lambda name: self.candidates.get(name, ()), spares_of=lambda name: (),
        ))  # fmt: skip


def query(rng: random.Random, view: View, table: Table) -> tuple[dict[int, set[str]], bool]:
    """Return partition -> the servers that its rows came from, and whether the answer is reported as partial."""
    ranks = rng.choice([None, lambda _: rng.random()])  # changes from one moment to the next
    turn = Turn(rng.randrange(100), frozenset(rng.sample(_SERVERS, rng.randint(0, 1))), ranks)
    segments, candidates = view.replicas.segments, view.replicas.candidates
    chosen = [place for place in range(len(segments)) if rng.random() < 0.9]  # the others are pruned
    asked = choose(view.selector, segments, candidates, chosen, turn)
    scatter: Scatter[list[str]] = Scatter([Part(view.route, cast(Any, None), asked)], turn)
    asks, rounds = scatter.begin(), 0
    while asks:
        ask: Ask = asks.pop(rng.randrange(len(asks)))
        if rng.random() < 0.1:
            table.transition()
        if ask.server not in table.alive:
            asks += scatter.failed(ask, UnreachableServerError(ErrorCode.SERVER_NOT_RESPONDING, "gone", is_down=True))
        elif rng.random() < 0.05:
            asks += scatter.failed(ask, QueryError(ErrorCode.QUERY_EXECUTION, "broken"))
        else:
            missing = [name for name in ask.segments if name not in table.loaded[ask.server]]
            found = [name for name in ask.segments if name not in missing]
            asks += scatter.answered(ask, found, missing)
        rounds += 1
        assert rounds < 1000
    gathered = scatter.gathered
    read: dict[int, set[str]] = defaultdict(set)
    names: list[str] = []
    for _, server, found in gathered.results:
        names += found
        for name in found:
            read[cast(int, partition_of(name))].add(server)
    assert len(names) == len(set(names)), "a segment is read twice"
    is_partial = bool(gathered.missing or gathered.problems or view.replicas.unready)
    if not is_partial:
        assert set(names) == {segments[place] for place in chosen}
    return read, is_partial


@pytest.mark.parametrize("block", range(10))
def test_no_partition_is_read_from_two_servers(block: int) -> None:
    for seed in range(block, SEEDS, 10):
        rng = random.Random(seed)
        table = Table(rng)
        views = [table.view()]
        steps = [table.transition] * 10 + [
            table.commit,
            table.upload,
            table.new_partition,
            table.die_or_start,
            table.rebalance,
        ]
        for _ in range(40):
            for _ in range(rng.randint(1, 3)):
                rng.choice(steps)()
            views.append(table.view())
            read, is_partial = query(rng, rng.choice(views[-4:]), table)
            assert is_partial or all(len(servers) == 1 for servers in read.values()), (seed, read)


@pytest.mark.parametrize("seed", range(20))
def test_answers_are_whole_once_all_is_loaded(seed: int) -> None:
    rng = random.Random(seed)
    table = Table(rng)
    for _ in range(100):
        rng.choice([table.transition, table.commit, table.upload, table.new_partition, table.rebalance])()
    for _ in range(1000):
        table.transition()
    assert table.view().replicas.unready == []
    assert set(table.view().candidates) == set(table.ideal)


def test_a_partition_that_no_server_has_in_whole_is_told() -> None:
    """Its rows then come from the server with the most of it."""
    ready: dict[str, Candidates] = {"t__0__0__x": ("a",), "t__0__1__x": ("a",), "t__0__2__x": ("b",), "t__1__0__x": ("b",)}
    found = whole_partitions(ready, ready, lambda name: int(name.split("__")[1]))
    assert found.segments == ["t__0__0__x", "t__0__1__x", "t__1__0__x"]
    assert found.candidates == [("a",), ("a",), ("b",)]
    assert found.unready == ["t__0__2__x"]


def test_a_replica_that_has_begun_the_next_segment_answers_for_the_one_before_it() -> None:
    """The other one has committed that, and has not begun the next."""
    ready: dict[str, Candidates] = {"0": ("a", "b"), "1": ("a",), "2": ("b",)}
    able: dict[str, Candidates] = {"0": ("a", "b"), "1": ("a", "b"), "2": ("b",)}
    found = whole_partitions(ready, able, lambda _: 0)
    assert found.candidates == [("b",)] * 3
    assert found.unready == []
