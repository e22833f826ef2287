"""The common interface of segments and columns; the query engine does not distinguish kinds of segments.

Doc ids are 0 … num_docs - 1. Row ranges are half open: [start, stop). Everything returned is read-only and may refer to
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
    """The partitioning of a column's values, and the partitions in this segment."""

    function_name: str
    num_partitions: int
    partitions: tuple[int, ...]
    function_config: Mapping[str, str]

    @cached_property
    def scheme(self) -> PartitionScheme:
        """The result of `scheme_of`, cached, since every lookup of a value needs it."""
        return scheme_of(self)


def scheme_of(info: PartitionInfo) -> PartitionScheme:
    """Return a key of a column's partitioning scheme."""
    return info.function_name.lower(), info.num_partitions, tuple(sorted(info.function_config.items()))


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Statistics of a column.

    minimum, maximum: in the type's Python form (int, float, str, bool, bytes, Decimal; TIMESTAMP int milliseconds), None
    if unknown or the segment is empty; they are exact, never truncated.
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
        """Return the distinct ids of the values that occur, ascending: int32 [k]."""
        ...

    def id_range(
        self, lower: LiteralValue, upper: LiteralValue, lower_inclusive: bool, upper_inclusive: bool
    ) -> tuple[int, int]:
        """Return the range [first, last) of ids between the bounds; None is unbounded. Only if `is_sorted`."""
        ...


class SortedIndex(Protocol):
    """The first doc of each dictionary id, for a column whose rows ascend."""

    @property
    def starts(self) -> "np.ndarray[Any, np.dtype[np.int32]]":
        """int32 [cardinality + 1]: id d occupies docs [starts[d], starts[d + 1])."""
        ...


class SortedValues(Protocol):
    """Binary search in a raw fixed-width column whose rows ascend."""

    def search(self, value: Any, side: Side) -> int:
        """Return the first doc whose value is not below `value` ("left") or is above it ("right"); num_docs when none is.

        value: a NumPy scalar of the column's dtype.
        """
        ...

    def in_memory(self) -> "Ids | None":
        """Return all values without copying; None if they would have to be decompressed."""
        ...


class InvertedIndex(Protocol):
    """The docs of each dictionary id."""

    def docs(self, dict_id: int) -> BitMap:
        """Return the docs of one id."""
        ...

    def docs_of_any(self, dict_ids: Ids) -> BitMap:
        """Return the union of the docs of several ids."""
        ...


class RangeIndex(Protocol):
    """Exact range queries on a column, dictionary-encoded (ids) or raw numeric (values)."""

    def docs_between(
        self,
        lower: LiteralValue,
        upper: LiteralValue,
        lower_inclusive: bool,
        upper_inclusive: bool,
        docs_max: int | None = None,
    ) -> BitMap | None:
        """Return the docs with a value between the bounds; None is unbounded.

        docs_max: approximate maximum number of docs to return; for more, return None.
        """
        ...


class BloomFilter(Protocol):
    """Filter that recognises values that do not occur in the segment."""

    def might_contain(self, value: LiteralValue) -> bool:
        """Return False only if no row has the value."""
        ...


@dataclass(frozen=True, eq=False)
class IndexKey(Generic[T]):
    """Key of an index among a column's buffers.

    name: prefix of the buffers' names, and the index's name in `segment show`, sizes and the option `skipIndexes`.
    """

    name: str

    @cached_property
    def lookup(self) -> str:
        """The name of a lookup in the index in EXPLAIN."""
        return f"{self.name}_index"

    def of(self, index: Any) -> T | None:
        """Cast an index of this key to its type."""
        found: T | None = index
        return found


