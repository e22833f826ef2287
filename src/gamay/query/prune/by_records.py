"""Pruning at the broker: the segments of a table that may have matching rows, for thousands of segments at once.

Statistics of the segments are stored in arrays, one entry per segment, so that a filter costs a few array operations,
however many segments there are. A predicate can tell where a row *may* match and where *every* row must match, so that NOT
prunes too. Unknown statistics never prune.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from operator import and_, or_
from typing import Any, TypeAlias

import numpy as np

from gamay.base.arrays import Mask
from gamay.functions.expression import LiteralValue
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.types import DataType
from gamay.query.bind.binder import BoundQuery
from gamay.query.bind.predicate import And, Constant, Filter, In, Not, Or, Range
from gamay.query.prune.partition import partitions_of
from gamay.segment.spi import PartitionInfo, PartitionScheme, scheme_of

Counts: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Fields: TypeAlias = Mapping[str, FieldSpec]


# The statistics of one column in a segment's record: true bounds in the type's Python form (None: unknown), and partitions.
# There are millions of them, so they are tuples.
ColumnRange: TypeAlias = tuple[LiteralValue, LiteralValue, PartitionInfo | None]
_UNKNOWN: ColumnRange = (None, None, None)


@dataclass(frozen=True, slots=True)
class SegmentRecordStats:
    """The statistics of a segment's record in the metadata store. A consuming segment has no columns and no num_docs."""

    name: str
    num_docs: int | None
    columns: Mapping[str, ColumnRange]

    def for_pruners(self, pruners: Collection[str], time_column: str | None) -> "SegmentRecordStats":
        """Return the statistics for the given pruners of `routing.segmentPrunerTypes`: `empty`, `time` and `partition`."""
        columns = {
            name: (
                *((low, high) if "time" in pruners and name == time_column else (None, None)),
                partition if "partition" in pruners else None,
            )
            for name, (low, high, partition) in self.columns.items()
        }
        return SegmentRecordStats(self.name, self.num_docs if self.num_docs or "empty" in pruners else None, columns)


class PruningTable:
    """The segments of a table, by column; immutable, so that all queries can share it until a segment changes.

    total_docs: the total rows of the segments whose records have a count. every: the numbers of all segments.
    """

    def __init__(self, num_docs: Counts, non_empty: Mask, columns: "Mapping[str, _ColumnTable]") -> None:
        self._num_segments = len(num_docs)
        self._non_empty = None if non_empty.all() else non_empty
        self._columns = columns
        self._num_docs = num_docs.tolist()
        self.total_docs = sum(self._num_docs)
        self.every = range(len(num_docs))

    @classmethod
    def build(cls, records: Sequence[SegmentRecordStats]) -> "PruningTable":
        """Return the table of these segments; `prune` returns flags in their order."""
        non_empty = np.array([record.num_docs != 0 for record in records], np.bool_)
        names = dict.fromkeys(chain.from_iterable(record.columns for record in records))
        columns = {name: _ColumnTable([record.columns.get(name, _UNKNOWN) for record in records]) for name in names}
        return cls(np.array([record.num_docs or 0 for record in records], np.int64), non_empty, columns)

    def prune(self, bound: BoundQuery) -> Mask:
        """Return bool [number of segments]: True for the segments that must be queried."""
        may = self._may(bound.filter, bound.fields)
        return may if self._non_empty is None else may & self._non_empty

    def kept(self, bound: BoundQuery) -> list[int]:
        """Return the numbers of the segments that must be queried, ascending."""
        return self.kept_by(bound.filter, bound.fields)

    def kept_by(self, filter_: Filter, fields: Fields) -> list[int]:
        """Return the numbers of the segments that a filter leaves, ascending. fields: of the columns that are read."""
        may = self._may(filter_, fields)
        if self._non_empty is not None:
            may = may & self._non_empty
        places: list[int] = may.nonzero()[0].tolist()
        return places

    def docs_in(self, segments: Sequence[int]) -> int:
        """Return the number of rows of segments, given by their numbers; records without a count count as 0."""
        return self.total_docs if len(segments) == len(self.every) else sum(map(self._num_docs.__getitem__, segments))

    def _may(self, filter_: Filter, fields: Fields) -> Mask:
        """Return the segments in which a row may match."""
        if isinstance(filter_, In):
            table = self._table(filter_, fields)
            if table is None:
                return np.ones(self._num_segments, np.bool_)
            return table.may_be_in(filter_, fields[filter_.column].data_type)
        if isinstance(filter_, Range):
            table = self._table(filter_, fields)
            return np.ones(self._num_segments, np.bool_) if table is None else table.may_be_in_range(filter_)
        if isinstance(filter_, And):
            return reduce(and_, [self._may(part, fields) for part in filter_.parts])
        if isinstance(filter_, Or):
            return reduce(or_, [self._may(part, fields) for part in filter_.parts])
        if isinstance(filter_, Not):
            return ~self._must(filter_.part, fields)
        return np.full(self._num_segments, filter_.matches if isinstance(filter_, Constant) else True)

    def _table(self, predicate: In | Range, fields: Fields) -> "_ColumnTable | None":
        """Return the statistics of a predicate's column; None for a virtual one."""
        return self._columns.get(predicate.column) if predicate.column in fields else None

    def _must(self, filter_: Filter, fields: Fields) -> Mask:
        """Return the segments in which every row must match."""
        if isinstance(filter_, In | Range):
            table = self._table(filter_, fields)
            if table is None:
                return np.zeros(self._num_segments, np.bool_)
            return table.must_be_in_range(filter_) if isinstance(filter_, Range) else table.must_be_in(filter_)
        if isinstance(filter_, And):
            return reduce(and_, [self._must(part, fields) for part in filter_.parts])
        if isinstance(filter_, Or):
            return reduce(or_, [self._must(part, fields) for part in filter_.parts])
        if isinstance(filter_, Not):
            return ~self._may(filter_.part, fields)
        return np.full(self._num_segments, filter_.matches if isinstance(filter_, Constant) else False)


