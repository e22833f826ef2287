"""The contract of a secondary index type: how it is built, opened and checked. How it is asked: `gamay.segment.spi`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pyroaring import BitMap

from gamay.functions.vector import Vector
from gamay.model.types import DataType
from gamay.segment.spi import Dictionary, Ids, SecondaryIndex


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


class IndexType(Protocol):
    """A kind of index, stateless. Its files lie in a folder of their own.

    kind: its key in `fieldConfigList.indexes`. needs: the module that it is built with and asked by, None where Gamay's own
    code does both; extra: the extra of the package that brings it. of_blocks: whether it can be built of blocks of a
    consuming segment's rows, which have no dictionary. is_portable: whether files that came with a pushed segment are used,
    once `check` has passed; else the server builds its own.
    """

    kind: str
    needs: str | None
    extra: str | None
    of_blocks: bool
    is_portable: bool

    def build(self, columns: Sequence[IndexSource], settings: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        """Write the index into an empty folder, on this thread; return what `open` needs to know of it, of JSON types.

        Raises InvalidConfigError for settings that have no meaning, or columns that cannot have the index.
        """
        ...

    def open(
        self, folder: Path, content: Mapping[str, Any], columns: Sequence[IndexSource], settings: Mapping[str, Any]
    ) -> SecondaryIndex:
        """Open what `build` wrote; `content` is what it returned. The files are those of their checksums."""
        ...

    def check(self, folder: Path, content: Mapping[str, Any], columns: Sequence[IndexSource]) -> None:
        """Raise CorruptSegmentError where files of unknown origin would make `open` or a question fail or read beyond them.

        Called only where `is_portable`.
        """
        ...
