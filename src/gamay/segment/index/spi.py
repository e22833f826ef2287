"""The contract of an index among a column's buffers: written, opened, checked. How it is asked: `gamay.segment.spi`."""

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
    """All rows of a column, of which its indexes are written.

    config: which indexes the column is to have. values: of the dictionary, or all raw values, in stored form. ids, counts:
    the id of each value, and int64 [cardinality] how often each id occurs; None without a dictionary. offsets: where the
    values of multi-value rows begin. null_docs: those of nulls that are kept. is_sorted: rows ascend.
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
    """Column of a sealed segment, as its indexes see it."""

    data_type: DataType
    has_forward: bool

    @property
    def dictionary(self) -> SortedDictionary | None: ...
    def index(self, key: IndexKey[T]) -> T | None: ...
    def stored_at(self, docs: Ids) -> "tuple[Ids, Ids | None]":
        """Return the ids or raw values of rows `docs`, ascending, and offsets of multi-value rows."""
        ...


class ColumnIndexType(Protocol):
    """Kind of index, stateless. The names of its buffers begin with that of its key."""

    @property
    def key(self) -> IndexKey[Any]: ...

    def write(self, writer: BufferWriter, rows: IndexedRows) -> list[BufferMeta]:
        """Write the index; return its buffers, none where the column is not to have it."""
        ...

    def read(self, file: BufferFile, buffers: dict[str, BufferMeta], column: StoredColumn) -> Any:
        """Open the index, whose buffers are there; return what `Column.index` gives for the key."""
        ...

    def check(self, checker: BufferChecker, meta: ColumnMeta, num_docs: int) -> None:
        """Raise CorruptSegmentError where buffers of unknown origin would make `read` or a question fail."""
        ...
