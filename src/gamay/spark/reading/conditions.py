"""SQL conditions over a table: their validation, and pruning of segments by them.

Only this part of planning needs the binder. Spark plans in new processes, some of them for every query, so this module is
imported only if there is a condition: without one, such a process does not load the engine.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gamay.base.errors import InvalidConfigError, QueryError
from gamay.base.sql_names import quoted
from gamay.model.exact_json import reader_of
from gamay.model.schema.schema import Schema
from gamay.model.types import DataType
from gamay.query.bind.binder import bind
from gamay.query.prune.by_records import ColumnRange, PruningTable, SegmentRecordStats
from gamay.segment.spi import PartitionInfo
from gamay.sql.parser import parse_query


def check_where(text: str, schema: Schema, table: str, option: str = "where") -> None:
    """Raise InvalidConfigError for an option that is not a condition over a table's columns."""
    try:
        query = parse_query(f"SELECT 1 FROM {quoted(table)} WHERE {text}")  # noqa: S608 - the user's own SQL
        bind(query, schema)
    except QueryError as error:
        raise InvalidConfigError(f"the option '{option}' is no condition of SQL: {error}") from error
    if query.has_limit or query.order_by or query.group_by or query.options or query.asks_broker:
        raise InvalidConfigError(f"the option '{option}' must be a condition as after WHERE and no more, not: {text}")


def may_match(segments: Sequence[Mapping[str, Any]], sql: str, schema: Schema) -> list[Mapping[str, Any]]:
    """Return the segments of a snapshot that may have rows matching a selection, by the bounds in their records."""
    records = [SegmentRecordStats(s["name"], s["totalDocs"], _ranges(s["columns"])) for s in segments]
    kept = PruningTable.build(records).kept(bind(parse_query(sql), schema))
    return [segments[place] for place in kept]


def _ranges(columns: Mapping[str, Any]) -> dict[str, ColumnRange]:
    """Return a record's column bounds in the form that pruning takes; see `gamay.cluster.records.column_stats`."""
    found: dict[str, ColumnRange] = {}
    for name, (kind, _, low, high, _, _, _, partition) in columns.items():
        read = reader_of(DataType(kind))
        low, high = (value if value is None or read is None else read(value) for value in (low, high))
        info = None if partition is None else PartitionInfo(partition[0], partition[1], tuple(partition[2]), partition[3])
        found[name] = (low, high, info)
    return found
