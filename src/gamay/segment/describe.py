"""Printable descriptions of a segment's contents, with sizes."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from gamay.functions.expression import LiteralValue
from gamay.model.types import DataType
from gamay.segment.encode.format import COLUMNS_FILE, METADATA_FILE
from gamay.segment.encode.frames import HIGH, LOW, FrameMeta
from gamay.segment.encode.metadata import ColumnMeta, SegmentMetadata, read_metadata
from gamay.segment.secondary.files import StoredIndex, read_index_list
from gamay.segment.star_tree_file import RECORDS_FILE, TREES_FILE, StoredTree, read_star_trees

_VALUE_WIDTH_MAX = 24
_MILLIS = 1000


def describe(path: str | Path) -> str:
    """Return a printable description of a segment folder: its columns, and the bytes of every index and buffer.

    Only the metadata is read and checked; raises CorruptSegmentError.
    """
    folder = Path(path)
    info = read_metadata(folder)
    names = (METADATA_FILE, COLUMNS_FILE, TREES_FILE, RECORDS_FILE)
    files = {name: (folder / name).stat().st_size for name in names if (folder / name).exists()}
    trees = read_star_trees(folder, info.crc, verify=False)
    indexes = read_index_list(folder, info.crc)
    parts = [
        _head(info),
        _table(_COLUMN_HEADINGS, [_column_row(column) for column in info.columns.values()], right=(4, 7, 8)),
        _table(("index", "columns", "bytes", "share"), _totals(info), right=(1, 2, 3)),
        _table(("column", "buffer", "bytes"), _buffers(info), right=(2,)),
        *([_table(_INDEX_HEADINGS, list(map(_index_row, indexes)), right=(3, 4))] if indexes else []),
        *([_table(_TREE_HEADINGS, list(map(_tree_row, trees)), right=(2, 3, 4, 5))] if trees else []),
        "\n".join(f"{name}: {_number(size)} bytes" for name, size in files.items()),
    ]
    return "\n\n".join(parts) + "\n"


_COLUMN_HEADINGS = ("column", "type", "encoding", "sorted", "cardinality", "min", "max", "nulls", "bytes", "indexes", "why")


_INDEX_HEADINGS = ("secondary index", "columns", "settings", "bytes", "built in ms", "note")


def _index_row(index: StoredIndex) -> tuple[str, ...]:
    settings = index.declaration.settings
    shown = json.dumps(settings, ensure_ascii=False) if settings else ""
    columns = ", ".join(index.declaration.columns)
    return index.kind, columns, shown, _number(index.size_bytes), _number(index.build_ms), index.note


_TREE_HEADINGS = ("star-tree of", "aggregates", "cuboids", "records", "bytes", "built in ms")


def _tree_row(tree: StoredTree) -> tuple[str, ...]:
    return (
        ", ".join(dimension.text for dimension in tree.dimensions),
        ", ".join(tree.aggregates),
        _number(len(tree.cuboids)),
        _number(tree.num_records),
        _number(tree.size_bytes),
        _number(tree.build_ms),
    )


def _head(info: SegmentMetadata) -> str:
    lines = [
        f"segment {info.name} of table {info.table}",
        f"{_number(info.num_docs)} rows, {len(info.columns)} columns",
        f"CRC {info.crc}, created {_time(info.creation_time_ms)}",
    ]
    if info.time_column is not None and info.start_time_ms is not None and info.end_time_ms is not None:
        lines.append(f"{info.time_column} from {_time(info.start_time_ms)} to {_time(info.end_time_ms)}")
    return "\n".join(lines)


def _column_row(column: ColumnMeta) -> tuple[str, ...]:
    stats = column.stats
    encoding = f"{column.id_bits}-bit ids" if column.id_bits is not None else f"raw {column.codec}"
    if column.frame is not None:
        encoding = _framed(column, column.frame)
    if not column.has_forward:
        encoding = "no forward index"
    sizes = column.index_sizes()
    indexes = [name for name in sizes if name not in ("dictionary", "forward")]
    if stats.partition is not None:
        partitions = ",".join(map(str, stats.partition.partitions))
        indexes.append(f"{stats.partition.function_name}({stats.partition.num_partitions}) in {partitions}")
    return (
        column.name,
        column.data_type.value + ("" if column.single_value else "[]"),
        encoding,
        "yes" if stats.is_sorted else "",
        "" if stats.cardinality is None else _number(stats.cardinality),
        _value(stats.minimum, column.data_type),
        _value(stats.maximum, column.data_type),
        _number(stats.num_nulls),
        _number(sum(sizes.values())),
        " ".join(indexes),
        column.reason or ("" if column.id_bits is None else "a dictionary is the default, or declared"),
    )


def _framed(column: ColumnMeta, frame: FrameMeta) -> str:
    """Return a description of a column in frame of reference, such as `raw (90,100 + 24 bits) / 100`."""
    codes = sum(buffer.size for kind, buffer in column.buffers.items() if kind in (LOW, HIGH))
    whole = f"{_number(frame.base)} + {8 * codes // max(1, column.stats.num_values)} bits"
    if not frame.exponent:
        return f"raw {whole}"
    return f"raw ({whole}) / {_number(10**frame.exponent)}" if frame.divides else f"raw ({whole}) * 1e-{frame.exponent}"


def _totals(info: SegmentMetadata) -> list[tuple[str, ...]]:
    by_index: dict[str, list[int]] = {}
    for column in info.columns.values():
        for name, size in column.index_sizes().items():
            by_index.setdefault(name, []).append(size)
    total = sum(map(sum, by_index.values()))
    rows = [
        (name, str(len(sizes)), _number(sum(sizes)), f"{100 * sum(sizes) / max(1, total):.1f} %")
        for name, sizes in by_index.items()
    ]
    return [*rows, ("total", str(len(info.columns)), _number(total), "")]


def _buffers(info: SegmentMetadata) -> list[tuple[str, ...]]:
    return [
        (column.name, buffer.kind, _number(buffer.size))
        for column in info.columns.values()
        for buffer in column.buffers.values()
    ]


def _value(value: LiteralValue, data_type: DataType) -> str:
    if value is None:
        return ""
    if data_type is DataType.TIMESTAMP and isinstance(value, int):
        return _time(value)
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= _VALUE_WIDTH_MAX else text[: _VALUE_WIDTH_MAX - 1] + "…"


def _time(millis: int) -> str:
    try:
        moment = datetime.fromtimestamp(millis / _MILLIS, UTC)
    except (ValueError, OverflowError, OSError):  # beyond the years that datetime supports
        return f"{millis} ms"
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def _number(value: int) -> str:
    return f"{value:,}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int]) -> str:
    widths = [max(map(len, cells)) for cells in zip(headings, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = (c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True)))
        return "  ".join(padded).rstrip()

    return "\n".join([line(headings), line(["-" * width for width in widths]), *map(line, rows)])
