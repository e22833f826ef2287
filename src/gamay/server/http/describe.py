"""Descriptions of a server's segments, in Pinot's format."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from gamay.base.errors import CorruptSegmentError
from gamay.model.schema.datetime_format import DateTimeFormat, DateTimeKind
from gamay.model.table.table_name import TableType, raw_table_name, table_type_of
from gamay.model.units import TimeUnit
from gamay.segment.encode.metadata import ColumnMeta
from gamay.segment.read.reader import ImmutableSegment
from gamay.server.instance.instance import ServerInstance
from gamay.server.loading.table import LoadedSegment

_INDEXES = {
    "bloom": "bloom-filter",
    "dictionary": "dictionary",
    "forward": "forward-index",
    "inverted": "inverted-index",
    "null": "null-value-vector-reader",
    "range": "range-index",
    "json": "json-index",
    "h3": "h3-index",
    "fst": "fst-index",
    "ifst": "fst-index",
    "text": "text-index",
}


def describe_segments(
    instance: ServerInstance, table: str, names: Collection[str] = (), columns: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """Return the metadata of a typed table's segments, or of the named ones, including consuming ones, by name.

    columns: those to list with their indexes, `*` for all; not listed for consuming segments.
    """
    data = instance.table(table)
    if data is None:
        return {}
    contents = data.contents()
    chosen = [name for name in (*contents.loaded, *contents.consuming) if not names or name in names]
    is_stream = table_type_of(table) is TableType.REALTIME  # only then records have additional information, the offsets
    records = instance.records(table, chosen) if is_stream else {}
    layout = instance.layout_of(table)
    time = layout and layout.config.time_column
    fields = () if layout is None else layout.schema.fields
    format_ = next((field.format for field in fields if field.name == time), None)
    told = {}
    for name in sorted(chosen):
        if name in contents.loaded:
            one = _described(contents.loaded[name], columns)
        else:
            created_ms = records[name].creation_time_ms if name in records else None
            one = _bare(name, created_ms, contents.consuming[name].freeze()[0].num_docs) | {"timeColumn": time}
        one["schemaName"] = raw_table_name(table)
        if format_ is not None and one["timeColumn"] == time:
            one |= _unit(format_)
        if (record := records.get(name)) is not None:
            one |= {"startOffset": record.start_offset or None, "endOffset": record.end_offset or None}
        told[name] = one
    return told


def _unit(time: DateTimeFormat) -> Mapping[str, Any]:
    """Return the unit of a time column, as in Pinot: that of numbers; milliseconds for texts."""
    unit = time.unit if time.kind is DateTimeKind.EPOCH else TimeUnit.MILLISECONDS
    return {"timeUnit": unit.name, "timeGranularitySec": unit.to_millis(1) // 1000}


def _bare(name: str, created_ms: int | None, num_docs: int) -> dict[str, Any]:
    """Return the description common to all segments, with all keys in Pinot's order."""
    return {
        "segmentName": name,
        "schemaName": None,
        "crc": None,
        "creationTimeMillis": created_ms,
        "creationTimeReadable": _readable(created_ms),
        "timeColumn": None,
        "timeUnit": None,
        "timeGranularitySec": None,
        "startTimeMillis": None,
        "startTimeReadable": None,
        "endTimeMillis": None,
        "endTimeReadable": None,
        "segmentVersion": None,
        "creatorName": None,
        "totalDocs": num_docs,
        "custom": {},
        "startOffset": None,
        "endOffset": None,
        "columns": [],
        "indexes": {},
        "star-tree-index": [],
    }


def _described(loaded: LoadedSegment, columns: Sequence[str]) -> dict[str, Any]:
    info = loaded.segment.info
    chosen = [c for c in info.columns.values() if "*" in columns or c.name in columns]
    return _bare(info.name, info.creation_time_ms, info.num_docs) | {
        "crc": info.crc,
        "timeColumn": info.time_column,
        "startTimeMillis": info.start_time_ms,
        "startTimeReadable": _readable(info.start_time_ms),
        "endTimeMillis": info.end_time_ms,
        "endTimeReadable": _readable(info.end_time_ms),
        "segmentVersion": "v3",
        "columns": [column_details(loaded.segment, column) for column in chosen],
        "indexes": {column.name: index_flags(loaded.segment, column) for column in chosen},
        "star-tree-index": _star_trees(loaded.segment),
    }


def _star_trees(segment: ImmutableSegment) -> list[dict[str, Any]]:
    """Return the star-trees of a segment; none if they are damaged, as queries do not use them then."""
    try:
        trees = segment.star_trees(verify=False)
    except CorruptSegmentError:
        return []
    return [
        {
            "dimension-columns": [dimension.text for dimension in tree.dimensions],
            "metric-aggregations": list(tree.aggregates),
            "max-leaf-records": tree.config["maxLeafRecords"],
            "dimension-columns-skipped": [tree.dimensions[d].text for d in tree.config["skipStarNodeCreation"]],
            "records": tree.num_records,
            "sizeInBytes": tree.size_bytes,
            "buildTimeMs": tree.build_ms,
        }
        for tree in trees
    ]


def _index_sizes(segment: ImmutableSegment, column: ColumnMeta) -> dict[str, int]:
    """Return the bytes of each index of a column, including indexes on several columns."""
    sizes = column.index_sizes()
    for index in segment.indexes:
        if column.name in index.declaration.columns:
            sizes[index.kind] = sizes.get(index.kind, 0) + index.size_bytes
    return sizes


def index_flags(segment: ImmutableSegment, column: ColumnMeta) -> dict[str, str]:
    """Return which indexes a column has, as YES or NO by Pinot's names, including those that are never built."""
    found = {_INDEXES[part]: "YES" for part in _index_sizes(segment, column) if part in _INDEXES}
    return dict.fromkeys(_INDEXES.values(), "NO") | found


def column_details(segment: ImmutableSegment, column: ColumnMeta) -> dict[str, Any]:
    """Return the description of a segment's column."""
    stats = column.stats
    return {
        "columnName": column.name,
        "dataType": column.data_type.value,
        "cardinality": stats.cardinality,
        "totalDocs": segment.num_docs,
        "singleValue": column.single_value,
        "sorted": stats.is_sorted,
        "hasDictionary": column.encoding.value == "DICTIONARY",
        "maxNumberOfMultiValues": stats.max_values_per_row,
        "minValue": None if stats.minimum is None else str(stats.minimum),
        "maxValue": None if stats.maximum is None else str(stats.maximum),
        "numNulls": stats.num_nulls,
        "indexSizeMap": _index_sizes(segment, column),
    }


def _readable(ms: int | None) -> str | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
