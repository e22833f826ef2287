"""The interface to write, open and check an index among a column's buffers. To query it: `gamay.segment.spi`."""

from dataclasses import dataclass
from typing import Any, Protocol

from gamay.model.index.column_index import ColumnIndexConfig
from gamay.model.types import DataType
from gamay.segment.encode.checks import BufferChecker
from gamay.segment.encode.dictionary import SortedDictionary
from gamay.segment.encode.format import BufferFile, BufferMeta, BufferWriter
from gamay.segment.encode.metadata import ColumnMeta
from gamay.segment.encode.storage_form import Stored
from gamay.segment.spi import Ids, IndexKey, T


@dataclass(frozen=True, slots=True)
class IndexedRows:
    """All rows of a column, the input of its indexes.

    config: the indexes of the column. values: of the dictionary, or all raw values, in stored form. ids, counts:
    the id of each value, and int64 [cardinality], the number of occurrences of each id; None without a dictionary. offsets:
    of the values of multi-value rows. null_docs: the docs of stored nulls. is_sorted: rows ascend.
    """

    config: ColumnIndexConfig
    data_type: DataType
    values: Stored
    ids: "Ids | None"
    counts: "Ids | None"
    offsets: "Ids | None"
    null_docs: Ids
    is_sorted: bool


class StoredColumn(Protocol):
    """Column of a sealed segment, as its indexes use it."""

    data_type: DataType
    has_forward: bool

    @property
    def dictionary(self) -> SortedDictionary | None: ...
    def index(self, key: IndexKey[T]) -> T | None: ...
    def stored_at(self, docs: Ids) -> "tuple[Ids, Ids | None]":
        """Return the ids or raw values of rows `docs`, ascending, and offsets of multi-value rows."""
        ...


class ColumnIndexType(Protocol):
    """A stateless kind of index. The names of its buffers start with that of its key."""

    @property
    def key(self) -> IndexKey[Any]: ...

    def write(self, writer: BufferWriter, rows: IndexedRows) -> list[BufferMeta]:
        """Write the index if the column is configured to have it; return its buffers."""
        ...

    def read(self, file: BufferFile, buffers: dict[str, BufferMeta], column: StoredColumn) -> Any:
        """Open the index from its buffers; return the result of `Column.index` for the key."""
        ...

    def check(self, checker: BufferChecker, meta: ColumnMeta, num_docs: int) -> None:
        """Raise CorruptSegmentError if untrusted buffers would make `read` or a query fail."""
        ...
