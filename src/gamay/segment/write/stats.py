"""Statistics of a column, computed once while its segment is built."""

from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow.compute as pc

from gamay.functions.expression import LiteralValue
from gamay.kernels.encode.encoding import count_ids, is_ascending
from gamay.model.types import DataType
from gamay.segment.encode.storage_form import Stored, to_python, to_values
from gamay.segment.spi import ColumnStats, Ids, PartitionInfo
from gamay.segment.write.accumulate import EncodedColumn, RawColumn

_INTEGERS = (DataType.INT, DataType.LONG)
_FLOATS = (DataType.FLOAT, DataType.DOUBLE)


def id_counts(ids: Ids, cardinality: int) -> Ids:
    """Return the number of occurrences of each id: int64 [cardinality]."""
    counts = np.zeros(cardinality, np.int64)
    count_ids(ids, counts)
    return counts


def encoded_stats(column: EncodedColumn, data_type: DataType, counts: Ids, partition: PartitionInfo | None) -> ColumnStats:
    """Return the statistics of a dictionary column; `counts` as from `id_counts`."""
    dictionary = column.dictionary
    known = len(dictionary) > 0
    return ColumnStats(
        cardinality=len(dictionary),
        minimum=to_python(dictionary, 0, data_type) if known else None,
        maximum=to_python(dictionary, len(dictionary) - 1, data_type) if known else None,
        total=_total(dictionary, counts, data_type),
        is_sorted=column.offsets is None and bool(is_ascending(column.ids)),
        num_values=len(column.ids),
        max_values_per_row=_max_values_per_row(column.offsets, len(column.ids)),
        num_nulls=len(column.null_docs),
        partition=partition,
    )


def raw_stats(column: RawColumn, data_type: DataType, partition: PartitionInfo | None) -> ColumnStats:
    """Return the statistics of a raw column; its cardinality is unknown."""
    values = column.values
    minimum, maximum = value_bounds(values, data_type)
    return ColumnStats(
        cardinality=None,
        minimum=minimum,
        maximum=maximum,
        total=_total(values, None, data_type),
        is_sorted=column.offsets is None and _is_sorted(values, data_type),
        num_values=len(values),
        max_values_per_row=_max_values_per_row(column.offsets, len(values)),
        num_nulls=len(column.null_docs),
        partition=partition,
    )


def _max_values_per_row(offsets: "Ids | None", num_values: int) -> int:
    if num_values == 0:
        return 0
    return 1 if offsets is None else int(np.diff(offsets).max())


def value_bounds(values: Stored, data_type: DataType) -> tuple[LiteralValue, LiteralValue]:
    """Return the least and the greatest value; None if there are none."""
    if len(values) == 0:
        return None, None
    if data_type is DataType.BIG_DECIMAL:
        numbers: Any = to_values(values, data_type)
        return min(numbers), max(numbers)
    if isinstance(values, np.ndarray):
        low, high = int(values.argmin()), int(values.argmax())
        return to_python(values, low, data_type), to_python(values, high, data_type)
    bounds = pc.min_max(values).as_py()
    low_bytes, high_bytes = bounds["min"], bounds["max"]
    return (low_bytes.decode(), high_bytes.decode()) if data_type.is_text else (low_bytes, high_bytes)


def _is_sorted(values: Stored, data_type: DataType) -> bool:
    if isinstance(values, np.ndarray):
        return bool(is_ascending(values))
    if data_type is DataType.BIG_DECIMAL:
        numbers: list[Decimal] = to_values(values, data_type).tolist()
        return all(a <= b for a, b in pairwise(numbers))
    return not pc.any(pc.less(values[1:], values[:-1])).as_py()


def _total(values: Stored, counts: "Ids | None", data_type: DataType) -> int | float | None:
    """Return the sum of values, each taken `counts` times (or once): exact for integers."""
    if data_type in _FLOATS:
        weighted = values.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):  # infinities of both signs add up to NaN, as intended
            return float(weighted.sum() if counts is None else (weighted * counts).sum())
    return integer_total(values, counts) if data_type in _INTEGERS else None


def integer_total(values: Ids, counts: "Ids | None" = None) -> int:
    """Return the exact sum of integers, each taken `counts` times (or once)."""
    # Sums of 32-bit halves over at most 2**31 rows fit 64 bits.
    wide = values.astype(np.int64)
    high, low = wide >> 32, wide & 0xFFFFFFFF
    if counts is not None:
        high, low = high * counts, low * counts
    return (int(high.sum()) << 32) + int(low.sum())
