"""The route of a table at one moment, built from the cluster's records."""

import logging
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gamay.base.errors import GamayError, InvalidConfigError
from gamay.broker.admit.limits import TableLimits
from gamay.broker.admit.quota import rate_of
from gamay.broker.routes.consumer_kinds import of_one_way
from gamay.broker.routes.segment_stats import SegmentFacts, facts_of, partition_held, unknown_facts
from gamay.broker.routes.selection import (
    Candidates,
    Replicas,
    SelectorKind,
    Turn,
    choose,
    one_consuming_each,
    strict,
    whole_partitions,
)
from gamay.cluster.records.broker_resource import assigned_brokers, broker_states
from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import CONSUMING, ERROR, OFFLINE, ONLINE, Assignment, Instance
from gamay.cluster.records.registry import Registry
from gamay.cluster.records.time_boundary import TimeBoundary, boundary_of, fixed_boundary_ms
from gamay.model.schema.schema import Schema
from gamay.model.table.search_settings import SearchSettings
from gamay.model.table.stored import stored_schema, stored_table_config
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType, raw_table_name
from gamay.query.prepared.statements import Statements
from gamay.query.prune.by_records import PruningTable, SegmentRecordStats
from gamay.sql.overrides import Overrides, read_overrides

_log = logging.getLogger(__name__)

NEW_SEGMENT_MS = 300_000
_NEVER: Mapping[str, bool] = {}
_RECORDS_AT_ONCE = 5000
_READS_MAX = 20

KnownFacts: TypeAlias = dict[str, SegmentFacts]
_Document: TypeAlias = dict[str, Any]
# Of a segment whose server may read beyond it: its record describes its own rows only.
_UNKNOWN = SegmentRecordStats("", None, {})


@dataclass(frozen=True, slots=True, weakref_slot=True)
class TableRoute:
    """One typed table at one moment.

    segments: those that queries must read, ascending; servers: for each of them the instances that can serve it, ascending.
    optional: new segments that some of those servers do not have yet; they are skipped there.
    unavailable: segments that queries should read but no server can serve, each with the time in milliseconds from which it
    counts as missing: a new segment is given time to load (0: immediately, because loading failed).
    statements: prepared statements of this table's queries, until the route changes.
    limits: of memory and scans. queries_per_s: the table's quota at this broker; None without one.
    boundary: time boundary of the OFFLINE half of a hybrid table.
    stale_ms: when the route must be rebuilt, because segments are no longer new; None for never.
    latest: the last of `segments` of each stream partition.
    spares: like `servers`, but those assigned to a segment whose session with the metadata store is lost: they are asked if
    no candidate can be reached. Empty if there are none.
    only_server: the server that has all segments, or None. is_plain: whether answers are always complete, and no quota or
    scan limit applies. overrides: replacements of expressions in queries, from the table's config.
    """

    table: str
    enabled: bool
    schema: Schema
    config: TableConfig
    segments: tuple[str, ...]
    servers: tuple[Candidates, ...]
    unavailable: tuple[tuple[str, int], ...]
    pruning: PruningTable
    statements: Statements
    limits: TableLimits
    queries_per_s: float | None
    selector: SelectorKind = SelectorKind.BALANCED
    optional: frozenset[str] = frozenset()
    boundary: TimeBoundary | None = None
    stale_ms: int | None = None
    latest: frozenset[str] = frozenset()
    spares: tuple[Candidates, ...] = ()
    places: dict[str, int] = field(default_factory=dict)
    raw_name: str = field(init=False)
    only_server: str | None = field(init=False)
    is_plain: bool = field(init=False)
    overrides: Overrides = field(init=False)

    def __post_init__(self) -> None:
        limits = self.limits
        is_limited = limits.scan is not None or limits.sizes is not None or self.queries_per_s is not None
        is_plain = self.is_offline and self.enabled and not self.unavailable and not is_limited
        servers = {server for able in set(self.servers) for server in able}
        object.__setattr__(self, "raw_name", raw_table_name(self.table))
        object.__setattr__(self, "is_plain", is_plain)
        object.__setattr__(self, "overrides", _overrides_of(self.config))
        object.__setattr__(self, "only_server", servers.pop() if len(servers) == 1 else None)

    @property
    def is_offline(self) -> bool:
        """Whether it is an OFFLINE table, or the OFFLINE half of a hybrid one."""
        return self.config.table_type is TableType.OFFLINE

    def candidates(self, segment: str) -> Candidates:
        """Return the servers that can serve a segment; none for one that is not in the route."""
        place = self._place(segment)
        return () if place is None else self.servers[place]

    def spares_of(self, segment: str) -> Candidates:
        """Return the servers to try for a segment when no candidate can be reached."""
        place = self._place(segment) if self.spares else None
        return () if place is None else self.spares[place]

    def _place(self, segment: str) -> int | None:
        if not self.places:
            self.places.update({name: place for place, name in enumerate(self.segments)})
        return self.places.get(segment)

    def by_server(self, turn: Turn, chosen: Sequence[int] | None = None) -> dict[str, list[str]]:
        """Return server -> segments, for the segments at the positions `chosen`, else for all."""
        every = range(len(self.segments))
        return choose(self.selector, self.segments, self.servers, every if chosen is None else chosen, turn)


