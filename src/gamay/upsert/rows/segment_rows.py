"""Extraction of keys, comparison values and deletions from the rows of segments and batches."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from gamay.base.arrays import Array
from gamay.functions.vector import Vector
from gamay.kernels.keys.table import ABSENT
from gamay.kernels.rows.doc_bits import count_docs
from gamay.model.schema.schema import FieldSpec
from gamay.model.types import DataType
from gamay.segment.read.visible import VisibleDocs
from gamay.segment.spi import Segment
from gamay.upsert.config.settings import UpsertSettings
from gamay.upsert.index.comparing import beyond, ordered
from gamay.upsert.index.key_index import BATCH_ROWS, Keys, NewRows
from gamay.upsert.rows.key_files import StoredKeys
from gamay.upsert.rows.valid_docs import SegmentDocs


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a segment. docs: int64 [n]; values: int64 [n, comparison columns]; deleted: uint8 [n], which delete."""

    docs: Array
    keys: Keys
    values: Array
    deleted: Array


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The stored valid docs of a segment. valid, queryable: the valid rows and those of them visible to queries
    (None: all); keys: of its rows, if stored. created_ms: as in `spi.SegmentSource`.
    """

    segment: Segment
    created_ms: int
    valid: BitMap
    queryable: "BitMap | None"
    keys: "StoredKeys | None"


def snapshot_rows(
    settings: UpsertSettings, segment: Segment, valid: BitMap, queryable: "BitMap | None", stored: "StoredKeys | None"
) -> Iterator[Rows]:
    """Yield the rows of a snapshot, ordered by their keys' hashes if those are stored, else by doc id."""
    docs = SegmentDocs(segment.num_docs, queryable is not None)
    docs.load(valid, queryable)
    deleted = ~docs.snapshot().mask
    is_valid = docs.snapshot(with_deleted=True).mask
    for rows, keys, values in _kept_rows(settings, segment, docs.snapshot(with_deleted=True), stored):
        chosen = np.flatnonzero(is_valid[rows])
        rows = rows[chosen]
        yield Rows(rows.astype(np.int64), keys.at(chosen), values[chosen], deleted[rows].astype(np.uint8))


def new_rows(
    settings: UpsertSettings, segment: Segment, ordinal: int, docs: SegmentDocs, stored: "StoredKeys | None"
) -> Iterator[NewRows]:
    """Yield the valid rows of a segment, whose keys are in no other segment, for `KeyIndex.build`."""
    valid, queryable = docs.snapshot(with_deleted=True), docs.snapshot()
    for rows, keys, values in _kept_rows(settings, segment, valid, stored):
        yield NewRows(ordinal, rows, keys, np.ascontiguousarray(values), valid.bits, queryable.bits)


def _kept_rows(
    settings: UpsertSettings, segment: Segment, valid: VisibleDocs, stored: "StoredKeys | None"
) -> Iterator[tuple[Array, Keys, Array]]:
    """Yield (doc ids int32 [n], keys, comparison values int64 [n, columns]) of the valid rows, and possibly of others.

    Keys are read from the segment unless all those of valid rows are stored.
    """
    known = stored is not None and len(stored) and stored.docs.max() < segment.num_docs
    if known and stored is not None and count_docs(valid.bits, stored.docs) == valid.count:
        for start in range(0, len(stored), BATCH_ROWS):
            part = stored.part(start, min(start + BATCH_ROWS, len(stored)))
            yield part.docs, part.keys, part.comparisons
        return
    for start in range(0, valid.count, BATCH_ROWS):
        rows = valid.docs[start : start + BATCH_ROWS]
        yield rows, settings.encoder.at(segment, rows), settings.comparison.at(segment, rows)


def all_rows(settings: UpsertSettings, segment: Segment) -> Iterator[Rows]:
    """Yield the rows of a segment in batches."""
    for start in range(0, segment.num_docs, BATCH_ROWS):
        stop = min(start + BATCH_ROWS, segment.num_docs)
        docs = np.arange(start, stop)
        keys = settings.encoder.of_segment(segment, start, stop)
        values = settings.comparison.of_segment(segment, start, stop)
        yield Rows(docs, keys, values, deletes_of(segment, settings.delete_column, docs.astype(np.int32)))


def is_beyond(settings: UpsertSettings, segment: Segment, watermark: int) -> bool:
    """Whether all rows of a segment are beyond metadataTTL."""
    comparison = settings.comparison
    if settings.ttl <= 0 or watermark == ABSENT or not segment.num_docs:
        return False
    greatest = segment.column(comparison.fields[0].name).stats.maximum
    if greatest is None:
        return False
    return bool(beyond(ordered(np.array([greatest])), watermark, settings.ttl, comparison.is_float)[0])


def stable_order(vector: Vector) -> Array:
    """Sort the rows stably by their values: int64 [n]."""
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
    """Return which rows of a batch delete their key: uint8 [n]; a null does not."""
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
