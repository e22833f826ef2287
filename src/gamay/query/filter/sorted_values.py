"""Predicates on a raw column whose rows ascend: the rows of a range of values are found by search, not by a scan."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gamay.functions.vector import numpy_dtype
from gamay.model.types import DataType
from gamay.query.filter.docset import DocRange, DocSet, unite
from gamay.query.predicate import In, Range
from gamay.segment.spi import Column, SortedValues

_SEARCHABLE = frozenset({DataType.INT, DataType.LONG, DataType.TIMESTAMP, DataType.FLOAT, DataType.DOUBLE})

# So many searches cost as much as a scan of a few blocks.
_VALUES_MAX = 16


def searched_docs(leaf: In | Range, column: Column) -> DocSet | None:
    """Return the rows that satisfy a predicate on a sorted raw column; None when the column cannot be searched."""
    values = column.sorted_values
    if values is None or column.data_type not in _SEARCHABLE:
        return None
    search = _Search(values, numpy_dtype(column.data_type), column.num_docs)
    if isinstance(leaf, Range):
        return search.between(leaf.lower, leaf.upper, leaf.lower_inclusive, leaf.upper_inclusive)
    if len(leaf.values) > _VALUES_MAX:
        return None
    docs: DocSet = DocRange(0, 0)
    for value in leaf.values:
        docs = unite(docs, search.between(value, value, True, True))
    return docs


@dataclass(frozen=True, slots=True)
class _Search:
    values: SortedValues
    dtype: "np.dtype[Any]"
    num_docs: int

    def between(self, lower: Any, upper: Any, lower_inclusive: bool, upper_inclusive: bool) -> DocRange:
        of_type = self.dtype.type  # a bound of another dtype would have the whole column converted
        start = 0 if lower is None else self.values.search(of_type(lower), "left" if lower_inclusive else "right")
        stop = self.num_docs if upper is None else self.values.search(of_type(upper), "right" if upper_inclusive else "left")
        return DocRange(start, max(start, stop))
