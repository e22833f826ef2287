"""The contract of a secondary index type: how it is built, opened and checked. How it is asked: `gamay.segment.spi`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from gamay.segment.spi import IndexSource, SecondaryIndex


class IndexType(Protocol):
    """A kind of index, stateless. Its files lie in a folder of their own.

    kind: its key in `fieldConfigList.indexes`, or one of `gamay.model.index.kinds.KINDS_OF_TABLES`. needs: the module with
    which it is built and asked, None where Gamay's own code does both; extra: the extra of the package that brings it.
    of_blocks: whether it can be built of blocks of a consuming segment's rows, which have no dictionary. is_portable: that
    files that came with a pushed segment are used, once `check` has passed; else the server builds its own.
    """

    kind: str
    needs: str | None
    extra: str | None
    of_blocks: bool
    is_portable: bool

    def build(self, columns: Sequence[IndexSource], settings: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        """Write the index into an empty folder, on this thread; return what `open` needs to know of it, of JSON types.

        A `note` in it is shown to people, such as why a segment is better read without the index.

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
