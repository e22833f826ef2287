"""GROUP BY with GROUPING SETS, ROLLUP or CUBE over the segments of a server.

Rows are grouped by the finest sets only; the groups of the others are merged from theirs, which costs as much as there
are groups. A set is merged from another one only if both have the same multi-value keys: these multiply rows. With a limit
on groups, each segment has tables of all sets: where its limit cuts a finest set, the coarser ones are grouped by
themselves, so that they miss none.
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
    """finest: the sets that rows are grouped by. sources: for each other set the one that it is merged from, finer first."""

    finest: tuple[KeySet, ...]
    sources: dict[KeySet, KeySet]

    def base(self, keys: KeySet) -> KeySet:
        """Return the finest set that a set comes from in the end."""
        while keys in self.sources:
            keys = self.sources[keys]
        return keys


def plan_sets(bound: BoundQuery) -> SetPlan:
    """Decide what is grouped from rows and what is merged; a set is merged from the smallest that holds it."""
    exploding = [i for i, (_, multi_value) in enumerate(bound.row_types) if multi_value]
    finest: list[KeySet] = []
    sources: dict[KeySet, KeySet] = {}
    known: dict[KeySet, list[tuple[int, KeySet]]] = {}  # by multi-value keys, smaller sets first, with their keys as bits
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
    """Return the groups of each set, those of the set without keys being one group; None when no segment was left.

    Sets are not trimmed; those that do not fit the memory are by partition. Raises QueryError 245 where reaching
    numGroupsLimit is an error, and for more groups than fit memory and disk.
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
    """Find the groups of some sets in the segment of a number, from rows where no table of another set has them all."""
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
            if len(tables) == 1:  # rows count once, though they are walked again
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
    """Return the matches so that walking them again does not run a scan again."""
    if not isinstance(matches, DocScan):
        return matches
    docs = matches.docs()
    span = matches.stop - matches.start
    if len(docs) * SPARSE < span:
        return DocList(docs)
    return DocMask.of(docs, matches.start, matches.stop)
