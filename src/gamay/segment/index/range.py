"""Range index: docs in buckets of adjacent values, with about the same number of docs in each.

    range.starts range.counts range.sets := one set of docs for each bucket, see gamay.segment.index.bitmaps
    range.bounds := key[num_buckets + 1]: bucket b holds the keys from bounds[b], below bounds[b + 1]; the last also its end

A key is a dictionary id (i32), or for a raw column the value itself. A query takes all docs of the buckets within its
bounds, and checks the rows of the at most two buckets that it intersects, so its answer is exact. At two bytes per doc or
less it is smaller than bit slices, and a narrow range touches few buckets.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from pyroaring import BitMap

from gamay.functions.expression import LiteralValue
from gamay.kernels.encode.encoding import mark_lists
from gamay.segment.encode.checks import BufferChecker
from gamay.segment.encode.dictionary import SortedDictionary
from gamay.segment.encode.format import BufferFile, BufferMeta, BufferWriter
from gamay.segment.encode.metadata import ColumnMeta, Encoding
from gamay.segment.encode.storage_form import fixed_dtype
from gamay.segment.index.bitmaps import DocSets, bitmap_of, docs_by_key, write_sets
from gamay.segment.index.spi import IndexedRows, StoredColumn
from gamay.segment.spi import INVERTED, RANGE, Ids

_BOUNDS = f"{RANGE.name}.bounds"
_BUCKETS_MAX = 256
_DOCS_PER_BUCKET_MIN = 2048


class RangeType:
    """Implements `ColumnIndexType`. A sorted index makes a range index of ids redundant."""

    key = RANGE

    def write(self, writer: BufferWriter, rows: IndexedRows) -> list[BufferMeta]:
        if not rows.config.range:
            return []
        if rows.ids is not None and rows.counts is not None:
            return [] if rows.is_sorted else _write_ids(writer, rows.ids, rows.offsets, rows.counts)
        return _write_values(writer, rows.values, rows.offsets) if isinstance(rows.values, np.ndarray) else []

    def read(self, file: BufferFile, buffers: dict[str, BufferMeta], column: StoredColumn) -> "BucketedRange":
        inverted = None if column.has_forward else column.index(INVERTED)
        dtype = fixed_dtype(column.data_type) if column.dictionary is None else np.int32
        bounds, docs_of_ids = file.array(buffers[_BOUNDS], dtype), None if inverted is None else inverted.docs_of_any
        sets = DocSets(file, buffers, RANGE.name)
        return BucketedRange(sets, bounds, column.stored_at, column.dictionary, docs_of_ids)

    def check(self, checker: BufferChecker, meta: ColumnMeta, num_docs: int) -> None:
        is_encoded = meta.encoding is Encoding.DICTIONARY
        bounds = checker.array(_BOUNDS, np.int32 if is_encoded else fixed_dtype(meta.data_type) or np.uint8)
        checker.expect(_BOUNDS, (bounds[1:] >= bounds[:-1]).all(), "bounds do not ascend")
        if is_encoded and len(bounds):
            is_inside = bounds[0] >= 0 and bounds[-1] <= (meta.stats.cardinality or 0)
            checker.expect(_BOUNDS, is_inside, "bounds beyond the dictionary")
        checker.sets(RANGE.name, max(0, len(bounds) - 1), num_docs)


# Build


def _write_ids(writer: BufferWriter, ids: Ids, offsets: "Ids | None", counts: Ids) -> list[BufferMeta]:
    num_buckets = bucket_count(len(ids))
    before = np.cumsum(counts) - counts
    bucket_of_id = before * num_buckets // max(1, len(ids))
    first_ids = np.flatnonzero(np.diff(bucket_of_id, prepend=-1))
    bounds = np.append(first_ids, len(counts)).astype(np.int32)
    bucket_of_id = np.repeat(np.arange(len(first_ids)), np.diff(bounds)).astype(np.uint16)
    return _write(writer, bucket_of_id[ids], offsets, bounds, np.dtype("<i4"))


def _write_values(writer: BufferWriter, values: Ids, offsets: "Ids | None") -> list[BufferMeta]:
    num_buckets = bucket_count(len(values))
    at = np.arange(num_buckets) * len(values) // num_buckets
    ordered = np.sort(values)
    lower = np.unique(ordered[at]) if len(values) else ordered
    bounds = np.append(lower, ordered[-1:])
    buckets = (np.searchsorted(lower, values, side="right") - 1).astype(np.uint16)
    return _write(writer, buckets, offsets, bounds, values.dtype)


def bucket_count(num_values: int) -> int:
    """Return the maximum number of buckets for a number of values."""
    return max(1, min(_BUCKETS_MAX, num_values // _DOCS_PER_BUCKET_MIN))


def _write(
    writer: BufferWriter, buckets: Ids, offsets: "Ids | None", bounds: Ids, dtype: "np.dtype[Any]"
) -> list[BufferMeta]:
    num_buckets = max(0, len(bounds) - 1)
    starts, docs = docs_by_key(buckets, num_buckets, offsets)
    return [*write_sets(writer, RANGE.name, starts, docs), writer.add(_BOUNDS, [bounds.astype(dtype)])]


# Read


class KeysAt(Protocol):
    """Reader of rows: returns the keys of docs (ascending), and int32 offsets for multi-value rows."""

    def __call__(self, docs: Ids, /) -> "tuple[Ids, Ids | None]": ...


class BucketedRange:
    """Implements `segment.spi.RangeIndex`."""

    def __init__(
        self,
        sets: DocSets,
        bounds: Ids,
        keys_at: KeysAt,
        dictionary: SortedDictionary | None,
        docs_of_ids: "Callable[[Ids], BitMap] | None" = None,
    ) -> None:
        """docs_of_ids: returns the docs of dictionary ids, for a column whose rows are not stored."""
        self._sets = sets
        self._bounds = bounds
        self._keys_at = keys_at
        self._dictionary = dictionary
        self._docs_of_ids = docs_of_ids

    def docs_between(
        self,
        lower: LiteralValue,
        upper: LiteralValue,
        lower_inclusive: bool,
        upper_inclusive: bool,
        docs_max: int | None = None,
    ) -> BitMap | None:
        """Return the docs that hold a value between the bounds; None is unbounded. docs_max: maximum number of docs in the
        buckets read; beyond it, return None."""
        if len(self._sets) == 0:
            return BitMap()
        if self._dictionary is not None:
            first, last = self._dictionary.id_range(lower, upper, lower_inclusive, upper_inclusive)
            lower_buckets, upper_buckets = self._bounds[:-1], self._bounds[1:] - 1
            touched = (upper_buckets >= first) & (lower_buckets < last)
            whole = (lower_buckets >= first) & (upper_buckets < last)
            if self._docs_of_ids is not None:
                cut = [
                    np.arange(max(first, low), min(last, high + 1))
                    for low, high in zip(
                        lower_buckets[touched & ~whole].tolist(), upper_buckets[touched & ~whole].tolist(), strict=True
                    )
                ]
                return self._sets.union(np.flatnonzero(whole)) | self._docs_of_ids(
                    np.concatenate([*cut, np.empty(0, np.int64)])
                )
            return self._collect(touched, whole, lambda keys: (keys >= first) & (keys < last), docs_max)

        def inside(keys: Ids) -> Ids:
            found = np.ones(len(keys), np.bool_)
            if lower is not None:
                found &= keys >= lower if lower_inclusive else keys > lower
            if upper is not None:
                found &= keys <= upper if upper_inclusive else keys < upper
            return found

        # A bucket excludes its upper bound, except the last one: including it makes `whole` conservative, never wrong.
        low_in, high_in = inside(self._bounds[:-1]), inside(self._bounds[1:])
        starts_below = np.ones(len(self._sets), np.bool_)
        if upper is not None:
            starts_below = self._bounds[:-1] <= upper
        ends_above = np.ones(len(self._sets), np.bool_)
        if lower is not None:
            ends_above = self._bounds[1:] >= lower
        return self._collect(starts_below & ends_above, low_in & high_in, inside, docs_max)

    def _collect(self, touched: Ids, whole: Ids, inside: Callable[[Ids], Ids], docs_max: int | None) -> BitMap | None:
        """Union the `whole` buckets, and of the others `touched` the docs whose keys are `inside`."""
        if docs_max is not None and int(self._sets.counts[touched].sum(dtype=np.int64)) > docs_max:
            return None
        found = self._sets.union(np.flatnonzero(whole))
        cut = self._sets.union(np.flatnonzero(touched & ~whole))
        if cut:
            docs = np.asarray(cut.to_array(), np.int32)
            keys, offsets = self._keys_at(docs)
            holds = inside(keys)
            if offsets is not None:
                in_row = np.zeros(len(docs), np.bool_)
                mark_lists(holds, offsets, in_row)
                holds = in_row
            found |= bitmap_of(docs[holds])
        return found
