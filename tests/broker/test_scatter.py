"""Which servers replace those that fail or lack segments."""

from collections import defaultdict
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.base.errors import ErrorCode
from gamay.broker.routes.selection import Candidates, SelectorKind, Turn, choose
from gamay.broker.scatter.connection import UnreachableServerError
from gamay.broker.scatter.state import Part, Scatter

SERVERS = ("a", "b", "c")
groups_of_candidates = st.lists(
    st.sets(st.sampled_from(SERVERS), min_size=1).map(lambda found: tuple(sorted(found))), min_size=1, max_size=4
)


def asked_until_the_end(
    candidates: dict[str, Candidates], dead: set[str], lacking: set[tuple[str, str]], turn: Turn, spares: Candidates = ()
) -> tuple[dict[str, str], Scatter[list[str]]]:
    """Return segment -> the server it was read from; lacking: (server, segment)."""
    route = SimpleNamespace(
        table="t_REALTIME", selector=SelectorKind.STRICT_REPLICA_GROUP, optional=(), candidates=candidates.__getitem__,
        spares_of=lambda _: spares,
    )  # fmt: skip
    names = sorted(candidates)
    asked = choose(route.selector, names, [candidates[name] for name in names], range(len(names)), turn)
    scatter: Scatter[list[str]] = Scatter([Part(cast(Any, route), cast(Any, None), asked)], turn)
    asks = scatter.begin()
    while asks:
        ask = asks.pop()
        if ask.server in dead:
            asks += scatter.failed(ask, UnreachableServerError(ErrorCode.SERVER_NOT_RESPONDING, "gone", is_down=True))
        else:
            missing = [name for name in ask.segments if (ask.server, name) in lacking]
            asks += scatter.answered(ask, [name for name in ask.segments if name not in missing], missing)
    read = {name: server for _, server, found in scatter.gathered.results for name in found}
    assert len(read) == sum(len(found) for _, _, found in scatter.gathered.results), "a segment is read twice"
    return read, scatter


@given(
    groups_of_candidates,
    st.sets(st.sampled_from(SERVERS), max_size=2),
    st.sets(st.tuples(st.sampled_from(SERVERS), st.integers(0, 3), st.integers(0, 2))),
    st.integers(0, 5),
    st.randoms(use_true_random=False),
)
def test_a_group_is_read_from_one_server_or_the_answer_is_partial(
    groups: list[Candidates], dead: set[str], lacking: set[tuple[str, int, int]], number: int, rng: Any
) -> None:
    candidates = {f"{group}-{i}": servers for group, servers in enumerate(groups) for i in range(3)}
    turn = Turn(number, rank=lambda _: float(rng.random()))  # ranks that are another whenever they are asked for
    read, scatter = asked_until_the_end(candidates, dead, {(s, f"{group}-{i}") for s, group, i in lacking}, turn)
    gathered = scatter.gathered
    if gathered.missing or gathered.problems:
        return
    assert read.keys() == candidates.keys()
    servers: dict[str, set[str]] = defaultdict(set)
    for name, server in read.items():
        servers[name.partition("-")[0]].add(server)
    assert all(len(found) == 1 for found in servers.values()), servers


@pytest.mark.parametrize("number", range(2))
def test_a_group_moves_as_a_whole_though_another_one_cannot(number: int) -> None:
    candidates: dict[str, Candidates] = {"0-0": ("a", "b"), "0-1": ("a", "b"), "1-0": ("a",)}
    read, scatter = asked_until_the_end(candidates, set(), {("a", "0-1")}, Turn(number))
    assert read == {"0-0": "b", "0-1": "b", "1-0": "a"}
    assert not scatter.gathered.missing
    assert scatter.gathered.num_queried == 2


def test_what_nobody_else_has_is_missing() -> None:
    candidates: dict[str, Candidates] = {"0-0": ("a", "b"), "0-1": ("a", "b"), "1-0": ("a",)}
    read, scatter = asked_until_the_end(candidates, {"b"}, {("a", "0-1"), ("a", "1-0")}, Turn(0))
    assert scatter.gathered.missing or scatter.gathered.problems
    assert "1-0" not in read


def test_servers_that_the_store_has_lost_stand_in_for_those_that_cannot_be_reached() -> None:
    candidates: dict[str, Candidates] = {"0": ("a", "b"), "1": ("a",)}
    read, scatter = asked_until_the_end(candidates, {"a"}, set(), Turn(0), ("c",))
    assert read == {"0": "b", "1": "c"}
    assert not scatter.gathered.problems
    read, scatter = asked_until_the_end(candidates, set(), {("a", "1")}, Turn(0), ("c",))
    assert "1" not in read  # a running server reports that it lacks the segment
    assert scatter.gathered.missing == ["1"]
    read, scatter = asked_until_the_end(candidates, {"a", "c"}, set(), Turn(0), ("c",))
    assert scatter.gathered.problems
    read, scatter = asked_until_the_end(candidates, {"a"}, set(), Turn(0, avoided={"c"}), ("c",))
    assert "1" not in read  # it is known to be down
