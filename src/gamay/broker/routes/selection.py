"""Selection of the server for each segment. Pure functions of the known state of servers.

A segment's *candidates* are the servers that can serve it, by name. Segments with the same candidates form a replica
set; there are few of them, however many segments there are.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from gamay.model.table.sections import RoutingConfig
from gamay.sql.options.option_values import flag, number

Candidates: TypeAlias = tuple[str, ...]
Rank: TypeAlias = Callable[[str], float]
"""Load or latency of a server; the server with the lowest value is asked."""

_PARTITION_AWARE = ("PartitionAwareOffline", "PartitionAwareRealtime")
FIXED_REPLICA = "useFixedReplica"
_GROUPS = "numReplicaGroupsToQuery"


class SelectorKind(Enum):
    """How replicas are selected; the values are those of `instanceSelectorType`."""

    BALANCED = "balanced"
    REPLICA_GROUP = "replicaGroup"
    STRICT_REPLICA_GROUP = "strictReplicaGroup"

    @classmethod
    def of(cls, routing: RoutingConfig) -> "SelectorKind":
        """Return the kind of a table's config; `multiStageReplicaGroup` is treated as `strictReplicaGroup`."""
        named = routing.instance_selector_type
        if named == "multiStageReplicaGroup":
            return cls.STRICT_REPLICA_GROUP
        if named is not None:
            return cls(named)
        return cls.REPLICA_GROUP if routing.routing_table_builder_name in _PARTITION_AWARE else cls.BALANCED


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode` of a text: a signed 32-bit number."""
    value = 0
    for unit in memoryview(text.encode("utf-16-le")).cast("H"):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


@dataclass(slots=True)
class Turn:
    """The choice among replicas for one query.

    number: of the request; replicas take turns by it. avoided: servers to be asked only if no other can serve a segment.
    rank: None makes replicas take turns. groups: number of replica groups over which a query is spread. fixed: index of the
    replica that is always chosen, None if it varies.
    """

    number: int
    avoided: Collection[str] = frozenset()
    rank: Rank | None = None
    groups: int = 1
    fixed: int | None = None

    @classmethod
    def of(
        cls,
        number_: int,
        options: Mapping[str, str],
        table: str,
        *,
        avoided: Collection[str] = frozenset(),
        rank: Rank | None = None,
        fixed: bool = False,
    ) -> "Turn":
        """Return the turn of a query with its options. fixed: the default of the option for a fixed replica."""
        is_fixed = flag(options, FIXED_REPLICA) if FIXED_REPLICA in options else fixed
        groups = max(1, number(options, _GROUPS, 1) or 1)
        return cls(number_, avoided, rank, groups, abs(java_hash(table)) if is_fixed else None)

    def take(self, candidates: Candidates, offset: int = 0) -> str:
        """Choose a server. offset: added to the number of the request."""
        if self.avoided:
            candidates = tuple(c for c in candidates if c not in self.avoided) or candidates
        if len(candidates) == 1:
            return candidates[0]
        if self.fixed is not None:
            return candidates[self.fixed % len(candidates)]
        first = (self.number + offset) % len(candidates)
        if self.rank is None:
            return candidates[first]
        # servers of equal rank take turns
        ordered = candidates[first:] + candidates[:first]
        return min(ordered, key=self.rank)


FIRST_TURN = Turn(0)


def choose(
    kind: SelectorKind, segments: Sequence[str], candidates: Sequence[Candidates], chosen: Sequence[int], turn: Turn
) -> dict[str, list[str]]:
    """Return server -> segments, for the segments at the positions `chosen`."""
    asked: dict[str, list[str]] = {}
    if len(chosen) == 1:
        return {turn.take(candidates[chosen[0]]): [segments[chosen[0]]]}
    if kind is SelectorKind.BALANCED and turn.rank is None and turn.fixed is None:
        for offset, place in enumerate(chosen):
            asked.setdefault(turn.take(candidates[place], offset), []).append(segments[place])
        return asked
    spread = turn.groups if kind is not SelectorKind.STRICT_REPLICA_GROUP and turn.rank is None else 1
    taken: dict[tuple[Candidates, int], str] = {}
    for offset, place in enumerate(chosen):
        key = (candidates[place], offset % spread)
        server = taken.get(key)
        if server is None:
            server = taken[key] = turn.take(*key)
        asked.setdefault(server, []).append(segments[place])
    return asked


@dataclass(slots=True)
class Replicas:
    """Where the segments of a table can be read, according to the records.

    segments: the readable ones, ascending; candidates: of each. optional: new ones that some candidates do not have yet, and
    that are skipped there. unready: those that no server can serve.
    """

    segments: list[str] = field(default_factory=list)
    candidates: list[Candidates] = field(default_factory=list)
    optional: set[str] = field(default_factory=set)
    unready: list[str] = field(default_factory=list)


def strict(
    ready: Mapping[str, Candidates], assigned: Mapping[str, frozenset[str]], is_new: Callable[[str], bool]
) -> Replicas:
    """Return the replicas of a table without primary keys whose replica groups are not split.

    ready: segment -> the servers that can serve it, for all segments that queries should read. assigned: the servers that
    should have it. Segments assigned to the same servers form a group; a server that lacks one of them serves none of the
    group, unless the segment is new: then it is skipped there.
    """
    groups: dict[frozenset[str], Candidates] = {}
    for segment, servers in ready.items():
        if not is_new(segment):
            group = assigned[segment]
            known = groups.get(group)
            groups[group] = servers if known is None else tuple(s for s in known if s in servers)
    found = Replicas()
    for segment in sorted(ready):
        servers = ready[segment]
        common = groups.get(assigned[segment])
        if common is not None:
            if servers != common and is_new(segment) and common:
                found.optional.add(segment)
            servers = common
        if servers:
            found.segments.append(segment)
            found.candidates.append(servers)
        else:
            found.unready.append(segment)
    return found


def whole_partitions(
    ready: Mapping[str, Candidates], able: Mapping[str, Candidates], partition_of: Callable[[str], int | None]
) -> Replicas:
    """Return the replicas of a table with primary keys: all segments of a partition have the same candidates.

    A row of one segment invalidates rows of others, and at any moment servers differ in which ones. So a server serves a
    partition only if it has every segment of it, however new. ready: segment -> the servers to ask, for all segments that
    queries should read; able: those that can serve it at all, which are asked if no server is ready for the whole partition:
    one replica may have committed a segment while another has already begun the next one. If no server has all segments, the
    one with the most serves those, and the others are unready. Segments of unknown partition (None) are kept together as
    well.
    """
    placed: dict[int | None, dict[tuple[Candidates, Candidates], list[str]]] = {}  # few distinct places, many segments
    for segment, servers in ready.items():
        alike = placed.setdefault(partition_of(segment), {})
        alike.setdefault((servers, able[segment]), []).append(segment)
    found: dict[str, Candidates] = {}
    replicas = Replicas()
    for alike in placed.values():
        common = _common(servers for servers, _ in alike) or _common(servers for _, servers in alike)
        if not common:
            counts: Counter[str] = Counter()
            for (_, servers), segments in alike.items():
                counts.update(dict.fromkeys(servers, len(segments)))
            common = tuple(sorted(counts, key=lambda server: (-counts[server], server))[:1])
        for (_, servers), segments in alike.items():
            if common and common[0] in servers:
                found |= dict.fromkeys(segments, common)
            else:
                replicas.unready += segments
    replicas.segments = sorted(found)
    replicas.candidates = [found[segment] for segment in replicas.segments]
    return replicas


def _common(candidates: Iterable[Candidates]) -> Candidates:
    """Return the servers common to all."""
    first, *others = candidates
    return tuple(server for server in first if all(server in servers for servers in others))


def one_consuming_each(
    online: Mapping[str, Candidates], consuming: Mapping[str, Candidates], place_of: Callable[[str], tuple[int, int] | None]
) -> dict[str, Candidates]:
    """Return segment -> candidates, preferring ONLINE to CONSUMING replicas, with one consuming segment per partition.

    online, consuming: the servers that have a segment in that state; a segment with neither has no entry in the result.
    place_of: (partition, sequence) of a stream segment. If two segments of a partition are consuming, on servers that learn
    of a commit at different times, the later one is left out: the earlier may hold its first rows.
    """
    ready = {segment: servers for segment, servers in online.items() if servers}
    first: dict[int, tuple[int, str]] = {}
    for segment, servers in consuming.items():
        if segment in ready or not servers:
            continue
        place = place_of(segment)
        if place is None:
            ready[segment] = servers
            continue
        partition, sequence = place
        if partition not in first or sequence < first[partition][0]:
            first[partition] = (sequence, segment)
    for _, segment in first.values():
        ready[segment] = consuming[segment]
    return ready
