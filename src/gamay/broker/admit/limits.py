"""The resource limits of a query: from its options, else its table's config, else the cluster's settings, else the
machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gamay.base.errors import ErrorCode, QueryError
from gamay.model.table.sections import QueryConfig
from gamay.query.execute.server_result import ServerResult
from gamay.query.limits.budget import MEMORY_OPTION, Budget, ProcessBudget, ScanLimits, megabytes
from gamay.query.limits.memory_size import held_bytes
from gamay.sql.options.option_values import number
from gamay.sql.query import Query

_SCAN_OPTIONS = ("maxDocsScanned", "maxEntriesScannedInFilter", "maxEntriesScannedPostFilter")
_SIZE_OPTIONS = ("maxServerResponseSizeBytes", "maxQueryResponseSizeBytes")
_OPTIONS = frozenset({MEMORY_OPTION, *_SCAN_OPTIONS, *_SIZE_OPTIONS})


@dataclass(frozen=True, slots=True)
class TableLimits:
    """The limits of a table's queries; None defers to the next source. sizes: of one server's result, of all results.

    groups: the query options that limit groups, for queries that do not set them.
    """

    memory_bytes: int | None = None
    scan: ScanLimits | None = None
    sizes: tuple[int | None, int | None] | None = None
    groups: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, config: QueryConfig) -> "TableLimits":
        """Return the limits that a table's config sets."""
        scan = (config.max_docs_scanned, config.max_entries_scanned_in_filter, config.max_entries_scanned_post_filter)
        mode = (config.scan_killing_mode or "enforce").lower()
        sizes = (config.max_server_response_size_bytes, config.max_query_response_size_bytes)
        return cls(
            config.max_query_memory_bytes,
            ScanLimits(*scan, is_enforced=mode == "enforce") if any(scan) and mode != "disabled" else None,
            sizes if any(sizes) else None,
            {name: str(limit) for name, limit in config.group_limits.items() if limit is not None},
        )


NO_LIMITS = TableLimits()


def query_budget(process: ProcessBudget, options: Mapping[str, str], table: TableLimits) -> Budget:
    """Return the budget of a query. process: the memory budget shared by the broker's queries."""
    if options and not _OPTIONS.isdisjoint(options):
        table = _narrowed(table, options)
    return Budget(table.memory_bytes or process.query_bytes, process, table.scan)


def with_group_limits(query: Query, table: TableLimits, settings: Mapping[str, str]) -> Query:
    """Return a query with its table's limits on groups, else those of the cluster's settings, as options."""
    if not table.groups and not settings:
        return query
    return replace(query, options={**settings, **table.groups, **query.options})


def _narrowed(table: TableLimits, options: Mapping[str, str]) -> TableLimits:
    scan, sizes = table.scan or ScanLimits(), table.sizes or (None, None)
    known = (scan.docs, scan.entries_in_filter, scan.entries_post_filter)
    docs, in_filter, post_filter = (
        number(options, name, limit or 0) or None for name, limit in zip(_SCAN_OPTIONS, known, strict=True)
    )
    return TableLimits(
        number(options, MEMORY_OPTION, table.memory_bytes or 0) or None,
        ScanLimits(docs, in_filter, post_filter, scan.is_enforced) if docs or in_filter or post_filter else None,
        sizes_of(options, TableLimits(sizes=sizes)),
    )


def sizes_of(options: Mapping[str, str], table: TableLimits) -> tuple[int | None, int | None] | None:
    """Return the maximum size of one server's result and of all results together; None without a limit."""
    server, query = table.sizes or (None, None)
    if options:
        server_option, query_option = _SIZE_OPTIONS
        server = number(options, server_option, server or 0) or None
        query = number(options, query_option, query or 0) or None
    return (server, query) if server or query else None


def check_sizes(results: Sequence[ServerResult], sizes: tuple[int | None, int | None]) -> None:
    """Raise QueryError 245 if the results of the servers exceed their limits."""
    found = [held_bytes((result.rows, result.groups, result.sets)) for result in results]
    for name, limit, size in zip(_SIZE_OPTIONS, sizes, (max(found, default=0), sum(found)), strict=True):
        if limit is not None and size > limit:
            raise QueryError(
                ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED,
                f"The result has {megabytes(size)}, more than the {megabytes(limit)} that {name} allows; "
                "select fewer columns, filter more, or set a smaller LIMIT",
            )
