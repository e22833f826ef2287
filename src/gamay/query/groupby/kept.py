"""Totals of all valid rows of a segment, cached from one query over an upsert table to the next.

Aggregates that metadata answers for an ordinary segment require reading rows if not all of them are valid. The result is
cached with the bits of the valid rows. If the bits are the same, it is the answer; if few have changed, only the changed
rows are read. Integers are added and subtracted exactly, and a bound holds unless its row became invalid. Sums of doubles
are not updated that way, as they depend on the order of the additions.

kept_partial(aggregate, segment, name) -> partial of one group, or None when rows must be read
keep_partial(aggregate, segment, name, partial)
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.aggregate.lookup import INTEGERS, numbers
from gamay.functions.aggregate.totals.numeric import Numeric
from gamay.functions.aggregate.totals.totals import TotalsPartial
from gamay.functions.aggregate_spi import Aggregate, Partial
from gamay.query.view.virtual import QuerySegment
from gamay.segment.read.visible import VisibleSegment
from gamay.segment.spi import Column, DocIds

_LONG_MAX = (1 << 63) - 1
# if more than one row in this many changed, all rows are read again
_ROWS_PER_CHANGE = 64
_CHANGES_MIN = 256


@dataclass(frozen=True, slots=True)
class _Kept:
    bits: Array
    partial: TotalsPartial


def kept_partial(aggregate: Aggregate, segment: QuerySegment, name: str) -> TotalsPartial | None:
    """Return an aggregate of a column over all valid rows, if the cache can answer it."""
    seen = _seen(aggregate, segment, name)
    if seen is None or not isinstance(aggregate, Numeric):
        return None
    known = seen.kept.get(_key(aggregate, name))
    if known is None:
        return None
    bits = seen.visible.bits
    if known.bits is bits:
        return _copy(known.partial)
    docs = _changed(known.bits, bits, segment.num_docs)
    if docs is None:
        return None
    partial = _carried_on(aggregate, known.partial, segment.column(name), docs, bits)
    if partial is not None:
        seen.kept[_key(aggregate, name)] = _Kept(bits, _copy(partial))
    return partial


def keep_partial(aggregate: Aggregate, segment: QuerySegment, name: str, partial: Partial) -> None:
    """Cache an aggregate of a column over all valid rows, if it can be reused."""
    seen = _seen(aggregate, segment, name)
    if seen is not None and isinstance(aggregate, Numeric):
        seen.kept[_key(aggregate, name)] = _Kept(seen.visible.bits, _copy(partial))


def _seen(aggregate: Aggregate, segment: QuerySegment, name: str) -> VisibleSegment | None:
    """Return the sealed segment behind a query's segment, if the aggregate consists of totals of a stored column."""
    seen = segment.keeping
    if seen is None or not isinstance(aggregate, Numeric) or name not in seen.column_names:
        return None
    return seen if aggregate.argument_type is not None and seen.column(name).single_value else None


def _key(aggregate: Numeric, name: str) -> tuple[Any, ...]:
    return aggregate.needs.value, aggregate.argument_type, name


def _copy(partial: TotalsPartial) -> TotalsPartial:
    arrays = (partial.counts, partial.sums, partial.lows, partial.highs)
    return TotalsPartial(*(None if array is None else array.copy() for array in arrays))


def _changed(old: Array, new: Array, num_docs: int) -> "DocIds | None":
    """Return the docs that are in only one of two sets, ascending; None if there are many."""
    if len(old) != len(new):
        return None
    different = np.flatnonzero(old != new)
    most = max(num_docs // _ROWS_PER_CHANGE, _CHANGES_MIN)
    if len(different) > most:
        return None
    flipped = np.bitwise_xor(old[different], new[different], dtype=np.uint8)
    flags = np.unpackbits(flipped, bitorder="little").reshape(-1, 8)
    rows, places = np.nonzero(flags)
    docs = different[rows] * 8 + places
    docs = docs[docs < num_docs]
    return docs.astype(np.int32) if len(docs) <= most else None


def _carried_on(aggregate: Numeric, known: TotalsPartial, column: Column, docs: DocIds, bits: Array) -> TotalsPartial | None:
    """Return totals updated for rows that became valid or invalid; None if the rows must be read."""
    if aggregate.argument_type not in INTEGERS or column.data_type not in INTEGERS:
        return None
    vector = column.values_at(docs)
    values = numbers(vector.type, vector.values).astype(np.int64)
    comes = (bits[docs >> 3] >> (docs & 7)) & 1 == 1
    counts = sums = lows = highs = None
    if known.counts is not None:
        counts = known.counts + 2 * int(np.count_nonzero(comes)) - len(docs)
    if known.sums is not None:
        if known.sums.dtype != np.int64:
            return None
        total = int(known.sums[0]) + sum(values[comes].tolist()) - sum(values[~comes].tolist())
        if abs(total) > _LONG_MAX:
            return None
        sums = np.array([total], np.int64)
    doubles = values.astype(np.float64)
    if known.lows is not None:
        if (doubles[~comes] <= known.lows[0]).any():
            return None
        lows = np.minimum(known.lows, doubles[comes].min(initial=np.inf))
    if known.highs is not None:
        if (doubles[~comes] >= known.highs[0]).any():
            return None
        highs = np.maximum(known.highs, doubles[comes].max(initial=-np.inf))
    return TotalsPartial(counts, sums, lows, highs)
