"""What a server tells of its segments, in the shape that the controller and clients know."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from gamay.base.errors import CorruptSegmentError
from gamay.segment.encode.metadata import ColumnMeta
from gamay.segment.read.reader import ImmutableSegment
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


def describe_segment(loaded: LoadedSegment, columns: Sequence[str] = ()) -> dict[str, Any]:
    """Return a loaded segment's metadata; columns: those to list with their indexes, `*` for all."""
    info = loaded.segment.info
    chosen = [c for c in info.columns.values() if "*" in columns or c.name in columns]
    return {
        "segmentName": info.name,
        "schemaName": None,
        "crc": info.crc,
        "creationTimeMillis": info.creation_time_ms,
        "creationTimeReadable": _readable(info.creation_time_ms),
        "timeColumn": info.time_column,
        "timeUnit": "MILLISECONDS" if info.time_column else None,
        "timeGranularitySec": None,
        "startTimeMillis": info.start_time_ms,
        "startTimeReadable": _readable(info.start_time_ms),
        "endTimeMillis": info.end_time_ms,
        "endTimeReadable": _readable(info.end_time_ms),
        "segmentVersion": "v3",
        "creatorName": None,
        "totalDocs": info.num_docs,
        "custom": {},
        "startOffset": None,
        "endOffset": None,
        "columns": [column_details(loaded.segment, column) for column in chosen],
        "indexes": {column.name: index_flags(loaded.segment, column) for column in chosen},
        "star-tree-index": _star_trees(loaded.segment),
    }


def _star_trees(segment: ImmutableSegment) -> list[dict[str, Any]]:
    """Return the star-trees that a segment has; of damaged ones, which no query uses, none."""
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
    """Return the bytes of each index of a column, those of several columns under each of these."""
    secondary = {index.kind: index.size_bytes for index in segment.indexes if column.name in index.declaration.columns}
    return column.index_sizes() | secondary


def index_flags(segment: ImmutableSegment, column: ColumnMeta) -> dict[str, str]:
    """Return which indexes a column has, as YES or NO under Pinot's names, those that are never built among them."""
    found = {_INDEXES[part]: "YES" for part in _index_sizes(segment, column) if part in _INDEXES}
    return dict.fromkeys(_INDEXES.values(), "NO") | found


def column_details(segment: ImmutableSegment, column: ColumnMeta) -> dict[str, Any]:
    """Return what is known of a column of a segment."""
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
