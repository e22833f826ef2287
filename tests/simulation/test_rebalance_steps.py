"""Random tables are moved between random sets of servers, with transitions in any order; the invariants are checked at every
moment. `GAMAY_SIMULATION_SEEDS` is the number of histories (300 by default)."""

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.seeds import count_of, seeds

from gamay.base.errors import InvalidConfigError
from gamay.cluster.place.placement import Strategy, place_all, place_all_consuming, place_consuming, place_new
from gamay.cluster.place.rebalance_steps import StepRules, available_min, next_step
from gamay.cluster.records.partition_record import InstancePartitions
from gamay.cluster.records.records import CONSUMING, ONLINE

SEEDS = count_of("GAMAY_SIMULATION_SEEDS", 300)
STEPS_MAX = 500

States = Mapping[str, Mapping[str, str]]


class Servers:
    """The segments loaded by servers, each of which follows the ideal state at its own pace."""

    def __init__(self, rng: random.Random, states: States) -> None:
        self._rng = rng
        self.loaded = {segment: set(instances) for segment, instances in states.items()}

    def transitions(self, ideal: States) -> list[tuple[str, str, bool]]:
        todo = [(s, i, True) for s, instances in ideal.items() for i in instances if i not in self.loaded[s]]
        todo += [(s, i, False) for s, loaded in self.loaded.items() for i in loaded if i not in ideal[s]]
        self._rng.shuffle(todo)
        return todo

    def do(self, transition: tuple[str, str, bool]) -> None:
        segment, instance, comes = transition
        if comes:
            self.loaded[segment].add(instance)
        else:
            self.loaded[segment].discard(instance)


def random_partitions(rng: random.Random, pool: list[str], groups: int) -> InstancePartitions:
    """Return instance partitions over some of the servers, with so many replica groups; 1 is none."""
    chosen = rng.sample(pool, rng.randint(max(groups, 3), len(pool)))
    if groups == 1:
        return InstancePartitions("p", ((tuple(chosen),),))
    size = len(chosen) // groups
    members = [chosen[g * size : (g + 1) * size] for g in range(groups)]
    count = rng.choice([1, 1, rng.randint(2, 4)])
    each = rng.randint(1, size) if count > 1 else size
    return InstancePartitions(
        "p",
        tuple(tuple(tuple(group[(p * each + i) % size] for i in range(each)) for group in members) for p in range(count)),
    )


@pytest.mark.parametrize("block", range(10))
def test_moves_keep_enough_replicas_and_arrive(block: int) -> None:
    for seed in seeds(SEEDS, block, 10):
        history(seed)


def history(seed: int) -> None:
    rng = random.Random(seed)
    pool = [f"Server_{i}" for i in range(rng.randint(3, 9))]
    groups = rng.choice([1, 1, 2, 3])
    replication = groups if groups > 1 else rng.randint(1, 3)
    strict = groups > 1 and rng.random() < 0.5
    segments = {f"s{n:03}": rng.randrange(6) for n in range(rng.randint(0, 40))}
    partition_of = segments.__getitem__

    def targets(partitions: InstancePartitions, present: States) -> dict[str, tuple[str, ...]]:
        if strict:
            return place_all_consuming(dict.fromkeys(segments, ()), partitions, replication, partition_of)
        strategy = Strategy.of(None, partitions, is_dimension_table=False)
        return place_all({s: tuple(present[s]) for s in segments}, strategy, partitions, replication, partition_of, "t")

    first, second = (random_partitions(rng, pool, groups) for _ in range(2))
    if strict:
        placed = targets(first, {})
    else:
        strategy = Strategy.of(None, first, is_dimension_table=False)
        placed = place_new(sorted(segments), strategy, first, replication, {}, partition_of)
    present: States = {segment: dict.fromkeys(instances, ONLINE) for segment, instances in placed.items()}
    target: States = {segment: dict.fromkeys(to, ONLINE) for segment, to in targets(second, present).items()}
    check_placement(seed, target, second, replication, partition_of, strict)
    wanted = rng.choice([-2, -1, -1, 0, 1])
    try:
        enough = available_min(wanted, present, target)
    except InvalidConfigError:
        assert wanted == replication == 1
        return
    rules = StepRules(enough, rng.choice([None, 1, 3]), rng.random() < 0.3, strict)
    least = enough if rules.low_disk else max(1, enough)
    servers, steps = Servers(rng, present), 0
    while present != target:
        ideal = next_step(present, target, rules)
        assert ideal != present, (seed, "no progress", rules)
        for segment, instances in ideal.items():
            assert instances, (seed, segment, "is assigned to no server")
            assert len(instances) <= max(len(present[segment]), len(target[segment]) + (not enough)), (seed, segment)
        check_batch(seed, present, ideal, rules)
        check(seed, servers, segments, least, strict)
        for transition in servers.transitions(ideal):
            servers.do(transition)
            check(seed, servers, segments, least, strict)
        present, steps = ideal, steps + 1
        assert steps < STEPS_MAX, (seed, "does not arrive")
    assert next_step(present, target, rules) == present


