"""Estimates of the bytes that a column of a consuming segment will reserve, by a formula for each buffer."""

from collections.abc import Callable

from gamay.segment.encode.forward import id_dtype
from gamay.segment.encode.storage_form import fixed_dtype
from gamay.segment.mutable.buffers import reserved_bytes
from gamay.segment.mutable.column import FIRST_CHECK
from gamay.segment.mutable.dictionary import dictionary_bytes
from gamay.segment.mutable.sizing import ColumnSizing
from gamay.segment.sizes import ColumnShape
from gamay.segment.write.column_writer import ColumnPlan


def column_memory(
    plan: ColumnPlan, shape: ColumnShape, sizing: ColumnSizing, cardinality_at: Callable[[int], float], *, is_sort_key: bool
) -> int:
    """Return the bytes that a `MutableColumn` reserves if created for its final number of rows and for `sizing`.

    cardinality_at: the number of distinct values among the first n, to predict whether the dictionary is dropped.
    """
    num_values, num_docs = shape.num_values, shape.num_docs
    expected = int(num_docs * sizing.values_per_row)
    total = 0
    if plan.config.dictionary and _keeps_dictionary(plan, num_values, cardinality_at):
        entries = shape.cardinality
        id_bytes = max(id_dtype(entries).itemsize, id_dtype(min(expected, sizing.cardinality)).itemsize)
        total += dictionary_bytes(plan.spec.data_type, entries, shape.entry_bytes, sizing.cardinality, sizing.width)
        total += reserved_bytes(num_values, id_bytes, expected)
        if plan.config.inverted or (is_sort_key and not plan.config.may_drop_dictionary):
            total += reserved_bytes(entries, 4, sizing.cardinality) + reserved_bytes(num_values, 4, expected)
    else:
        total += _raw(plan, shape, expected, shape.value_bytes if plan.config.dictionary else sizing.width)
    if not plan.spec.single_value:
        total += reserved_bytes(num_docs + 1, 4, num_docs + 1)
    if shape.num_nulls:
        total += reserved_bytes(-(-num_docs // 8), 1, 0)
    return total


def _keeps_dictionary(plan: ColumnPlan, num_values: int, cardinality_at: Callable[[int], float]) -> bool:
    check = FIRST_CHECK
    while check <= num_values:
        if not plan.dictionary_pays(check, int(cardinality_at(check))):
            return False
        check *= 2
    return True


def _raw(plan: ColumnPlan, shape: ColumnShape, expected: int, width: float) -> int:
    dtype = fixed_dtype(plan.spec.data_type)
    if dtype is None:
        values = reserved_bytes(shape.num_values * shape.value_bytes, 1, expected * width)
        return values + reserved_bytes(shape.num_values + 1, 4, expected + 1)
    return reserved_bytes(shape.num_values, dtype.itemsize, expected)
