"""GROUP BY with GROUPING SETS, ROLLUP or CUBE over the segments of a server.

Rows are grouped by the finest sets only; the groups of the others are merged from theirs, which takes time proportional to
the number of groups. A set is merged from another only if both have the same multi-value keys, since these multiply rows.
With a limit on groups, each segment has tables of all sets: if its limit cuts off a finest set, the coarser ones are grouped
from rows, so that they lose no groups.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gamay.functions.aggregate.distinct.coding import CODES_MAX
from gamay.functions.aggregate_spi import Partial
from gamay.query.bind.binder import BoundQuery
from gamay.query.execute.context import ExecutionContext
from gamay.query.execute.filter_clauses import FilterClauses
from gamay.query.execute.spilling import FoundGroups
from gamay.query.groupby.limits import GroupLimits, group_limits
from gamay.query.groupby.merge import regroup
from gamay.query.groupby.segment import GroupOptions, aggregate_segment, group_segment
from gamay.query.groupby.states import Reader
from gamay.query.groupby.table import GroupTable, KeySet
from gamay.query.partitioned.groups import PartitionedGroups
from gamay.query.view.docset import SPARSE
from gamay.query.view.matches import DocList, DocMask, DocScan, Matches
from gamay.query.view.virtual import QuerySegment


@dataclass(frozen=True, slots=True)
class SetPlan:
    """finest: the sets that rows are grouped by. sources: for each other set, the set it is merged from, finer sets
    first."""

    finest: tuple[KeySet, ...]
    sources: dict[KeySet, KeySet]

    def base(self, keys: KeySet) -> KeySet:
        """Return the finest set from which a set is derived, directly or indirectly."""
        while keys in self.sources:
            keys = self.sources[keys]
        return keys


def plan_sets(bound: BoundQuery) -> SetPlan:
    """Decide which sets are grouped from rows and which are merged; a set is merged from the smallest superset."""
    exploding = [i for i, (_, multi_value) in enumerate(bound.row_types) if multi_value]
    finest: list[KeySet] = []
    sources: dict[KeySet, KeySet] = {}
    known: dict[KeySet, list[tuple[int, KeySet]]] = {}  # by multi-value keys; smaller sets first, each with its keys as bits
    for keys in sorted(dict.fromkeys(bound.grouping_sets), key=lambda keys: (-len(keys), keys)):
        alike = known.setdefault(tuple(i for i in keys if i in exploding), [])
        wanted = sum(1 << i for i in keys)
        source = next((other for members, other in alike if wanted & members == wanted), None)
        if source is None:
            finest.append(keys)
        else:
            sources[keys] = source
        alike.insert(0, (wanted, keys))
    return SetPlan(tuple(finest), sources)


def execute_grouping_sets(
    context: ExecutionContext, segments: Sequence[QuerySegment]
) -> dict[KeySet, GroupTable | PartitionedGroups] | None:
    """Return the groups of each set, the empty set having one group; None if no segment is left.

    Sets are not trimmed; those that do not fit in memory are partitioned. Raises QueryError 245 if numGroupsLimit is reached
    and that is an error, or if the groups fit neither in memory nor on disk.
    """
    if not segments:
        return None
    bound, limits = context.bound, group_limits(context.bound).untrimmed()
    plan = plan_sets(bound)
    all_sets = (*plan.finest, *plan.sources)
    of_segments = all_sets if limits.num_groups < CODES_MAX else plan.finest
    found = {keys: FoundGroups(context, limits, len(all_sets)) for keys in all_sets}
    context.over_segments(
        list(enumerate(segments)), lambda item: _segment(context, plan, of_segments, item[0], item[1], limits, found)
    )
    merged: dict[KeySet, GroupTable | PartitionedGroups] = {}
    for keys in all_sets:
        context.deadline.check()
        if keys not in of_segments:
            source = plan.sources[keys]
            for number, table in enumerate(_tables(merged[source])):
                found[keys].add((number,), _merged_from(bound, table, source, keys))
        groups = found[keys].result(bound)
        assert groups is not None
        merged[keys] = groups
    return merged


def _tables(groups: GroupTable | PartitionedGroups) -> Iterator[GroupTable]:
    if isinstance(groups, GroupTable):
        yield groups
    else:
        yield from (table for _, table in groups.partitions())


def _merged_from(bound: BoundQuery, table: GroupTable, source: KeySet, keys: KeySet) -> GroupTable:
    return regroup(table, [source.index(key) for key in keys], bound.aggregates)


def _segment(
    context: ExecutionContext,
    plan: SetPlan,
    sets: Sequence[KeySet],
    number: int,
    segment: QuerySegment,
    limits: GroupLimits,
    found: Mapping[KeySet, FoundGroups],
) -> None:
    """Group one segment by some sets, from rows unless a complete table of another set is available."""
    filtered = context.filter(segment)
    matches = filtered.matches()
    bound = context.asked(segment)
    clauses = FilterClauses(bound, segment)
    reader = clauses.reader(matches)
    tables: dict[KeySet, GroupTable] = {}

    def restart() -> None:
        filtered.walked(matches)
        clauses.restart()

    for keys in sets:
        base = plan.base(keys)
        if keys != base and not tables[base].limit_reached:
            tables[keys] = _merged_from(bound, tables[base], base, keys)
        else:
            walk = _known(matches) if tables or len(plan.finest) > 1 else matches
            options = GroupOptions(limits.num_groups, context.deadline.check, restart, overflow=found[keys].overflow(number))
            tables[keys] = _grouped(context, bound, keys, walk, reader, options)
            if len(tables) == 1:  # rows count once, even if they are read several times
                clauses.count(context, filtered, filtered.walked(matches) if walk is matches else len(walk))
            matches = walk
        limits.note(tables[keys], context.stats)
        found[keys].add((number,), tables[keys])


def _grouped(
    context: ExecutionContext, bound: BoundQuery, keys: KeySet, matches: Matches, reader: Reader, options: GroupOptions
) -> GroupTable:
    if keys:
        return group_segment([bound.rows[i] for i in keys], bound.aggregates, matches, reader, context.pool, options)
    partials: tuple[Partial, ...] = aggregate_segment(bound.aggregates, matches, reader, context.pool, options)
    return GroupTable((), partials, 1)


def _known(matches: Matches) -> Matches:
    """Return the matches in a form that can be read again without repeating a scan."""
    if not isinstance(matches, DocScan):
        return matches
    docs = matches.docs()
    span = matches.stop - matches.start
    if len(docs) * SPARSE < span:
        return DocList(docs)
    return DocMask.of(docs, matches.start, matches.stop)