class _ColumnTable:
    """The bounds of one column in all segments, as positions on a number line.

    Numbers are their own positions. Texts, bytes and decimals are positioned by their rank among all bounds of the table; a
    value between two of them gets the position half way.
    """

    def __init__(self, ranges: Sequence[ColumnRange]) -> None:
        lows, highs, partitions = zip(*ranges, strict=True)
        types = set(map(type, lows)).union(map(type, highs))
        self._unknown = np.zeros(len(ranges), np.bool_)
        if type(None) in types:
            self._unknown[:] = [low is None or high is None for low, high in zip(lows, highs, strict=True)]
            types.remove(type(None))
        self._is_known = not self._unknown.any()
        self._line: list[Any] | None = None
        if not types or not types <= {int, float, bool}:
            self._line = sorted({value for value in (*lows, *highs) if value is not None})
        dtype = np.int64 if self._line is None and float not in types else np.float64
        self._lower, self._upper = self._positions(lows, dtype), self._positions(highs, dtype)
        self._is_float = dtype is np.float64 and self._line is None
        self._partitions = _PartitionTable(partitions)

    def _positions(self, values: Sequence[LiteralValue], dtype: type) -> "np.ndarray[Any, np.dtype[Any]]":
        """Return the positions of bounds; 0 for an unknown one."""
        if self._line is not None:
            places = {value: place for place, value in enumerate(self._line)}
            return np.array([0 if value is None else places[value] for value in values], dtype)
        array: np.ndarray[Any, np.dtype[Any]]
        array = np.array([0 if value is None else value for value in values] if self._unknown.any() else values, dtype)
        if dtype is np.float64:
            array[np.isnan(array)] = np.inf  # NaN is greater than all numbers
        return array

    def _position(self, value: Any) -> Any:
        if self._line is None:
            return value
        place = bisect_left(self._line, value)
        return place if place < len(self._line) and self._line[place] == value else place - 0.5

    def may_be_in_range(self, predicate: Range) -> Mask:
        inside: Mask | None = None
        if predicate.lower is not None:
            lower = self._position(predicate.lower)
            inside = self._upper >= lower if predicate.lower_inclusive else self._upper > lower
            if self._is_float:
                inside |= np.isinf(self._upper)  # infinity may stand for NaN
        if predicate.upper is not None:
            upper = self._position(predicate.upper)
            below = self._lower <= upper if predicate.upper_inclusive else self._lower < upper
            inside = below if inside is None else inside & below
        if inside is None:
            return np.ones(len(self._unknown), np.bool_)
        return inside if self._is_known else inside | self._unknown

    def must_be_in_range(self, predicate: Range) -> Mask:
        must = ~self._unknown
        if predicate.lower is not None:
            lower = self._position(predicate.lower)
            must &= self._lower >= lower if predicate.lower_inclusive else self._lower > lower
        if predicate.upper is not None:
            upper = self._position(predicate.upper)
            must &= (self._upper <= upper if predicate.upper_inclusive else self._upper < upper) & np.isfinite(self._upper)
        return must

    def may_be_in(self, predicate: In, data_type: DataType) -> Mask:
        spans = self._spans(predicate) if self._is_known else self._spans(predicate) | self._unknown
        held = self._partitions.may_hold(predicate.values, data_type)
        return spans if held is None else spans & held

    def must_be_in(self, predicate: In) -> Mask:
        must: Mask = ~self._unknown & (self._lower == self._upper) & self._spans(predicate) & np.isfinite(self._upper)
        return must

    def _spans(self, predicate: In) -> Mask:
        """Return the segments in which a value is between the bounds."""
        if len(predicate.values) == 1:
            place = self._position(predicate.values[0])
            return np.ones(len(self._lower), np.bool_) if place != place else (self._lower <= place) & (self._upper >= place)
        places = np.sort(np.array([self._position(value) for value in predicate.values]))
        if places.dtype.kind == "f" and np.isnan(places).any():
            return np.ones(len(self._lower), np.bool_)
        return np.searchsorted(places, self._lower, "left") < np.searchsorted(places, self._upper, "right")


class _PartitionTable:
    """The segments that hold each partition of one column, for each partitioning scheme that occurs."""

    def __init__(self, infos: Sequence[PartitionInfo | None]) -> None:
        self._unpartitioned = np.array([info is None for info in infos], np.bool_)
        members: dict[PartitionScheme, dict[int, list[int]]] = {}
        for segment, info in enumerate(infos):
            if info is not None:
                by_partition = members.setdefault(scheme_of(info), {})
                for partition in info.partitions:
                    by_partition.setdefault(partition, []).append(segment)
        self._members = {
            scheme: {partition: np.array(segments) for partition, segments in by_partition.items()}
            for scheme, by_partition in members.items()
        }

    def may_hold(self, values: Sequence[LiteralValue], data_type: DataType) -> Mask | None:
        """Return the segments that may hold any of the values; None if partitions cannot tell."""
        if not self._members:
            return None
        may = self._unpartitioned.copy()
        for scheme, by_partition in self._members.items():
            for partition in partitions_of(scheme, values, data_type):
                if partition is None:
                    return None
                if partition in by_partition:
                    may[by_partition[partition]] = True
        return may
