"""Which server answers for which segment: pure functions, simulated."""

import random
from collections import Counter

import pytest

from gamay.broker.routes.selection import (
    Candidates,
    SelectorKind,
    Turn,
    choose,
    java_hash,
    one_consuming_each,
    strict,
)
from gamay.model.table.sections import RoutingConfig

SERVERS = [f"Server_{letter}_1" for letter in "abcdef"]


def placed(rng: random.Random, num_segments: int) -> tuple[list[str], list[Candidates]]:
    segments = [f"s{i:03d}" for i in range(num_segments)]
    return segments, [tuple(sorted(rng.sample(SERVERS, rng.randint(1, 3)))) for _ in segments]


@pytest.mark.parametrize("kind", SelectorKind)
@pytest.mark.parametrize("seed", range(30))
def test_every_segment_is_asked_once_of_a_server_that_has_it(kind: SelectorKind, seed: int) -> None:
    rng = random.Random(seed)
    segments, candidates = placed(rng, rng.randint(0, 60))
    chosen = sorted(rng.sample(range(len(segments)), rng.randint(0, len(segments))))
    turn = Turn(
        rng.randrange(10**12),
        avoided=frozenset(rng.sample(SERVERS, rng.randint(0, 3))),
        rank=rng.choice([None, {name: rng.random() for name in SERVERS}.__getitem__]),
        groups=rng.randint(1, 3),
        fixed=rng.choice([None, 5]),
    )
    asked = choose(kind, segments, candidates, chosen, turn)
    assert sorted(name for names in asked.values() for name in names) == [segments[i] for i in chosen]
    for server, names in asked.items():
        for name in names:
            able = candidates[segments.index(name)]
            assert server in able
            assert server not in turn.avoided or set(able) <= set(turn.avoided)


def test_balanced_spreads_segments_and_requests() -> None:
    segments = [f"s{i}" for i in range(90)]
    candidates: list[Candidates] = [("a", "b", "c")] * 90
    asked = choose(SelectorKind.BALANCED, segments, candidates, range(90), Turn(7))
    assert {server: len(names) for server, names in asked.items()} == {"a": 30, "b": 30, "c": 30}
    firsts = Counter(next(iter(choose(SelectorKind.BALANCED, segments, candidates, [0], Turn(i)))) for i in range(30))
    assert firsts == {"a": 10, "b": 10, "c": 10}


@pytest.mark.parametrize("kind", [SelectorKind.REPLICA_GROUP, SelectorKind.STRICT_REPLICA_GROUP])
def test_a_replica_group_answers_alone(kind: SelectorKind) -> None:
    """Two replica groups of two servers, each of which has half of the segments."""
    segments = [f"s{i}" for i in range(20)]
    candidates: list[Candidates] = [("a1", "b1") if i % 2 else ("a2", "b2") for i in range(20)]
    seen = {frozenset(choose(kind, segments, candidates, range(20), Turn(number))) for number in range(10)}
    assert seen == {frozenset({"a1", "a2"}), frozenset({"b1", "b2"})}


def test_a_query_over_several_replica_groups() -> None:
    segments = [f"s{i}" for i in range(12)]
    candidates: list[Candidates] = [("a", "b", "c")] * 12
    turn = Turn.of(0, {"numReplicaGroupsToQuery": "2"}, "t_OFFLINE")
    assert {s: len(n) for s, n in choose(SelectorKind.REPLICA_GROUP, segments, candidates, range(12), turn).items()} == {
        "a": 6,
        "b": 6,
    }


def test_a_fixed_replica() -> None:
    candidates: list[Candidates] = [("a", "b", "c")]
    option = {"useFixedReplica": "true"}
    taken = {
        next(iter(choose(SelectorKind.BALANCED, ["s"], candidates, [0], Turn.of(i, option, "t_OFFLINE")))) for i in range(9)
    }
    assert taken == {candidates[0][abs(java_hash("t_OFFLINE")) % 3]}
    other = Turn.of(1, {"useFixedReplica": "false"}, "t_OFFLINE", fixed=True)
    assert other.fixed is None
    assert Turn.of(1, {}, "t_OFFLINE", fixed=True).fixed is not None


@pytest.mark.parametrize(
    ("text", "value"), [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(2**31)), ("ä😀", 6772)]
)
def test_java_hash(text: str, value: int) -> None:
    if text == "ä😀":  # by UTF-16 units
        units = [0xE4, 0xD83D, 0xDE00]
        value = (units[0] * 31 + units[1]) * 31 + units[2]
    assert java_hash(text) == value


