"""Profile of a relational query, leaves and operators: for EXPLAIN ANALYZE, and for `stageStats` of responses."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gamay.query.stats import QueryStats

_INDENT = "  "
_LONG_CONSTANT = re.compile(r"'[^']{60,}'")
_JOINED = re.compile(r"(value|value or null|found)\(joined\)\('[^']*','\w+',([^()]*)\)")
_ID = re.compile(r"\bc\d+\w*\b")
_JOINS = ("_JOIN", "CROSS_PRODUCT")
_WORDS = (*_JOINS, "GROUP_BY", "_AGGREGATE", "WINDOW", "LIMIT")
_SORTS = ("ORDER_BY", "TOP_N")
# by the type of an operator of DuckDB
_STAGE_TYPES = {
    **dict.fromkeys(_JOINS, "HASH_JOIN"),
    **dict.fromkeys(("GROUP_BY", "_AGGREGATE"), "AGGREGATE"),
    **dict.fromkeys((*_SORTS, "LIMIT"), "SORT_OR_LIMIT"),
    **dict.fromkeys(("DUMMY_SCAN", "COLUMN_DATA_SCAN", "EXPRESSION_SCAN", "EMPTY_RESULT"), "LITERAL"),
    "PROJECTION": "TRANSFORM",
    "FILTER": "FILTER",
    "WINDOW": "WINDOW",
    "UNION": "UNION",
    "UNNEST": "UNNEST",
}
_PEAKS = {**dict.fromkeys(_JOINS, "maxRowsInJoin"), "GROUP_BY": "numGroups", "WINDOW": "maxRowsInWindow"}
# counters of leaves, by the names that responses have for them
_LEAF_STATS = {
    "numDocsScanned": "num_docs_scanned",
    "totalDocs": "total_docs",
    "numEntriesScannedInFilter": "num_entries_scanned_in_filter",
    "numEntriesScannedPostFilter": "num_entries_scanned_post_filter",
    "numSegmentsQueried": "num_segments_queried",
    "numSegmentsProcessed": "num_segments_processed",
    "numSegmentsMatched": "num_segments_matched",
    "numConsumingSegmentsQueried": "num_consuming_segments_queried",
    "numConsumingSegmentsProcessed": "num_consuming_segments_processed",
    "numConsumingSegmentsMatched": "num_consuming_segments_matched",
    "minConsumingFreshnessTimeMs": "min_consuming_freshness_time_ms",
    "numSegmentsPrunedByServer": "num_segments_pruned_by_server",
    "numSegmentsPrunedInvalid": "num_segments_pruned_invalid",
    "numSegmentsPrunedByLimit": "num_segments_pruned_by_limit",
    "numSegmentsPrunedByValue": "num_segments_pruned_by_value",
    "groupsTrimmed": "groups_trimmed",
    "numGroupsLimitReached": "num_groups_limit_reached",
    "numGroupsWarningLimitReached": "num_groups_warning_limit_reached",
}
_SHOWN = ("Join Type", "Conditions", "Groups", "Aggregates", "Order By", "Expression", "Expressions")


@dataclass(frozen=True, slots=True)
class LeafRun:
    """A leaf that was read. text: as in EXPLAIN. ids: of its columns. groups: whether its rows are groups.

    stats: None for rows passed with the query, or read for another leaf.
    """

    text: str
    ids: frozenset[str]
    table: str
    num_rows: int
    took_ms: float
    groups: bool
    stats: QueryStats | None


@dataclass(frozen=True, slots=True)
class EngineRun:
    """A run of DuckDB. operators: its profile; names: of the columns in it by id, if they are to be shown."""

    num_rows: int
    took_ms: float
    operators: Sequence[Mapping[str, Any]]
    names: Mapping[str, str]


@dataclass(slots=True)
class Profile:
    """Collector of a query's profile. analyzes: whether operators above the leaves are shown as well."""

    analyzes: bool = False
    leaves: list[LeafRun] = field(default_factory=list)
    runs: list[EngineRun] = field(default_factory=list)


