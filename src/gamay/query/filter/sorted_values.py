"""Predicates on a raw column whose rows ascend: the rows of a range of values are found by search, not by a scan."""

from typing import Any

import numpy as np

from gamay.functions.vector import numpy_dtype
from gamay.model.types import DataType
from gamay.query.filter.docset import DocRange, DocSet, unite
from gamay.query.predicate import In, Range
from gamay.segment.spi import Column

_SEARCHABLE = frozenset({DataType.INT, DataType.LONG, DataType.TIMESTAMP, DataType.FLOAT, DataType.DOUBLE})

# Rows read in each step of the search: few steps, each one vectorised read.
_PROBES = 32
# So many searches cost as much as a scan of a few blocks.
_VALUES_MAX = 16


def searched_docs(leaf: In | Range, column: Column) -> DocSet | None:
    """Return the rows that satisfy a predicate on a sorted raw column; None when the column cannot be searched."""
    if not (column.stats.is_sorted and column.single_value and column.data_type in _SEARCHABLE):
        return None
    if isinstance(leaf, Range):
        return _between(column, leaf.lower, leaf.upper, leaf.lower_inclusive, leaf.upper_inclusive)
    if len(leaf.values) > _VALUES_MAX:
        return None
    docs: DocSet = DocRange(0, 0)
    for value in leaf.values:
        docs = unite(docs, _between(column, value, value, True, True))
    return docs


def _between(column: Column, lower: Any, upper: Any, lower_inclusive: bool, upper_inclusive: bool) -> DocRange:
    start = 0 if lower is None else _first_doc(column, lower, "left" if lower_inclusive else "right")
    stop = column.num_docs if upper is None else _first_doc(column, upper, "right" if upper_inclusive else "left")
    return DocRange(start, max(start, stop))


def _first_doc(column: Column, bound: Any, side: str) -> int:
    """Return the first doc whose value is not below `bound` (side "left"), or above it ("right"); num_docs when none is."""
    value = numpy_dtype(column.data_type).type(bound)
    first, last = 0, column.num_docs  # the answer lies in [first, last]
    while first < last:
        docs = np.unique(np.linspace(first, last - 1, _PROBES).astype(np.int32))
        values = column.values_at(docs).values
        reached = int(np.searchsorted(values, value, side=side))  # type: ignore[call-overload]
        if reached == len(docs):
            return last
        last = int(docs[reached])
        if reached == 0:
            return last
        first = int(docs[reached - 1]) + 1
    return first
