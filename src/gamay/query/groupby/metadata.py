"""Aggregates over all rows of a segment, answered from column metadata without reading rows.

answer_from_metadata(aggregate, column, num_docs) -> partial of one group, or None when rows must be read
"""

from decimal import Decimal

import numpy as np

from gamay.functions.aggregate.distinct.distinct import DistinctAggregate
from gamay.functions.aggregate.distinct.pairs import PairsPartial
from gamay.functions.aggregate.nullable import NullablePartial, NullSkipping
from gamay.functions.aggregate.totals.numeric import COUNT_ROWS, Numeric
from gamay.functions.aggregate.totals.totals import Needs, TotalsPartial
from gamay.functions.aggregate_spi import Aggregate, Partial
from gamay.functions.expression import LiteralValue
from gamay.functions.vector import EncodedVector
from gamay.model.types import DataType
from gamay.segment.spi import Column

_LONG_MAX = (1 << 63) - 1


def answer_from_metadata(aggregate: Aggregate, column: Column | None, num_docs: int) -> Partial | None:
    """Return the partial over all rows; None if metadata cannot answer.

    column: the aggregate's argument if that is a plain column of the segment, None for COUNT(*).
    """
    if isinstance(aggregate, NullSkipping):
        return _without_nulls(aggregate, column, num_docs)
    if isinstance(aggregate, Numeric):
        return _totals(aggregate, column, num_docs)
    if column is None or column.dictionary is None:
        return None
    values = column.dictionary.values
    every_id = np.arange(len(values), dtype=np.uint32)
    if isinstance(aggregate, DistinctAggregate) and not aggregate.counted:
        return PairsPartial(np.zeros(len(values), np.int32), EncodedVector(every_id, values), None, 1)
    if aggregate.traits.is_of_distinct_values:
        state = aggregate.allocate(1)
        aggregate.update(state, None, [values], len(values))
        return aggregate.seal(state)
    return None


def _without_nulls(aggregate: NullSkipping, column: Column | None, num_docs: int) -> NullablePartial | None:
    """Return None if there are nulls, as statistics and dictionaries contain the default value of null rows."""
    if column is None:
        return None
    nulls = 0 if column.null_docs is None else len(column.null_docs)
    inner: Partial | None = None
    if aggregate.inner == COUNT_ROWS:
        inner = TotalsPartial(np.array([num_docs - nulls]), None, None, None)
    elif not nulls:
        inner = answer_from_metadata(aggregate.inner, column, num_docs)
    return None if inner is None else NullablePartial(inner, np.array([num_docs > nulls]))


def _totals(aggregate: Numeric, column: Column | None, num_docs: int) -> TotalsPartial | None:
    if aggregate is COUNT_ROWS:
        return TotalsPartial(np.array([num_docs]), None, None, None)
    if column is None:
        return None
    stats = column.stats
    counts = sums = lows = highs = None
    if Needs.COUNT in aggregate.needs:
        counts = np.array([stats.num_values])
    if Needs.SUM in aggregate.needs:
        if stats.total is None:
            return None
        whole = isinstance(stats.total, int) and abs(stats.total) <= _LONG_MAX
        sums = np.array([stats.total], np.int64 if whole else np.float64)
    if aggregate.needs & (Needs.LOW | Needs.HIGH):
        low, high = _as_double(stats.minimum), _as_double(stats.maximum)
        # A NaN anywhere makes both bounds NaN, but statistics may have ignored it.
        if low is None or high is None or (column.data_type in (DataType.FLOAT, DataType.DOUBLE) and not _nan_free(column)):
            return None
        lows = np.array([low]) if Needs.LOW in aggregate.needs else None
        highs = np.array([high]) if Needs.HIGH in aggregate.needs else None
    return TotalsPartial(counts, sums, lows, highs)


def _nan_free(column: Column) -> bool:
    """Whether no value is NaN: it would be a dictionary entry, the last of a sorted one, and make the total NaN."""
    if column.stats.total is not None:
        return not np.isnan(column.stats.total)
    if column.dictionary is None or not len(column.dictionary):
        return False
    values = column.dictionary.values.values
    return not np.isnan(values[-1:] if column.dictionary.is_sorted else values).any()


def _as_double(value: LiteralValue) -> float | None:
    return float(value) if isinstance(value, int | float | Decimal) else None