def analyzed(profile: Profile, num_rows: int) -> str:
    """Format a profile as text: the runs above the leaves, outermost first, then the leaves in order of execution."""
    took_ms = sum(leaf.took_ms for leaf in profile.leaves) + sum(run.took_ms for run in profile.runs)
    lines = [f"Execution Plan (rows=[{num_rows}], time=[{took_ms:.1f} ms])"]
    for run in reversed(profile.runs):
        lines.append(f"Above the leaves (rows=[{run.num_rows}], time=[{run.took_ms:.1f} ms])")
        lines += [line for root in run.operators for line in _operators(root, run.names, 1)]
    lines.append("Leaves")
    for leaf in profile.leaves:
        lines.append(f"{_INDENT}{_LONG_CONSTANT.sub(_shortened, _JOINED.sub(_looked_up, leaf.text))}")
        lines.append(f"{_INDENT * 2}rows=[{leaf.num_rows}], time=[{leaf.took_ms:.1f} ms]{_scanned(leaf.stats)}")
    return "\n".join(lines)


def stage_stats(profile: Profile, num_rows: int) -> dict[str, Any]:
    """Return a profile as `stageStats`, a tree as in Pinot: the broker, the operators above the leaves, and the leaves.

    Times are those of processors. What is 0 is left out, but for the rows that an operator gave.
    """
    took_ms = sum(leaf.took_ms for leaf in profile.leaves) + sum(run.took_ms for run in profile.runs)
    return {
        "type": "MAILBOX_RECEIVE",
        "executionTimeMs": round(took_ms),
        "emittedRows": num_rows,
        "fanIn": 1,
        "children": [_Stages(profile).first(num_rows)],
    }


class _Stages:
    """Writer of the stages of a query, which are numbered as they are met."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._leaves = list(profile.leaves)
        self._stages = itertools.count(1)

    def first(self, num_rows: int) -> dict[str, Any]:
        """Return what sends to the broker: what was done above the leaves, or a leaf where that is nothing."""
        runs = self._profile.runs
        if not runs and self._leaves:  # the last one has the answer, and the others before it gave it keys
            return self._sender(self._leaves.pop(), self._leaves)
        stage = next(self._stages)
        if not runs:
            return {"type": "EMPTY_MAILBOX_SEND", "stage": stage, "description": "No stats available for this stage"}
        # the rows of all but the last run, and of leaves that became conditions of others, are in no operator of the last
        below = [each for run in reversed(runs) for root in run.operators for each in self._operators(root)]
        below += [self._received(leaf) for leaf in self._leaves]
        return _sending(stage, sum(run.took_ms for run in runs), num_rows, below)

    def _operators(self, node: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return an operator of DuckDB by Pinot's name, or in its place what is below it."""
        kind = _kind(node)
        if kind == "TABLE_SCAN":
            leaf = self._scanned(node)
            return [] if leaf is None else [self._received(leaf)]
        below = [each for child in node.get("children") or () for each in self._operators(child)]
        name = _STAGE_TYPES.get(kind)
        if name is None:
            return below
        own_ms = 1000 * float(node.get("timing") or 0)
        num_rows = int(node.get("intermediate_rows") or 0)
        if name == "UNION":  # of which DuckDB does not tell
            num_rows = sum(each["emittedRows"] for each in below)
        in_stage = sum(each["executionTimeMs"] for each in below if each["type"] != "MAILBOX_RECEIVE")
        shown: dict[str, Any] = {"type": name, "executionTimeMs": round(own_ms) + in_stage, "emittedRows": num_rows}
        if name == "SORT_OR_LIMIT":
            shown["requireSort"] = kind in _SORTS
        peak = _PEAKS.get(kind)
        if peak is not None:
            shown[peak] = _peak(node)
        shown["selfExecutionTimeMs"] = round(own_ms)
        always = ("executionTimeMs", "emittedRows", "requireSort")
        return [{key: value for key, value in shown.items() if value or key in always} | _with(below)]

    def _scanned(self, node: Mapping[str, Any]) -> LeafRun | None:
        """Return the leaf whose columns a scan reads; None for one that was met before, or that has none of them."""
        columns = (node.get("extra_info") or {}).get("Projections") or ()
        ids = {columns} if isinstance(columns, str) else set(columns)
        leaf = next((each for each in self._leaves if not ids.isdisjoint(each.ids)), None)
        if leaf is not None:
            self._leaves.remove(leaf)
        return leaf

    def _received(self, leaf: LeafRun) -> dict[str, Any]:
        sender = self._sender(leaf)
        return {"type": "MAILBOX_RECEIVE", "executionTimeMs": 0, "emittedRows": leaf.num_rows, "fanIn": 1} | _with([sender])

    def _sender(self, leaf: LeafRun, before: Sequence[LeafRun] = ()) -> dict[str, Any]:
        stage = next(self._stages)
        of_leaf = {"type": "LEAF", "table": leaf.table, "executionTimeMs": round(leaf.took_ms), "emittedRows": leaf.num_rows}
        if leaf.stats is not None:
            of_leaf |= {key: value for key, name in _LEAF_STATS.items() if (value := getattr(leaf.stats, name))}
        of_leaf |= _with([self._received(each) for each in before])
        return _sending(stage, leaf.took_ms, leaf.num_rows, [of_leaf])


