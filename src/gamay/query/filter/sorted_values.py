"""Predicates on a raw column whose rows ascend: a binary search, not a scan, finds the rows of a range of values."""

from gamay.functions.vector import numpy_dtype
from gamay.model.types import DataType
from gamay.query.bind.predicate import In, Range
from gamay.query.view.docset import DocRange, DocSet, unite
from gamay.segment.spi import Column

_SEARCHABLE = {
    data_type: numpy_dtype(data_type).type
    for data_type in (DataType.INT, DataType.LONG, DataType.TIMESTAMP, DataType.FLOAT, DataType.DOUBLE)
}

# This many searches cost as much as a scan of a few blocks.
_VALUES_MAX = 16


def searched_docs(leaf: In | Range, column: Column) -> DocSet | None:
    """Return the rows that match a predicate on a sorted raw column; None if the column cannot be searched."""
    values, of_type = column.sorted_values, _SEARCHABLE.get(column.data_type)
    if values is None or of_type is None:
        return None
    if isinstance(leaf, Range):
        start, stop = 0, column.num_docs
        # a bound of another dtype would convert the whole column
        if leaf.lower is not None:
            start = values.search(of_type(leaf.lower), "left" if leaf.lower_inclusive else "right")
        if leaf.upper is not None:
            stop = values.search(of_type(leaf.upper), "right" if leaf.upper_inclusive else "left")
        return DocRange(start, max(start, stop))
    if len(leaf.values) > _VALUES_MAX:
        return None
    docs: DocSet = DocRange(0, 0)
    for value in leaf.values:
        start = values.search(of_type(value), "left")
        docs = unite(docs, DocRange(start, max(start, values.search(of_type(value), "right"))))
    return docs
