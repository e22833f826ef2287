"""GROUP BY with GROUPING SETS, ROLLUP or CUBE over the segments of a server.

Rows are grouped by the finest sets only; the groups of the others are merged from theirs, which costs as much as there
are groups. A set is merged from another one only if both have the same multi-value keys: these multiply rows. Where a
segment had more groups of a finest set than its limit, the coarser sets are grouped by themselves, so that they miss none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gamay.functions.aggregate.spi import Partial
from gamay.query.bind import BoundQuery
from gamay.query.filter.docset import SPARSE
from gamay.query.filter_clauses import FilterClauses
from gamay.query.group_limits import GroupLimits, group_limits
from gamay.query.groupby.merge import merge_group_tables, regroup
from gamay.query.groupby.segment import GroupOptions, aggregate_segment, group_segment
from gamay.query.groupby.states import Reader
from gamay.query.groupby.table import GroupTable, KeySet
from gamay.query.matches import DocList, DocMask, DocScan, Matches
from gamay.query.virtual import QuerySegment
from gamay.query.work import Work


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


def execute_grouping_sets(work: Work, segments: Sequence[QuerySegment]) -> dict[KeySet, GroupTable] | None:
    """Return the groups of each set, those of the set without keys being one group; None when no segment was left.

    Sets are not trimmed. Raises QueryError 245 where reaching numGroupsLimit is an error.
    """
    plan, limits = plan_sets(work.bound), group_limits(work.bound)
    found = work.over_segments(segments, lambda segment: _segment(work, plan, segment, limits))
    if not found:
        return None
    merged: dict[KeySet, GroupTable] = {}
    for keys in (*plan.finest, *plan.sources):
        work.deadline.check()
        source = plan.sources.get(keys)
        if source is not None and not any(keys in tables for tables in found):
            merged[keys] = _merged_from(work.bound, merged[source], source, keys)
            continue
        base = plan.base(keys)
        parts = [tables[keys] if keys in tables else _merged_from(work.bound, tables[base], base, keys) for tables in found]
        merged[keys] = merge_group_tables(parts, work.bound.aggregates)
    return merged


def _merged_from(bound: BoundQuery, table: GroupTable, source: KeySet, keys: KeySet) -> GroupTable:
    return regroup(table, [source.index(key) for key in keys], bound.aggregates)


def _segment(work: Work, plan: SetPlan, segment: QuerySegment, limits: GroupLimits) -> dict[KeySet, GroupTable]:
    """Return the groups of the finest sets, and of those that would be incomplete if they were merged."""
    filtered = work.filter(segment)
    matches = filtered.matches()
    bound = work.asked(segment)
    clauses = FilterClauses(bound, segment)
    reader = clauses.reader()
    tables: dict[KeySet, GroupTable] = {}
    pending = list(plan.finest)

    def restart() -> None:
        filtered.walked(matches)
        clauses.restart()

    while pending:
        keys = pending.pop(0)
        walk = matches if len(plan.finest) == 1 and not tables else _known(matches)
        options = GroupOptions(limits.num_groups, work.deadline.check, restart)
        tables[keys] = _grouped(work, bound, keys, walk, reader, options)
        limits.note(tables[keys], work.stats)
        work.keep_groups(tables[keys])
        if len(tables) == 1:  # rows count once, though they are walked again
            scanned = filtered.walked(matches) if walk is matches else len(walk)
            clauses.count(work, filtered, scanned)
        matches = walk
        if tables[keys].limit_reached and keys in plan.finest:
            pending += [other for other in plan.sources if plan.base(other) == keys]
    return tables


def _grouped(
    work: Work, bound: BoundQuery, keys: KeySet, matches: Matches, reader: Reader, options: GroupOptions
) -> GroupTable:
    if keys:
        return group_segment([bound.rows[i] for i in keys], bound.aggregates, matches, reader, work.pool, options)
    partials: tuple[Partial, ...] = aggregate_segment(bound.aggregates, matches, reader, work.pool, options)
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