def _overrides_of(config: TableConfig) -> Overrides:
    try:
        return read_overrides(config.query.expression_override_map)
    except InvalidConfigError as error:  # a config that was stored unchecked
        _log.error("table %s: %s; expressionOverrideMap is not applied", config.typed_name, error)
        return {}


class RouteBuilder:
    """Builder of routes. addresses: host and port of each instance, as of the last build."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.addresses: Mapping[str, tuple[str, int]] = {}

    def build(
        self, table: str, known: KnownFacts, now_ms: int, served: Mapping[str, bool] | None = _NEVER,
        brokers: Collection[str] | None = None,
    ) -> TableRoute | None:  # fmt: skip
        """Return the route of a typed table, None if the table does not exist (any more).

        known: facts read from segment records before; new ones are added. served: the segments that this broker has seen on
        a server at some time, and whether a server may still have them; None at the broker's first look at a table, which
        other brokers may have seen served. brokers: those assigned to the table; None if tags decide. Raises GamayError for
        a missing record.
        """
        config, schema, ideal, view, hidden = self._records_of(table)
        if config is None or ideal is None or schema is None:
            return None
        parsed_schema = stored_schema(schema)
        parsed = stored_table_config(config)
        wanted = {segment: states for segment, states in ideal.states.items() if segment not in hidden}
        wanted = of_one_way(parsed, wanted)
        keys = parsed_schema.primary_key_columns if parsed.has_keys else ()
        self._read_facts(table, wanted, known, keys)
        selector = SelectorKind.STRICT_REPLICA_GROUP if keys else SelectorKind.of(parsed.routing)
        excluded = self._not_asked()
        # If a server of a segment is gone, the segment may be, too: report it as missing rather than omit rows silently.
        for segment, is_held in (served or {}).items():
            if segment in wanted:
                known[segment].was_served, known[segment].is_held = True, is_held and ideal.enabled
        found = self._replicas(selector, bool(keys), wanted, view, known, now_ms, excluded)
        for segment in found.unready if served is None else ():
            known[segment].was_served = any(server not in excluded.live for server in wanted[segment])
        stats = [known[segment] for segment in found.segments]
        new_until = [known[segment].new_until_ms for segment in found.optional]
        latest = frozenset() if parsed.table_type is TableType.OFFLINE else _latest(found.segments)
        # a segment may be recorded as complete before the ideal state has the next one of its partition
        ended = frozenset(name for name in _latest(wanted) if CONSUMING not in wanted[name].values())
        continued = latest - ended
        return TableRoute(
            table,
            ideal.enabled,
            parsed_schema,
            parsed,
            tuple(found.segments),
            tuple(found.candidates),
            tuple((segment, _missed_from(segment, view, known)) for segment in found.unready),
            PruningTable.build(_pruned_by(parsed, stats, continued, wanted)),
            Statements(parsed_schema, SearchSettings.of(parsed)),
            TableLimits.of(parsed.query),
            self._quota(parsed, brokers),
            selector,
            frozenset(found.optional),
            boundary_of(
                parsed_schema,
                parsed,
                (one.end_time_ms for one in stats if one.stats.num_docs != 0),
                fixed_boundary_ms(ideal.simple),
                ((one.end_time_ms, one.rounded_ms) for one in stats if one.rounded_ms),
            ),
            min(new_until, default=None),
            latest,
            # where rows of a segment depend on others, servers that may have missed a change cannot substitute
            () if selector is SelectorKind.STRICT_REPLICA_GROUP else _spares(found, wanted, view, excluded),
        )

    def _records_of(
        self, table: str
    ) -> tuple[_Document | None, _Document | None, Assignment | None, Assignment | None, Collection[str]]:
        """Return a consistent config, schema, ideal state, external view, and the segments that replacements hide.

        A view from before the completion of a replacement lacks its new segments, and the lineage from after it hides the
        old ones: together they would omit rows. A replacement may also change config and schema.
        """
        lineage = self._registry.get_lineage(table)
        for _ in range(_READS_MAX):
            config = self._registry.get_table_config(table)
            schema = self._registry.get_schema(raw_table_name(table))
            ideal = self._registry.get_ideal_state(table)
            view = self._registry.get_external_view(table)
            before, lineage = lineage, self._registry.get_lineage(table)
            if lineage == before:
                return config, schema, ideal, view, lineage.hidden_segments()
        raise GamayError(f"the segment lineage of table '{table}' changes faster than it can be read")

    def _read_facts(
        self, table: str, wanted: Mapping[str, Mapping[str, str]], known: KnownFacts, keys: Sequence[str]
    ) -> None:
        for segment in known.keys() - wanted.keys():
            del known[segment]
        unknown = sorted(segment for segment in wanted if segment not in known)  # in the order of the store
        for start in range(0, len(unknown), _RECORDS_AT_ONCE):
            batch = unknown[start : start + _RECORDS_AT_ONCE]
            documents, damaged = self._registry.segment_documents(table, batch)
            for segment in batch:
                if segment in damaged:
                    known[segment] = unknown_facts(segment)
                elif segment not in documents:
                    raise GamayError(f"segment '{segment}' of table '{table}' has no record")
                else:
                    known[segment] = facts_of(segment, documents[segment], NEW_SEGMENT_MS)
        for facts in known.values() if keys else ():  # all of them: upserts may have been enabled since they were read
            if facts.partition is None:
                facts.partition = partition_held(facts.stats, keys)

    def _replicas(
        self,
        selector: SelectorKind,
        has_keys: bool,
        wanted: Mapping[str, Mapping[str, str]],
        view: Assignment | None,
        known: KnownFacts,
        now_ms: int,
        excluded: "_Excluded",
    ) -> Replicas:
        actual = {} if view is None else view.states
        online: dict[str, Candidates] = {}
        consuming: dict[str, Candidates] = {}
        all_able: dict[str, Candidates] = {}
        nothing: Mapping[str, str] = {}
        shared: dict[Hashable, tuple[Candidates, Candidates]] = {}  # thousands of segments share the same servers
        for segment, ideal in wanted.items():
            states = actual.get(segment, nothing)
            placed = (*ideal.items(), None, *states.items())
            found = shared.get(placed)
            if found is None:
                found = shared[placed] = _candidates(ideal, states, excluded)
            whole, able = found
            if not able and known[segment].is_held:
                whole, able = _lost(ideal, states, excluded)
            if has_keys:
                all_able[segment] = able
            if whole:
                online[segment] = whole
            elif able:
                consuming[segment] = able
        ready = one_consuming_each(online, consuming, _place_of)
        if has_keys:
            replicas = whole_partitions(ready, all_able, lambda segment: known[segment].partition)
        elif selector is SelectorKind.STRICT_REPLICA_GROUP:
            assigned = {segment: frozenset(wanted[segment]) for segment in ready}
            replicas = strict(ready, assigned, lambda segment: now_ms < known[segment].new_until_ms)
        else:
            segments = sorted(ready)
            replicas = Replicas(segments, [ready[segment] for segment in segments])
        # a consuming segment that has to wait for its predecessor is not missing
        replicas.unready += [
            segment
            for segment, ideal in wanted.items()
            if segment not in ready and segment not in consuming and not _is_switched_off(ideal)
        ]
        replicas.unready.sort()
        for segment in ready:
            known[segment].was_served = known[segment].is_held = True
        return replicas

    def _not_asked(self) -> "_Excluded":
        """Return the servers that are disabled, wholly or for queries, shutting down, or not alive."""
        live = frozenset(self._registry.live_instance_ids())
        instances = self._registry.instances()
        self.addresses = {i.id: (i.host, i.port) for i in instances}
        return _Excluded(live, frozenset(i.id for i in instances if not _takes_queries(i)))

    def _quota(self, config: TableConfig, assigned: Collection[str] | None) -> float | None:
        """Return this broker's share of a table's quota: all brokers that serve the table have equal shares."""
        rate = rate_of(config.quota.max_queries_per_second)
        if rate is None:
            return None
        table, live, instances = config.typed_name, self._registry.live_instance_ids(), self._registry.instances()
        if assigned is None:
            ideal = assigned_brokers({table: config.tenants.broker}, instances)
        else:
            ideal = {table: dict.fromkeys(assigned, ONLINE)}
        return rate / max(1, list(broker_states(ideal, instances, live)[table].values()).count(ONLINE))


_READY = frozenset({ONLINE, CONSUMING})


def _candidates(ideal: Mapping[str, str], states: Mapping[str, str], excluded: "_Excluded") -> tuple[Candidates, Candidates]:
    """Return the servers that have all of a segment, and those that can serve it at all, ascending."""
    able = sorted(name for name in ideal if states.get(name) in _READY and ideal[name] in _READY and name not in excluded)
    return tuple(name for name in able if states[name] == ONLINE), tuple(able)


def _lost(ideal: Mapping[str, str], states: Mapping[str, str], excluded: "_Excluded") -> tuple[Candidates, Candidates]:
    """Like `_candidates`, for a segment that no server has any more according to the records: those that may still have it.

    A server that lost its session with the metadata store, or is back and has not reported its segments yet, still serves
    them. If it is dead or lost the segment, the answer is partial and reported as such.
    """
    able = sorted(s for s in ideal if {ideal[s], states.get(s, ONLINE)} <= _READY and s not in excluded.off)
    return tuple(name for name in able if ideal[name] == ONLINE), tuple(able)


def _spares(
    replicas: Replicas, wanted: Mapping[str, Mapping[str, str]], view: Assignment | None, excluded: "_Excluded"
) -> tuple[Candidates, ...]:
    """Return for each segment the servers that are assigned to it, not disabled, and without a live instance record."""
    away = {server for states in wanted.values() for server in states} - excluded.live - excluded.off
    if not away:
        return ()
    found = []
    for segment, candidates in zip(replicas.segments, replicas.candidates, strict=True):
        states = {} if view is None else view.states.get(segment, {})
        ideal = wanted[segment].items()
        found.append(
            tuple(
                name for name, state in sorted(ideal)
                if name in away and name not in candidates and {state, states.get(name, ONLINE)} <= _READY
            )
        )  # fmt: skip
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Excluded:
    live: frozenset[str]
    off: frozenset[str]

    def __contains__(self, name: str) -> bool:
        return name not in self.live or name in self.off


def _takes_queries(instance: Instance) -> bool:
    return instance.enabled and not instance.queries_disabled and not instance.shutting_down


def _latest(segments: Iterable[str]) -> frozenset[str]:
    """Return the last segment of each stream partition."""
    found: dict[int, tuple[int, str]] = {}
    for segment in segments:
        parsed = LlcName.parse(segment)
        if parsed is not None and (parsed.partition not in found or found[parsed.partition][0] < parsed.sequence):
            found[parsed.partition] = (parsed.sequence, segment)
    return frozenset(segment for _, segment in found.values())


def _place_of(segment: str) -> tuple[int, int] | None:
    parsed = LlcName.parse(segment)
    return None if parsed is None else (parsed.partition, parsed.sequence)


def _pruned_by(
    config: TableConfig, facts: Sequence[SegmentFacts], continued: Collection[str], segments: Iterable[str]
) -> list[SegmentRecordStats]:
    """Return the statistics that segments are pruned by; all known ones, unless the table names its pruners.

    continued: segments whose server may read beyond them. Consuming segments are pruned only if the table names the
    partition pruner, which asserts that producers partition the stream by the same function.
    """
    pruners = config.routing.segment_pruner_types
    if pruners is None:
        return [_UNKNOWN if one.stats.name in continued else one.stats for one in facts]
    partitions = {place[0] for place in map(_place_of, segments) if place is not None} if "partition" in pruners else ()
    known = (
        one.from_stream(len(partitions)) if one.consumed else _UNKNOWN if one.stats.name in continued else one.stats
        for one in facts
    )
    return [one.for_pruners(pruners, config.time_column) for one in known]


def _missed_from(segment: str, view: Assignment | None, known: KnownFacts) -> int:
    """Return when an absent segment begins to count as missing: milliseconds, 0 for immediately."""
    if view is not None and ERROR in view.states.get(segment, {}).values():
        return 0
    return 0 if known[segment].was_served else known[segment].new_until_ms


def _is_switched_off(states: Mapping[str, str]) -> bool:
    return all(state == OFFLINE for state in states.values())