def test_the_best_by_rank_and_equals_in_turn() -> None:
    rank = {"a": 2.0, "b": 1.0, "c": 1.0}.__getitem__
    taken = Counter(Turn(number, rank=rank).take(("a", "b", "c")) for number in range(30))
    assert taken["a"] == 0
    assert taken["b"] >= 10 <= taken["c"]


def test_the_config_names_the_selector() -> None:
    assert SelectorKind.of(RoutingConfig()) is SelectorKind.BALANCED
    assert SelectorKind.of(RoutingConfig("PartitionAwareOffline")) is SelectorKind.REPLICA_GROUP
    assert SelectorKind.of(RoutingConfig("PartitionAwareRealtime", (), "balanced")) is SelectorKind.BALANCED
    assert SelectorKind.of(RoutingConfig(None, (), "strictReplicaGroup")) is SelectorKind.STRICT_REPLICA_GROUP
    assert SelectorKind.of(RoutingConfig(None, (), "multiStageReplicaGroup")) is SelectorKind.STRICT_REPLICA_GROUP


# -- strict replica groups


def test_strict_groups_are_never_split() -> None:
    """10,000 clusters with holes: old segments of one group are always asked of one server that has them all."""
    for seed in range(10_000):
        rng = random.Random(seed)
        assigned: dict[str, frozenset[str]] = {}
        ready: dict[str, Candidates] = {}
        new: set[str] = set()
        groups = [frozenset(rng.sample(SERVERS, rng.randint(1, 3))) for _ in range(rng.randint(1, 3))]
        for number in range(rng.randint(1, 10)):
            name = f"s{number}"
            assigned[name] = rng.choice(groups)
            ready[name] = tuple(sorted(server for server in assigned[name] if rng.random() < 0.8))
            if rng.random() < 0.2:
                new.add(name)
        found = strict(ready, assigned, new.__contains__)
        assert set(found.segments) | set(found.unready) == set(ready)
        assert not set(found.segments) & set(found.unready)
        turn = Turn(seed, avoided=frozenset(rng.sample(SERVERS, rng.randint(0, 2))))
        asked = choose(SelectorKind.STRICT_REPLICA_GROUP, found.segments, found.candidates, range(len(found.segments)), turn)
        server_of = {name: server for server, names in asked.items() for name in names}
        for group in groups:
            old = [name for name in found.segments if assigned[name] == group and name not in new]
            assert len({server_of[name] for name in old}) <= 1
        for name in found.segments:
            assert server_of[name] in ready[name] or name in found.optional
        for name in found.optional:
            assert name in new


# -- consuming segments


def place_of(name: str) -> tuple[int, int] | None:
    partition, _, sequence = name.partition("-")
    return (int(partition), int(sequence)) if sequence.isdigit() else None


def test_online_before_consuming_and_one_consuming_each() -> None:
    online: dict[str, Candidates] = {"0-0": ("a",), "0-1": ("b",), "1-0": ()}
    consuming: dict[str, Candidates] = {
        "0-1": ("a",),  # committed on b already
        "0-2": ("a", "b"),
        "0-3": ("b",),  # begun before everybody knows that 0-2 is committed
        "1-4": ("a",),
        "other": ("a",),
    }
    assert one_consuming_each(online, consuming, place_of) == {
        "0-0": ("a",),
        "0-1": ("b",),
        "0-2": ("a", "b"),
        "1-4": ("a",),
        "other": ("a",),
    }


def test_rows_of_a_partition_are_read_once_while_segments_are_committed() -> None:
    """Replicas commit, take over and begin the next segment in any order; every answer is a prefix of the stream."""
    for seed in range(3000):
        rng = random.Random(seed)
        length = 5
        at = dict.fromkeys(SERVERS[:3], 0)  # the segment that a server consumes
        for _ in range(30):
            server = rng.choice(SERVERS[:3])
            at[server] = min(at[server] + 1, length)
            last = max(at.values())
            online: dict[str, Candidates] = {}
            consuming: dict[str, Candidates] = {}
            for sequence in range(last + 1):
                online[f"0-{sequence}"] = tuple(s for s, now in at.items() if now > sequence)
                consuming[f"0-{sequence}"] = tuple(s for s, now in at.items() if now == sequence)
            ready = one_consuming_each(online, consuming, place_of)
            read = sorted(int(name.partition("-")[2]) for name in ready)
            assert read == list(range(len(read)))
            assert sum(1 for name, servers in ready.items() if servers == consuming[name] and not online[name]) <= 1
