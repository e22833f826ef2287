"""Estimates of the bytes of an immutable segment's column, by a formula for each buffer.

They predict the output of `gamay.segment.write.column_writer` without the rows. Only compressed values have no formula: the
caller measures them on a sample.
"""

import math
from dataclasses import dataclass

import numpy as np

from gamay.kernels.encode.bitpack import words_needed
from gamay.segment.encode.format import aligned
from gamay.segment.encode.forward import id_dtype, packed_bits
from gamay.segment.encode.storage_form import fixed_dtype
from gamay.segment.index.bitmaps import expected_set_bytes
from gamay.segment.index.bloom import bloom_size
from gamay.segment.index.range import bucket_count
from gamay.segment.spi import Ids
from gamay.segment.write.column_writer import ColumnPlan

_START_BYTES, _COUNT_BYTES, _OFFSET_BYTES = 8, 4, 4


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """Expected properties of a column's rows.

    entry_bytes: of a distinct value on average. raw_bytes: of all values in raw form, compressed according to the plan.
    occurrences, entries: float64 [k], `entries[i]` of the distinct values occur `occurrences[i]` times each.
    run_docs: the factor by which runs of equal values are longer than in random order, at least 1.
    """

    num_docs: int
    num_values: int
    cardinality: int
    num_nulls: int
    entry_bytes: float
    value_bytes: float
    raw_bytes: float
    is_sorted: bool
    occurrences: Ids
    entries: Ids
    run_docs: float


def column_bytes(plan: ColumnPlan, shape: ColumnShape) -> int:
    """Return the bytes of a column's buffers in `columns.bin`, with padding."""
    config = plan.config
    encoded = config.dictionary and plan.dictionary_pays(shape.num_values, shape.cardinality, shape.raw_bytes)
    sizes = _encoded(plan, shape) if encoded else [shape.raw_bytes]
    if not encoded and config.range:
        sizes += _range(plan, shape, _width(plan))
    if not plan.spec.single_value and config.forward:
        sizes.append(_OFFSET_BYTES * (shape.num_docs + 1))
    if plan.keep_nulls and shape.num_nulls:
        one = expected_set_bytes(np.array([float(shape.num_nulls)]), shape.num_docs, shape.run_docs)
        sizes.append(float(one[0]))
    if config.bloom is not None:
        bits, _ = bloom_size(shape.cardinality, config.bloom.fpp, config.bloom.max_size_bytes)
        sizes.append(16 + bits // 8)
    return sum(aligned(math.ceil(size)) for size in sizes)


def _encoded(plan: ColumnPlan, shape: ColumnShape) -> list[float]:
    config, cardinality = plan.config, shape.cardinality
    sizes: list[float] = [cardinality * shape.entry_bytes]
    if fixed_dtype(plan.spec.data_type) is None:
        sizes.append(_OFFSET_BYTES * (cardinality + 1))
    if config.forward and config.packed:
        sizes.append(8 * words_needed(shape.num_values, packed_bits(cardinality)))
    elif config.forward:
        sizes.append(id_dtype(cardinality).itemsize * shape.num_values)
    if shape.is_sorted and plan.spec.single_value:
        return [*sizes, _OFFSET_BYTES * (cardinality + 1)]
    if config.inverted:
        sizes += _sets(plan, shape, shape.occurrences, shape.entries)
    if config.range:
        sizes += _range(plan, shape, _OFFSET_BYTES)
    return sizes


def _range(plan: ColumnPlan, shape: ColumnShape, key_bytes: int) -> list[float]:
    buckets = max(1, min(bucket_count(shape.num_values), shape.cardinality))
    occurrences = np.array([shape.num_values / buckets])
    return [*_sets(plan, shape, occurrences, np.array([float(buckets)])), key_bytes * (buckets + 1)]


def _sets(plan: ColumnPlan, shape: ColumnShape, occurrences: Ids, keys: Ids) -> list[float]:
    docs = occurrences
    if not plan.spec.single_value:  # a row that has a value twice is one doc
        docs = -shape.num_docs * np.expm1(-occurrences / shape.num_docs)
    lists = 4 * docs
    sets = np.minimum(lists, expected_set_bytes(docs, shape.num_docs, shape.run_docs))
    num_keys = float(keys.sum())
    return [_START_BYTES * (num_keys + 1), _COUNT_BYTES * num_keys, float((sets * keys).sum())]


def _width(plan: ColumnPlan) -> int:
    dtype = fixed_dtype(plan.spec.data_type)
    assert dtype is not None
    return dtype.itemsize
