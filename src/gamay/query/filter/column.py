"""A condition as a column of flags, which aggregates with a FILTER clause read beside their arguments."""

from functools import cached_property
from typing import Any

import numpy as np

from gamay.base.arrays import Mask
from gamay.functions.vector import Vector
from gamay.model.types import DataType
from gamay.query.filter.apply import FilterResult
from gamay.query.filter.scan import mask_within, rows_within
from gamay.query.view.docset import SPARSE, doc_mask
from gamay.query.view.matches import DocIds
from gamay.segment.read.computed import ComputedColumn, unknown_stats


class FilterColumn(ComputedColumn):
    """The result of a filter as flags: from the docs that indexes found, a scan of the rows asked for, or both."""

    data_type = DataType.BOOLEAN

    def __init__(self, name: str, filtered: FilterResult) -> None:
        self.name = name
        self.num_docs = filtered.num_docs
        self.filtered = filtered
        self.stats = unknown_stats(filtered.num_docs)

    @cached_property
    def _flags(self) -> Mask | None:
        """The docs that indexes found; None if they excluded none."""
        docs = self.filtered.docs
        return None if docs is None or len(docs) == self.num_docs else doc_mask(docs, self.num_docs)

    def values(self, start: int, stop: int) -> Vector:
        flags = None if self._flags is None else self._flags[start:stop]
        scan = self.filtered.scan
        if scan is None:
            return self._vector(flags, stop - start)
        if flags is None:
            return Vector(self.data_type, scan.mask(start, stop))
        is_sparse = np.count_nonzero(flags) * SPARSE < stop - start
        return Vector(self.data_type, (rows_within if is_sparse else mask_within)(scan, flags, start))

    def values_at(self, docs: DocIds) -> Vector:
        flags = None if self._flags is None else self._flags[docs]
        scan = self.filtered.scan
        if scan is None:
            return self._vector(flags, len(docs))
        if flags is None:
            return Vector(self.data_type, scan.mask_at(docs))
        found = np.flatnonzero(flags)
        return self._vector(_scattered(found, scan.mask_at(docs[found]), len(docs)), len(docs))

    def _vector(self, flags: Mask | None, num_rows: int) -> Vector:
        return Vector(self.data_type, np.ones(num_rows, np.bool_) if flags is None else flags)


def _scattered(rows: "np.ndarray[Any, np.dtype[np.int64]]", flags: Mask, num_rows: int) -> Mask:
    """Return `num_rows` flags: the given ones at `rows`, False elsewhere."""
    out = np.zeros(num_rows, np.bool_)
    out[rows] = flags
    return out