def _sending(stage: int, took_ms: float, num_rows: int, below: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "type": "MAILBOX_SEND",
        "stage": stage,
        "executionTimeMs": round(took_ms),
        "emittedRows": num_rows,
        "parallelism": 1,
        "fanOut": 1,
    } | _with(below)


def _with(below: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"children": list(below)} if below else {}


def peak_rows(profile: Profile) -> dict[str, int]:
    """Return the maximum number of rows of each kind of operator, by the names used in responses.

    maxRowsInJoin: of a join's output or right side. maxRowsInWindow: of a window function's input.
    """
    peak = {"numGroups": 0, "maxRowsInJoin": 0, "maxRowsInWindow": 0, "maxRowsInOperator": 0}

    def note(name: str, num_rows: int) -> None:
        peak[name] = max(peak[name], num_rows)

    for leaf in profile.leaves:
        note("maxRowsInOperator", leaf.num_rows)
        note("numGroups", leaf.num_rows if leaf.groups else 0)
    pending = [root for run in profile.runs for root in run.operators]
    while pending:
        node = pending.pop()
        pending += node.get("children") or ()
        note("maxRowsInOperator", int(node.get("intermediate_rows") or 0))
        name = _PEAKS.get(_kind(node))
        if name is not None:
            note(name, _peak(node))
    return peak


def _kind(node: Mapping[str, Any]) -> str:
    """Return the type of an operator of DuckDB, of those that do the same by different means the last word."""
    kind = str(node.get("type", ""))
    return next((word for word in _WORDS if kind.endswith(word) and not kind.endswith("DELIM_JOIN")), kind)


def _peak(node: Mapping[str, Any]) -> int:
    """Return the rows of an operator that limits bound: those that it gave, of a join also those of its right side."""
    right = (node.get("children") or ())[1:2] if _kind(node) in _JOINS else ()
    return max(int(each.get("intermediate_rows") or 0) for each in (node, *right))


def _scanned(stats: QueryStats | None) -> str:
    if stats is None:
        return ""
    pruned = stats.num_segments_pruned_by_broker + stats.num_segments_pruned_by_server
    return (
        f", docs=[{stats.num_docs_scanned} of {stats.total_docs}], "
        f"entries in filter=[{stats.num_entries_scanned_in_filter}], "
        f"segments=[{stats.num_segments_matched} of {stats.num_segments_queried}, {pruned} pruned]"
    )


def _operators(node: Mapping[str, Any], names: Mapping[str, str], depth: int) -> Iterator[str]:
    below: Sequence[Mapping[str, Any]] = node.get("children") or ()
    kind = str(node.get("type", ""))
    if kind != "RESULT_COLLECTOR":
        extra = node.get("extra_info") or {}
        parts = [f"rows=[{node.get('intermediate_rows', 0)}]", f"time=[{1000 * float(node.get('timing') or 0):.1f} ms]"]
        parts.append(f"memory=[{int(node.get('intermediate_size_bytes') or 0) >> 10} KiB]")
        for key in _SHOWN:
            value = extra.get(key)
            if value:
                written = value if isinstance(value, str) else " AND ".join(map(str, value))
                parts.append(f"{key.lower()}=[{_ID.sub(lambda found: names.get(found[0], found[0]), written)}]")
        yield f"{_INDENT * depth}{kind.title().replace('_', '')}({', '.join(parts)})"
        depth += 1
    for child in below:
        yield from _operators(child, names, depth)


def _looked_up(found: "re.Match[str]") -> str:
    return f"joined by {found[2]}" if found[1] != "found" else f"{found[2]} among keys"


def _shortened(found: "re.Match[str]") -> str:
    return f"{found[0][:20]}…'"
