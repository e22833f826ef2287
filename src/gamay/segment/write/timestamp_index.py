"""Columns of a timestamp index, derived from a finished column.

If that has a dictionary, its entries rather than its rows are truncated to units of time.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.functions.arrow import arrow_type
from gamay.functions.scalar.time.dates import truncate_local
from gamay.functions.scalar.time.time_units import dividing
from gamay.functions.vector import take
from gamay.model.index.column_index import ColumnIndexConfig
from gamay.model.index.timestamp_index import TimestampColumn
from gamay.model.types import DataType
from gamay.segment.encode.dictionary import sort_distinct
from gamay.segment.encode.forward import id_dtype
from gamay.segment.spi import Ids
from gamay.segment.write.accumulate import EncodedColumn, RawColumn
from gamay.segment.write.column_writer import ColumnPlan, FinishedColumn

_INDEX = ColumnIndexConfig(dictionary=True, range=True)


@dataclass(frozen=True, slots=True)
class TimestampPlan:
    """How to write a column that a timestamp index derives."""

    column: TimestampColumn
    plan: ColumnPlan

    @classmethod
    def of(cls, column: TimestampColumn, base: ColumnPlan) -> "TimestampPlan":
        """Plan a column like its base: it stores nulls and bounds if the base does."""
        (default,) = truncate_local(np.array([base.default], np.int64), column.granularity).tolist()
        return cls(column, ColumnPlan(column.spec, _INDEX, default, base.keep_nulls, base.keep_bounds, base.indexing))


def truncated_array(array: pa.Array, granularity: str) -> pa.Array:
    """Return times truncated to a unit, in UTC; null stays null."""
    times = pc.fill_null(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    nulls = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    cut = pa.array(truncate_local(times, granularity), pa.int64(), mask=nulls)
    return cut.cast(arrow_type(DataType.TIMESTAMP))


class RetainedColumn:
    """A column that retains its finished form; implements `column_writer.FinishedColumn`."""

    def __init__(self, column: FinishedColumn) -> None:
        self._column = column
        self._finished: EncodedColumn | RawColumn | None = None
        self._truncated: dict[str, EncodedColumn] = {}

    def finish_encoded(self) -> EncodedColumn:
        self._finished = finished = self._column.finish_encoded()
        return finished

    def finish_raw(self) -> RawColumn:
        self._finished = finished = self._column.finish_raw()
        return finished

    def truncated(self, granularity: str) -> EncodedColumn:
        """Return the finished column with each time truncated to a unit, in UTC.

        Longer units are derived from shorter ones that were computed before.
        """
        shorter = (self._truncated[unit] for unit in dividing(granularity) if unit in self._truncated)
        base = next(shorter, self._finished)
        assert base is not None
        entries = base.dictionary if isinstance(base, EncodedColumn) else base.values
        assert isinstance(entries, np.ndarray)
        distinct, ids = _distinct(truncate_local(entries, granularity))
        ids = ids.astype(id_dtype(len(distinct)))
        ids = take(ids, base.ids) if isinstance(base, EncodedColumn) else ids
        self._truncated[granularity] = truncated = EncodedColumn(distinct, ids, None, base.null_docs)
        return truncated


def _distinct(times: Ids) -> tuple[Ids, Ids]:
    """Return the distinct times, ascending, and the position of each time among them."""
    if np.any(times[1:] < times[:-1]):
        distinct, (ids,) = sort_distinct([times], DataType.TIMESTAMP)
        return distinct, ids
    begins = np.ones(len(times), np.bool_)
    np.not_equal(times[1:], times[:-1], out=begins[1:])
    return times[begins], np.cumsum(begins) - 1
