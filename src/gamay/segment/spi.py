"""The one interface of segments and columns; the query engine never asks which kind of segment it has.

Doc ids are 0 … num_docs - 1. Row ranges are half open: [start, stop). Everything returned is read-only and may point into
a memory map, so it must not outlive the segment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from pyroaring import BitMap

from gamay.functions.expression import Expression, LiteralValue
from gamay.functions.frame import FramedVector
from gamay.functions.search.score import Corpus
from gamay.functions.search.words import Analysis
from gamay.functions.vector import Vector
from gamay.model.types import DataType
from gamay.segment.zones import Zones

Ids: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
DocIds: TypeAlias = "np.ndarray[Any, np.dtype[np.int32]]"
Side: TypeAlias = Literal["left", "right"]
T = TypeVar("T")
PartitionScheme: TypeAlias = tuple[str, int, tuple[tuple[str, str], ...]]
"""A partition function: its name, the number of partitions, its configuration."""


@dataclass(frozen=True)
class PartitionInfo:
    """How a column's values are partitioned, and which partitions this segment holds."""

    function_name: str
    num_partitions: int
    partitions: tuple[int, ...]
    function_config: Mapping[str, str]

    @cached_property
    def scheme(self) -> PartitionScheme:
        """What `scheme_of` returns, kept, for each look-up of a value asks for it."""
        return scheme_of(self)


def scheme_of(info: PartitionInfo) -> PartitionScheme:
    """Return how a segment's column is partitioned, as a key."""
    return info.function_name.lower(), info.num_partitions, tuple(sorted(info.function_config.items()))


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """What is known of a column without reading it.

    minimum, maximum: in the type's Python form (int, float, str, bool, bytes, Decimal; TIMESTAMP int milliseconds), None
    when unknown or the segment is empty; they are true bounds, never truncated.
    total: the sum of all values, for numeric types: int for INT and LONG (exact), float for FLOAT and DOUBLE; else None.
    num_values: number of values over all rows (num_docs for single values).
    """

    cardinality: int | None
    minimum: LiteralValue
    maximum: LiteralValue
    total: int | float | None
    is_sorted: bool
    num_values: int
    max_values_per_row: int
    num_nulls: int
    partition: PartitionInfo | None


class Dictionary(Protocol):
    """Distinct values with dense ids from 0.

    Every entry occurs in some row of the segment. In an immutable segment the values ascend (text by UTF-8 bytes, bytes
    unsigned, NaN last), so order of ids is order of values and `is_sorted` is true; in a consuming segment ids are in order
    of arrival.
    """

    @property
    def data_type(self) -> DataType: ...
    @property
    def is_sorted(self) -> bool: ...

    def __len__(self) -> int: ...

    @property
    def values(self) -> Vector:
        """All values, by id."""
        ...

    def id_of(self, value: LiteralValue) -> int:
        """Return the id of a value of the column's type, or -1 when it does not occur."""
        ...

    def ids_of(self, values: Sequence[LiteralValue]) -> Ids:
        """Return the ids of those values that occur, ascending, each once: int32 [k]."""
        ...

    def id_range(
        self, lower: LiteralValue, upper: LiteralValue, lower_inclusive: bool, upper_inclusive: bool
    ) -> tuple[int, int]:
        """Return [first, last) of the ids between the bounds; None is no bound. Only when `is_sorted`."""
        ...


class SortedIndex(Protocol):
    """For a column whose rows ascend: where each dictionary id starts."""

    @property
    def starts(self) -> "np.ndarray[Any, np.dtype[np.int32]]":
        """int32 [cardinality + 1]: id d occupies docs [starts[d], starts[d + 1])."""
        ...


class SortedValues(Protocol):
    """For a raw fixed-width column whose rows ascend."""

    def search(self, value: Any, side: Side) -> int:
        """Return the first doc whose value is not below `value` ("left") or is above it ("right"); num_docs when none is.

        value: a NumPy scalar of the column's dtype.
        """
        ...

    def in_memory(self) -> "Ids | None":
        """Return all values as they lie in memory; None when they would have to be decompressed."""
        ...


class InvertedIndex(Protocol):
    """For each dictionary id, the docs that hold it."""

    def docs(self, dict_id: int) -> BitMap:
        """Return the docs of one id."""
        ...

    def docs_of_any(self, dict_ids: Ids) -> BitMap:
        """Return the union of the docs of several ids."""
        ...


