"""What the leaves of a query and the operators above them took: for EXPLAIN ANALYZE, and for `stageStats` of responses."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gamay.query.stats import QueryStats

_INDENT = "  "
_LONG_CONSTANT = re.compile(r"'[^']{60,}'")
_JOINED = re.compile(r"(value|value or null|found)\(joined\)\('[^']*','\w+',([^()]*)\)")
_ID = re.compile(r"\bc\d+\w*\b")
_SHOWN = ("Join Type", "Conditions", "Groups", "Aggregates", "Order By", "Expression", "Expressions")


@dataclass(frozen=True, slots=True)
class LeafRun:
    """A leaf that was read. text: as EXPLAIN shows it. groups: of rows. stats: None for rows that came with the query."""

    text: str
    table: str
    num_rows: int
    took_ms: float
    groups: bool
    stats: QueryStats | None


@dataclass(frozen=True, slots=True)
class EngineRun:
    """What DuckDB did. operators: its profile; names: of the columns in it, by id, where they are to be shown."""

    num_rows: int
    took_ms: float
    operators: Sequence[Mapping[str, Any]]
    names: Mapping[str, str]


@dataclass(slots=True)
class Profile:
    """Collector of what a query took. analyzes: whether operators above the leaves are shown as well."""

    analyzes: bool = False
    leaves: list[LeafRun] = field(default_factory=list)
    runs: list[EngineRun] = field(default_factory=list)


def analyzed(profile: Profile, num_rows: int) -> str:
    """Return a profile as text: what was done above the leaves, outermost first, then the leaves in the order they came."""
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
    """Return a profile as `stageStats`: what was done above the leaves, and the leaves below it."""
    children = [
        {
            "type": "LEAF",
            "table": leaf.table,
            "executionTimeMs": round(leaf.took_ms),
            "emittedRows": leaf.num_rows,
            "numDocsScanned": leaf.stats.num_docs_scanned,
            "totalDocs": leaf.stats.total_docs,
            "numEntriesScannedInFilter": leaf.stats.num_entries_scanned_in_filter,
            "numEntriesScannedPostFilter": leaf.stats.num_entries_scanned_post_filter,
            "numSegmentsQueried": leaf.stats.num_segments_queried,
            "numSegmentsProcessed": leaf.stats.num_segments_processed,
            "numSegmentsMatched": leaf.stats.num_segments_matched,
        }
        for leaf in profile.leaves
        if leaf.stats is not None
    ]
    took_ms = sum(run.took_ms for run in profile.runs)
    return {
        "type": "MAILBOX_RECEIVE",
        "executionTimeMs": round(took_ms + sum(leaf.took_ms for leaf in profile.leaves)),
        "selfExecutionTimeMs": round(took_ms),
        "emittedRows": num_rows,
        "fanIn": len(children),
        "children": children,
    }


def peak_rows(profile: Profile) -> dict[str, int]:
    """Return the largest numbers of rows of each kind of operator, by the names that responses have for them.

    maxRowsInJoin: that a join gave, or had on its right side. maxRowsInWindow: that window functions saw.
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
        kind, num_rows = str(node.get("type", "")), int(node.get("intermediate_rows") or 0)
        below: Sequence[Mapping[str, Any]] = node.get("children") or ()
        pending += below
        note("maxRowsInOperator", num_rows)
        if kind.endswith("GROUP_BY"):
            note("numGroups", num_rows)
        elif kind.endswith(("_JOIN", "CROSS_PRODUCT")):
            note("maxRowsInJoin", max(num_rows, *(int(each.get("intermediate_rows") or 0) for each in below[1:2]), 0))
        elif kind.endswith("WINDOW"):
            note("maxRowsInWindow", num_rows)
    return peak


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
