"""Statistics of a query: rows and segments read, pruned and matched, summed over segments and servers."""

from dataclasses import dataclass, field, fields


@dataclass(slots=True)
class QueryStats:
    """All counters of a response; each is exact for the work actually done.

    Merging adds counts, ORs flags, and keeps the minimum freshness of consuming segments. Counters `of_broker` come last,
    since servers do not send them.
    """

    num_docs_scanned: int = 0
    total_docs: int = 0
    num_entries_scanned_in_filter: int = 0
    num_entries_scanned_post_filter: int = 0
    num_servers_queried: int = 0
    num_servers_responded: int = 0
    num_segments_queried: int = 0
    num_segments_processed: int = 0
    num_segments_matched: int = 0
    num_consuming_segments_queried: int = 0
    num_consuming_segments_processed: int = 0
    num_consuming_segments_matched: int = 0
    min_consuming_freshness_time_ms: int = 0
    num_segments_pruned_by_broker: int = 0
    num_segments_pruned_by_server: int = 0
    num_segments_pruned_invalid: int = 0
    num_segments_pruned_by_limit: int = 0
    num_segments_pruned_by_value: int = 0
    offline_thread_cpu_time_ns: int = 0
    realtime_thread_cpu_time_ns: int = 0
    explain_plan_num_empty_filter_segments: int = 0
    explain_plan_num_match_all_filter_segments: int = 0
    num_groups_limit_reached: bool = False
    num_groups_warning_limit_reached: bool = False
    max_rows_in_distinct_reached: bool = False
    max_rows_without_change_in_distinct_reached: bool = False
    max_execution_time_in_distinct_reached: bool = False
    groups_trimmed: bool = False
    max_rows_in_join_reached: bool = field(default=False, metadata={"of_broker": True})
    max_rows_in_window_reached: bool = field(default=False, metadata={"of_broker": True})

    def add(self, other: "QueryStats") -> None:
        """Add the counters of another part of the same query."""
        for name in _COUNTERS:
            theirs = getattr(other, name)
            if not theirs:  # the usual case
                continue
            mine = getattr(self, name)
            if name == "min_consuming_freshness_time_ms":
                merged = min(mine, theirs) if mine else theirs
            else:
                merged = theirs if isinstance(mine, bool) else mine + theirs
            setattr(self, name, merged)


_COUNTERS = tuple(counter.name for counter in fields(QueryStats))