class RangeIndex(Protocol):
    """Exact answers for ranges on a single-value column, dictionary-encoded (ids) or raw numeric (values)."""

    def docs_between(
        self,
        lower: LiteralValue,
        upper: LiteralValue,
        lower_inclusive: bool,
        upper_inclusive: bool,
        docs_max: int | None = None,
    ) -> BitMap | None:
        """Return the docs whose value lies between the bounds; None is no bound.

        docs_max: how many there may be, about, for them to be found; returns None for more.
        """
        ...


class BloomFilter(Protocol):
    """Tells that a value certainly does not occur in the segment."""

    def might_contain(self, value: LiteralValue) -> bool:
        """Return False only when no row holds the value."""
        ...


@dataclass(frozen=True, eq=False)
class IndexKey(Generic[T]):
    """Key by which a column is asked for an index among its buffers.

    name: what the buffers' names begin with, and what `segment show`, sizes and the option `skipIndexes` call the index.
    """

    name: str

    @cached_property
    def lookup(self) -> str:
        """What EXPLAIN calls an answer of the index."""
        return f"{self.name}_index"

    def of(self, index: Any) -> T | None:
        """Return an index of this key, as its type."""
        found: T | None = index
        return found


SORTED: IndexKey[SortedIndex] = IndexKey("sorted")
INVERTED: IndexKey[InvertedIndex] = IndexKey("inverted")
RANGE: IndexKey[RangeIndex] = IndexKey("range")
BLOOM: IndexKey[BloomFilter] = IndexKey("bloom")
NULLS: IndexKey[BitMap] = IndexKey("null")


@dataclass(frozen=True, slots=True)
class Found:
    """What an index knows of a condition.

    docs: of the rows below `covered`, those that satisfy it; unless `is_exact` others may be among them, which are then
    tested one by one. covered: the rows from there on are not in the index and must be scanned; None when all are in it.
    unsure: which of the docs have to be tested, where they are not exact and the index can tell; None: all of them.
    """

    docs: BitMap
    is_exact: bool = True
    covered: int | None = None
    unsure: BitMap | None = None


@dataclass(frozen=True, slots=True)
class NearestSearch:
    """A search for the `count` rows whose vectors are nearest to one.

    vector: float32 [dimension]. distance: one of `gamay.model.index.vector_index.DISTANCES`. candidates: so many rows are to
    be found. probes: lists of an IVF index that are read; effort: nodes of a graph that are kept in sight; None: as many as
    the index found to be enough. visible: bool [num_docs], the valid rows; None when all do.
    """

    vector: "np.ndarray[Any, np.dtype[np.float32]]"
    distance: str
    count: int
    candidates: int
    probes: int | None = None
    effort: int | None = None
    visible: "np.ndarray[Any, np.dtype[np.bool_]] | None" = None


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Valid rows and are likely to include the nearest ones, not fewer than are asked for unless these are all.

    docs: int32 [n], ascending. vectors: theirs, float32 [n, dimension]. covered: as in `Found`.
    """

    docs: DocIds
    vectors: "np.ndarray[Any, np.dtype[np.float32]]"
    covered: int | None = None


@dataclass(frozen=True, slots=True)
class IndexedTexts:
    """What an index knows of the words of a column's texts. covered: as in `Found`."""

    corpus: Corpus
    covered: int | None = None


class SecondaryIndex:
    """One open index of a segment's column or columns. An index overrides the questions that it can answer.

    kind: as in `gamay.model.table.secondary_indexes.SECONDARY_KINDS`. combines: the columns whose ids `combined` takes; none
    of an index that does not answer it. Any number of threads ask at once.
    """

    kind: str
    combines: tuple[str, ...] = ()

    def find(self, condition: Expression) -> Found | None:
        """Return the rows for which a boolean expression over the columns holds; None when the index does not tell."""
        return None

    def entries(self, condition: Expression) -> "Ids | None":
        """Return the ids of the dictionary entries that can satisfy a condition: int32, ascending; None when any may."""
        return None

    def combined(self, ids: Sequence[Ids]) -> BitMap | None:
        """Return the rows that have one of some dictionary ids in each of the columns `combines`; None without such columns.

        ids: of each column, ascending.
        """
        return None

    def nearest(self, search: NearestSearch) -> Neighbours | None:
        """Return rows near a vector; None where every vector is better looked at."""
        return None

    def texts(self, column: str, analysis: Analysis) -> IndexedTexts | None:
        """Return the words of a single-value column's texts; None where they have to be read."""
        return None