def check(seed: int, servers: Servers, segments: Mapping[str, int], least: int, strict: bool) -> None:
    for segment, loaded in servers.loaded.items():
        assert len(loaded) >= least, (seed, segment, loaded)
    if strict and least:
        for partition in set(segments.values()):
            common = set.intersection(*(servers.loaded[s] for s, p in segments.items() if p == partition))
            assert len(common) >= least, (seed, partition, "is split", common)


def check_batch(seed: int, present: States, ideal: States, rules: StepRules) -> None:
    if rules.added_max is None or rules.strict:
        return
    for instance in {i for instances in ideal.values() for i in instances}:
        added = sum(instance in ideal[s] and instance not in present[s] for s in ideal)
        assert added <= rules.added_max, (seed, instance, added)


def check_placement(
    seed: int, target: States, partitions: InstancePartitions, replication: int, partition_of: object, strict: bool
) -> None:
    """A placement is complete and even, and with replica groups every group has all segments."""
    load: dict[str, int] = {}
    for instances in target.values():
        assert len(instances) == replication, seed
        for instance in instances:
            load[instance] = load.get(instance, 0) + 1
    if partitions.is_plain and not strict and target:
        counts = [load.get(instance, 0) for instance in partitions.instances]
        assert max(counts) <= -(-len(target) * replication // len(counts)), (seed, counts)
    if not partitions.is_plain:
        members = [{i for part in partitions.groups for i in part[g]} for g in range(partitions.num_replica_groups)]
        for segment, instances in target.items():
            assert all(len(group & set(instances)) == 1 for group in members), (seed, segment)


@pytest.mark.parametrize("block", range(2))
def test_placing_anew_what_lies_well_moves_nothing(block: int) -> None:
    for seed in seeds(SEEDS, block, 2):
        rng = random.Random(seed)
        pool = [f"Server_{i}" for i in range(rng.randint(3, 8))]
        groups = rng.choice([1, 2, 3])
        partitions = random_partitions(rng, pool, groups)
        segments = {f"s{n:03}": rng.randrange(5) for n in range(rng.randint(0, 30))}
        replication = groups if groups > 1 else rng.randint(1, 3)
        strategy = Strategy.of(None, partitions, is_dimension_table=False)
        place = lambda states: place_all(states, strategy, partitions, replication, segments.__getitem__, "t")  # noqa: B023, E731
        found = place(dict.fromkeys(segments, ()))
        assert {s: set(i) for s, i in place(found).items()} == {s: set(i) for s, i in found.items()}, seed


def test_consuming_segments_go_round_the_servers() -> None:
    plain = InstancePartitions("p", ((("a", "b", "c"),),))
    assert [place_consuming(p, plain, 2) for p in range(4)] == [("a", "b"), ("c", "a"), ("b", "c"), ("a", "b")]
    grouped = InstancePartitions("p", ((("a", "b"), ("c", "d")),))
    assert [place_consuming(p, grouped, 2) for p in range(3)] == [("a", "c"), ("b", "d"), ("a", "c")]
    parted = InstancePartitions("p", ((("a", "b"), ("c", "d")), (("b", "a"), ("d", "c"))))
    assert [place_consuming(p, parted, 2) for p in range(3)] == [("a", "c"), ("b", "d"), ("a", "c")]
    with pytest.raises(InvalidConfigError, match="4 replicas need as many servers"):
        place_consuming(0, plain, 4)


def test_segments_move_with_the_state_that_they_should_have() -> None:
    present, target = {"s": {"a": CONSUMING}}, {"s": {"b": CONSUMING}}
    both = next_step(present, target, StepRules(0))
    assert both == {"s": {"a": CONSUMING, "b": CONSUMING}}
    assert next_step(both, target, StepRules(0)) == target
    assert next_step(present, target, StepRules(0, low_disk=True)) == target


def test_a_step_that_leaves_no_replica_is_refused() -> None:
    present, target = {"s": {"a": ONLINE}}, {"s": {"b": ONLINE}}
    with pytest.raises(InvalidConfigError, match="minAvailableReplicas 1 leaves no replica to move"):
        available_min(1, present, target)
    assert available_min(-1, present, target) == 0
    assert available_min(1, present, present) == 0


def test_round_robin_is_what_spreads_evenly_here() -> None:
    plain = InstancePartitions("p", ((("a", "b"),),))
    grouped = replace(plain, groups=((("a",), ("b",)),))
    assert Strategy.of("roundRobin", plain, is_dimension_table=False) is Strategy.BALANCED
    assert Strategy.of(None, grouped, is_dimension_table=False) is Strategy.REPLICA_GROUP
    assert Strategy.of("balanced", grouped, is_dimension_table=True) is Strategy.ALL_SERVERS
