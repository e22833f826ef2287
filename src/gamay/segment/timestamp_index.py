"""Columns of a timestamp index, made of the finished column that they are derived from.

Where that has a dictionary, its entries are cut to units of time, and not its rows.
"""

from dataclasses import dataclass

import numpy as np

from gamay.functions.scalar.dates import truncate_local
from gamay.functions.scalar.time_units import dividing
from gamay.functions.vector import take
from gamay.model.column_index import ColumnIndexConfig
from gamay.model.timestamp_index import TimestampColumn
from gamay.model.types import DataType
from gamay.segment.accumulate import EncodedColumn, RawColumn
from gamay.segment.column_writer import ColumnPlan, FinishedColumn
from gamay.segment.dictionary import sort_distinct
from gamay.segment.forward import id_dtype

_INDEX = ColumnIndexConfig(dictionary=True, range=True)


@dataclass(frozen=True, slots=True)
class TimestampPlan:
    """What is to be made of a column that a timestamp index derives."""

    column: TimestampColumn
    plan: ColumnPlan

    @classmethod
    def of(cls, column: TimestampColumn, base: ColumnPlan) -> "TimestampPlan":
        """Plan a column like its base: it keeps nulls and bounds where that does."""
        spec = column.spec
        plan = ColumnPlan(spec, _INDEX, spec.default_null_value, base.keep_nulls, base.keep_bounds, base.indexing)
        return cls(column, plan)


class RetainedColumn:
    """A column that remembers what it was finished as; implements `column_writer.FinishedColumn`."""

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
        """Return the column, which is finished, with each time cut to its unit, in UTC.

        Longer units are those of shorter ones that were made before.
        """
        shorter = (self._truncated[unit] for unit in dividing(granularity) if unit in self._truncated)
        base = next(shorter, self._finished)
        assert base is not None
        entries = base.dictionary if isinstance(base, EncodedColumn) else base.values
        assert isinstance(entries, np.ndarray)
        distinct, (ids,) = sort_distinct([truncate_local(entries, granularity)], DataType.TIMESTAMP)
        ids = ids.astype(id_dtype(len(distinct)))
        ids = take(ids, base.ids) if isinstance(base, EncodedColumn) else ids
        self._truncated[granularity] = truncated = EncodedColumn(distinct, ids, None, base.null_docs)
        return truncated
