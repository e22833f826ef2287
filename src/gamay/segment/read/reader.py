"""Opening immutable segments."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from gamay.base.errors import nearest
from gamay.segment.encode.format import COLUMNS_FILE, BufferFile
from gamay.segment.encode.metadata import ColumnMeta, SegmentMetadata, read_metadata
from gamay.segment.read.column import ImmutableColumn
from gamay.segment.secondary.files import StoredIndex, usable_indexes
from gamay.segment.spi import SecondaryIndex
from gamay.segment.star_tree_file import StoredTree, has_star_trees, read_star_trees
from gamay.segment.verify.structure import check_column


class ImmutableSegment:
    """A segment folder, memory-mapped; implements `segment.spi.Segment`. Made by `open_segment`.

    kept: cache of results that queries compute, for as long as the segment is open (`gamay.query.groupby.kept`).
    """

    def __init__(
        self,
        path: Path,
        info: SegmentMetadata,
        file: BufferFile,
        *,
        verify_on_use: bool = False,
        own_indexes: bool = False,
    ) -> None:
        self.path = path
        self.info = info
        self.name = info.name
        self.num_docs = info.num_docs
        self.column_names = tuple(info.columns)
        self.metadata: Mapping[str, Any] = info.to_json()
        self.kept: dict[Any, Any] = {}
        self._file = file
        self._columns = {
            name: ImmutableColumn(meta, file, info.num_docs, indexes_of=self._indexes_of)
            for name, meta in info.columns.items()
        }
        self._unverified = set(info.columns) if verify_on_use else set()
        self.has_star_trees = has_star_trees(path)
        self._verified_trees: tuple[StoredTree, ...] | None = None
        self._own_indexes = own_indexes
        self._opened: dict[str, tuple[SecondaryIndex, ...]] | None = None

    def column(self, name: str) -> ImmutableColumn:
        """Return a column; raises KeyError when the segment does not have it, CorruptSegmentError when it is damaged."""
        if name in self._unverified:
            _check(self.info.columns[name], self._file, self.num_docs)
            self._unverified.discard(name)
        try:
            return self._columns[name]
        except KeyError:
            raise KeyError(f"segment '{self.name}' has no column '{name}'.{nearest(name, self._columns)}") from None

    def star_trees(self, *, verify: bool = True) -> tuple[StoredTree, ...]:
        """Open the segment's star-trees, and verify their checksums once; raises CorruptSegmentError."""
        if self._verified_trees is None and not verify:
            return read_star_trees(self.path, self.info.crc, verify=False)
        if self._verified_trees is None:
            self._verified_trees = read_star_trees(self.path, self.info.crc)
        return self._verified_trees

    @cached_property
    def indexes(self) -> tuple[StoredIndex, ...]:
        """The usable secondary indexes; the checksums of their files are verified once."""
        return tuple(usable_indexes(self.path, self.info.crc, self.column, is_own=self._own_indexes))

    def _indexes_of(self, column: str) -> tuple[SecondaryIndex, ...]:
        if self._opened is None:
            opened: dict[str, tuple[SecondaryIndex, ...]] = {}
            for stored in self.indexes:
                names = stored.declaration.columns
                index = stored.open([self.column(name) for name in names])
                for name in names:
                    opened[name] = (*opened.get(name, ()), index)
            self._opened = opened
        return self._opened.get(column, ())

    @property
    def size_bytes(self) -> int:
        """Bytes of the mapped file."""
        return len(self._file)

    def close(self) -> None:
        """Release the mapping; arrays that refer to it keep it alive."""
        self._columns = {}
        self._file.close()


def open_segment(
    path: str | Path,
    verify: bool = True,
    *,
    verify_on_use: bool = False,
    in_memory: bool = False,
    own_indexes: bool = False,
) -> ImmutableSegment:
    """Open a segment folder.

    verify: compare the CRC of every buffer with the metadata's and check its structure, which reads the whole file; without
    it only the metadata, the header and the layout are checked. verify_on_use: verify each column on first access instead,
    to open segments that were verified before without reading all of them again. in_memory: read the file
    instead of mapping it. own_indexes: whether this server built the secondary indexes in the folder; of those
    that came with a segment, only kinds that can be checked are used.
    Raises CorruptSegmentError for a file that is truncated, damaged, foreign or inconsistent.
    """
    folder = Path(path)
    info = read_metadata(folder)
    file = BufferFile(folder / COLUMNS_FILE, in_memory=in_memory)
    file.check_layout([(column.name, buffer) for column in info.columns.values() for buffer in column.buffers.values()])
    if verify and not verify_on_use:
        for column in info.columns.values():
            _check(column, file, info.num_docs)
    return ImmutableSegment(folder, info, file, verify_on_use=verify_on_use, own_indexes=own_indexes)


def _check(column: ColumnMeta, file: BufferFile, num_docs: int) -> None:
    for buffer in column.buffers.values():
        file.check_buffer(column.name, buffer)
    check_column(column, file, num_docs)