SORTED: IndexKey[SortedIndex] = IndexKey("sorted")
INVERTED: IndexKey[InvertedIndex] = IndexKey("inverted")
RANGE: IndexKey[RangeIndex] = IndexKey("range")
BLOOM: IndexKey[BloomFilter] = IndexKey("bloom")
NULLS: IndexKey[BitMap] = IndexKey("null")


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a lookup of a condition in an index.

    docs: the rows below `covered` that satisfy it; unless `is_exact`, a superset whose rows must be
    tested. covered: rows from this number on are not in the index and must be scanned; None if it has all rows.
    unsure: the docs that have to be tested if the result is not exact; None: all of them.
    """

    docs: BitMap
    is_exact: bool = True
    covered: int | None = None
    unsure: BitMap | None = None


@dataclass(frozen=True, slots=True)
class NearestSearch:
    """A search for the `count` rows whose vectors are nearest to one.

    vector: float32 [dimension]. distance: one of `gamay.model.index.vector_index.DISTANCES`. candidates: the number of
    rows to
    find. probes: the number of lists of an IVF index to read; effort: the number of candidate nodes of a graph; None: as
    calibrated by the index. visible: bool [num_docs], the valid rows; None if all are valid.
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
    """Valid rows that likely include the nearest ones; at least as many as requested, unless these are all.

    docs: int32 [n], ascending. vectors: theirs, float32 [n, dimension]. covered: as in `Found`.
    """

    docs: DocIds
    vectors: "np.ndarray[Any, np.dtype[np.float32]]"
    covered: int | None = None


@dataclass(frozen=True, slots=True)
class IndexedTexts:
    """The words of a column's texts in an index. covered: as in `Found`."""

    corpus: Corpus
    covered: int | None = None


class SecondaryIndex:
    """An open index of one or more columns of a segment. An index overrides the queries that it supports.

    kind: as in `gamay.model.table.secondary_indexes.SECONDARY_KINDS`. combines: the columns whose ids `combined` takes;
    empty if the index does not support it. Thread-safe.
    """

    kind: str
    combines: tuple[str, ...] = ()

    def find(self, condition: Expression) -> Found | None:
        """Return the rows for which a boolean expression over the columns holds; None if the index does not support it."""
        return None

    def entries(self, condition: Expression) -> "Ids | None":
        """Return the ids of the dictionary entries that can satisfy a condition: int32, ascending; None if the index does
        not support it."""
        return None

    def combined(self, ids: Sequence[Ids]) -> BitMap | None:
        """Return the rows that have one of the given dictionary ids in each column of `combines`; None if unsupported.

        ids: for each column, ascending.
        """
        return None

    def nearest(self, search: NearestSearch) -> Neighbours | None:
        """Return rows near a vector; None if a scan is better or the index does not support it."""
        return None

    def texts(self, column: str, analysis: Analysis) -> IndexedTexts | None:
        """Return the words of a single-value column's texts; None if the texts have to be read."""
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
        """The values of all rows; None if they are stored in another form."""
        ...


@runtime_checkable
class KnowsLengths(Protocol):
    """A column that may know the lengths of its texts without reading them."""

    def ascii_lengths(self, start: int, stop: int) -> "Ids | None":
        """Return the lengths of the texts of rows [start, stop); None unless they are known to be all ASCII."""
        ...

    def ascii_lengths_at(self, docs: DocIds) -> "Ids | None":
        """Return what `ascii_lengths` returns, for rows `docs`, ascending."""
        ...


class IndexSource(Protocol):
    """The rows of a column from which an index is built: those of a sealed segment, or a block of a consuming segment.

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
        """Return the decoded values of rows [start, stop); for a null row, the default stored in its place."""
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
        """The bounds of single values by zone: of ids that ascend with the values, or of numbers; else None."""
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
        """Whether rows can be read; without a forward index, `ids`, `values` and similar methods raise QueryError."""
        ...

    def ids(self, start: int, stop: int) -> Ids:
        """Return the dictionary ids of the rows of a range: uint8, uint16 or uint32, the narrowest for the cardinality.

        Multi-value: of all values of these rows, end to end; `offsets` cuts them. Only with a dictionary.
        """
        ...

    def offsets(self, start: int, stop: int) -> "np.ndarray[Any, np.dtype[np.int32]]":
        """Return the offsets of each row's values, starting with 0: int32 [stop - start + 1]. Only multi-value."""
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
