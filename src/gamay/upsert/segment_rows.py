"""The rows of segments and batches as the keys of a partition take them: keys, comparison values, deletions."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from gamay.functions.vector import Vector
from gamay.model.schema import FieldSpec
from gamay.model.types import DataType
from gamay.segment.spi import Segment
from gamay.upsert.comparing import ordered
from gamay.upsert.key_files import StoredKeys
from gamay.upsert.key_index import BATCH_ROWS, Keys
from gamay.upsert.settings import UpsertSettings

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a segment. docs: int64 [n]; values: int64 [n, comparison columns]; deleted: uint8 [n], which delete."""

    docs: Array
    keys: Keys
    values: Array
    deleted: Array


def snapshot_rows(
    settings: UpsertSettings, segment: Segment, valid: BitMap, queryable: "BitMap | None", stored: "StoredKeys | None",
    reserve: Callable[[int], None],
) -> Iterator[Rows]:  # fmt: skip
    """Yield the rows of a snapshot: in the order of their keys' hashes where those are stored, else of their doc ids.

    reserve: is told how many keys come in the order of their hashes, before the first.
    """
    docs = np.asarray(valid.to_array()).view(np.int32)
    deleted = np.zeros(segment.num_docs, np.uint8)
    if queryable is not None:
        deleted[np.asarray((valid - queryable).to_array())] = 1
    counts = np.zeros(segment.num_docs, np.bool_)
    counts[docs] = True
    found = np.empty(0, np.bool_) if stored is None else counts[stored.docs]
    if stored is not None and np.count_nonzero(found) == len(docs):
        reserve(len(docs))
        for start in range(0, len(stored), BATCH_ROWS):
            part = stored.part(start, min(start + BATCH_ROWS, len(stored)))
            chosen = np.flatnonzero(found[start : start + BATCH_ROWS])
            if len(chosen) < len(part):
                part = part.at(chosen)
            yield Rows(part.docs.astype(np.int64), part.keys, part.comparisons, deleted[part.docs])
        return
    for start in range(0, len(docs), BATCH_ROWS):
        rows = docs[start : start + BATCH_ROWS]
        keys, values = settings.encoder.at(segment, rows), settings.comparison.at(segment, rows)
        yield Rows(rows.astype(np.int64), keys, values, deleted[rows])


def all_rows(settings: UpsertSettings, segment: Segment) -> Iterator[Rows]:
    """Yield the rows of a segment in batches."""
    for start in range(0, segment.num_docs, BATCH_ROWS):
        stop = min(start + BATCH_ROWS, segment.num_docs)
        docs = np.arange(start, stop)
        keys = settings.encoder.of_segment(segment, start, stop)
        values = settings.comparison.of_segment(segment, start, stop)
        yield Rows(docs, keys, values, deletes_of(segment, settings.delete_column, docs.astype(np.int32)))


def stable_order(vector: Vector) -> Array:
    """Return the rows in the order of their values, equal ones as they are: int64 [n]."""
    if not isinstance(vector.values, np.ndarray):
        order: Array = pc.sort_indices(vector.values.view(pa.binary())).to_numpy().astype(np.int64)
        return order
    if vector.values.dtype.hasobject:
        return np.array(sorted(range(len(vector)), key=vector.values.__getitem__), np.int64)
    return np.argsort(ordered(vector.values), kind="stable")


def _truth(values: Any, data_type: DataType) -> Array:
    if data_type.is_text:
        is_true: Array = pc.equal(pc.ascii_lower(values), "true").to_numpy(zero_copy_only=False)
        return is_true.astype(np.uint8)
    if data_type is DataType.BIG_DECIMAL:
        return np.array([value != 0 for value in values], np.uint8)
    numbers: Array = np.asarray(values)
    return np.not_equal(numbers, 0).astype(np.uint8)


def deletes_in(batch: pa.RecordBatch, spec: FieldSpec | None) -> Array:
    """Return which rows of a batch delete their key: uint8 [n]; null does not."""
    if spec is None:
        return np.zeros(batch.num_rows, np.uint8)
    array = batch.column(spec.name)
    if spec.data_type.is_text:
        return _truth(array.fill_null(""), spec.data_type)
    kind = pa.float64() if spec.data_type is DataType.BIG_DECIMAL else array.type
    filled = pc.fill_null(array.cast(kind), pa.scalar(False if pa.types.is_boolean(kind) else 0, kind))
    return _truth(filled.to_numpy(zero_copy_only=False), DataType.BOOLEAN)


def deletes_of(segment: Segment, spec: FieldSpec | None, docs: "np.ndarray[Any, np.dtype[np.int32]]") -> Array:
    """Return which rows of a segment delete their key: uint8 [n]; a null does not."""
    if spec is None or spec.name not in segment.column_names:
        return np.zeros(len(docs), np.uint8)
    column = segment.column(spec.name)
    vector: Vector = column.values_at(docs)
    flags = _truth(vector.values, spec.data_type)
    if column.null_docs:
        flags[np.isin(docs, np.asarray(column.null_docs.to_array()))] = 0
    return flags
