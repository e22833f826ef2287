"""Column statistics in a segment's record, so that brokers prune without opening segments.

The text in the record is JSON: column -> [type, cardinality, min, max, sorted, num_values, num_nulls, partition], its
values as in `gamay.model.exact_json`. If the text would not fit the record, columns are left out, those with the
largest values first: unknown statistics never prune.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from gamay.model.exact_json import ExactValue, reader_of, value_to_json
from gamay.model.types import DataType

TEXT_BYTES_MAX = 60_000


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The partition function of a column, and the partitions in the segment."""

    function_name: str
    num_partitions: int
    partitions: tuple[int, ...]
    function_config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """Statistics of one column: minimum and maximum are exact, in the type's Python form, or None if unknown."""

    data_type: DataType
    cardinality: int | None
    minimum: ExactValue
    maximum: ExactValue
    is_sorted: bool
    num_values: int
    num_nulls: int
    partition: Partitioning | None


def encode_columns(columns: Mapping[str, ColumnSummary]) -> str:
    """Return the text for a segment's record, at most `TEXT_BYTES_MAX` bytes long."""
    entries = {name: orjson.dumps(_to_json(column)) for name, column in columns.items()}
    size = sum(len(name.encode()) + len(entry) + 4 for name, entry in entries.items()) + 2
    for name in sorted(entries, key=lambda n: len(entries[n]), reverse=True):
        if size <= TEXT_BYTES_MAX:
            break
        size -= len(name.encode()) + len(entries.pop(name)) + 4
    return orjson.dumps({name: orjson.Fragment(entry) for name, entry in entries.items()}).decode()


def decode_bounds(text: str) -> dict[str, tuple[ExactValue, ExactValue, Partitioning | None]]:
    """Return the minimum, the maximum and the partitioning of each column that a record describes.

    These suffice for a starting broker, which reads them of hundreds of thousands of segments.
    """
    if not text:
        return {}
    bounds = {}
    for name, entry in orjson.loads(text).items():
        minimum, maximum, partition = entry[2], entry[3], entry[7]
        read = _READERS[entry[0]]
        if read is not None and minimum is not None:
            minimum = read(minimum)
        if read is not None and maximum is not None:
            maximum = read(maximum)
        bounds[name] = (minimum, maximum, None if partition is None else _partitioning(partition))
    return bounds


def partitions_of_stream(text: str) -> dict[str, Partitioning]:
    """Return the partitioning of a consuming segment's columns, from `segment.partition.metadata` in its record."""
    columns = orjson.loads(text).get("columnPartitionMap", {}) if text else {}
    return {
        name: Partitioning(
            entry["functionName"], entry["numPartitions"], tuple(entry["partitions"]), entry["functionConfig"] or {}
        )
        for name, entry in columns.items()
    }


def _partitioning(entry: list[Any]) -> Partitioning:
    return Partitioning(entry[0], entry[1], tuple(entry[2]), entry[3])


def _to_json(column: ColumnSummary) -> list[Any]:
    partition = column.partition
    return [
        column.data_type.value,
        column.cardinality,
        value_to_json(column.minimum, column.data_type),
        value_to_json(column.maximum, column.data_type),
        column.is_sorted,
        column.num_values,
        column.num_nulls,
        partition
        and [partition.function_name, partition.num_partitions, partition.partitions, dict(partition.function_config)],
    ]


_READERS = {data_type.value: reader_of(data_type) for data_type in DataType}