@runtime_checkable
class Grows(Protocol):
    """A column of a consuming segment. Later views have the same rows and entries first, and others behind them."""

    @property
    def whole(self) -> object:
        """What all views of the column have in common, to know by; it lives as long as one of them."""
        ...


@runtime_checkable
class KnowsMillis(Protocol):
    """A column of TIMESTAMP that can be read as milliseconds since the epoch."""

    @property
    def millis(self) -> "Column":
        """A column of LONG with the same rows and indexes, under another name."""
        ...


@runtime_checkable
class KnowsFrame(Protocol):
    """A column whose rows may be stored in frame of reference."""

    @property
    def framed(self) -> FramedVector | None:
        """The values of all rows; None where they are stored in another form."""
        ...


@runtime_checkable
class KnowsLengths(Protocol):
    """A column that may know how long its texts are without reading them."""

    def ascii_lengths(self, start: int, stop: int) -> "Ids | None":
        """Return the lengths of the texts of rows [start, stop), which are ASCII throughout; None when that is not known."""
        ...

    def ascii_lengths_at(self, docs: DocIds) -> "Ids | None":
        """Do what `ascii_lengths` does for rows `docs`, ascending."""
        ...


class IndexSource(Protocol):
    """The rows of a column that an index is built of: those of a sealed segment, or a block of a consuming one's.

    A block has no dictionary; its docs are numbered from 0.
    """

    @property
    def name(self) -> str: ...
    @property
    def data_type(self) -> DataType: ...
    @property
    def single_value(self) -> bool: ...
    @property
    def num_docs(self) -> int: ...
    @property
    def dictionary(self) -> Dictionary | None: ...
    @property
    def null_docs(self) -> BitMap | None: ...

    def values(self, start: int, stop: int) -> Vector:
        """Return the values of rows [start, stop), decoded; of a null row what the column stores in its place."""
        ...

    def ids(self, start: int, stop: int) -> Ids:
        """Return the dictionary ids of rows [start, stop). Only with a dictionary."""
        ...


class Column(IndexSource, Protocol):
    """One column of a segment."""

    @property
    def stats(self) -> ColumnStats: ...
    @property
    def sorted_values(self) -> SortedValues | None: ...

    @property
    def zones(self) -> Zones | None:
        """The bounds of single values zone by zone: of ids that ascend with the values, or of numbers; else None."""
        ...

    def index(self, key: IndexKey[T]) -> T | None:
        """Return an index among the column's buffers; None when it has none of this key."""
        ...

    @property
    def indexes(self) -> Sequence[SecondaryIndex]:
        """The secondary indexes of the column, alone or with others."""
        ...

    @property
    def has_forward(self) -> bool:
        """Whether rows can be read; without a forward index `ids`, `values` and their like raise QueryError."""
        ...

    def ids(self, start: int, stop: int) -> Ids:
        """Return the dictionary ids of the rows of a range: uint8, uint16 or uint32, the narrowest for the cardinality.

        Multi-value: of all values of these rows, end to end; `offsets` cuts them. Only with a dictionary.
        """
        ...

    def offsets(self, start: int, stop: int) -> "np.ndarray[Any, np.dtype[np.int32]]":
        """Return int32 [stop - start + 1], beginning with 0: where each row's values begin. Only multi-value."""
        ...

    def values(self, start: int, stop: int) -> Vector:
        """Return the values of a range of rows, decoded."""
        ...

    def ids_at(self, docs: DocIds) -> Ids:
        """Return the ids of single-value rows `docs` (ascending). Only with a dictionary."""
        ...

    def values_at(self, docs: DocIds) -> Vector:
        """Return the values of rows `docs` (ascending), decoded; multi-value rows come with offsets."""
        ...


class Segment(Protocol):
    """A horizontal part of a table."""

    @property
    def name(self) -> str: ...
    @property
    def num_docs(self) -> int: ...
    @property
    def column_names(self) -> tuple[str, ...]: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...

    def column(self, name: str) -> Column:
        """Return a column; raises KeyError when the segment does not have it."""
        ...
