"""The interface of a secondary index type: to build, open and check it. To query it: `gamay.segment.spi`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from gamay.segment.spi import IndexSource, SecondaryIndex


class IndexType(Protocol):
    """A stateless kind of index. Its files are in a separate folder.

    kind: its key in `fieldConfigList.indexes`, or one of `gamay.model.index.kinds.KINDS_OF_TABLES`. needs: the module
    needed to build and query it, None if Gamay itself does both; extra: the package extra that installs it.
    of_blocks: whether it can be built from blocks of a consuming segment's rows, which have no dictionary. is_portable:
    whether files of a pushed segment are used after `check`; else the server builds its own.
    """

    kind: str
    needs: str | None
    extra: str | None
    of_blocks: bool
    is_portable: bool

    def build(self, columns: Sequence[IndexSource], settings: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        """Write the index into an empty folder, on this thread; return the content for `open`, of JSON types.

        A `note` in it is shown to people, such as why the index is omitted in a segment.
        Raises InvalidConfigError for invalid settings, or columns that cannot have the index.
        """
        ...

    def open(
        self, folder: Path, content: Mapping[str, Any], columns: Sequence[IndexSource], settings: Mapping[str, Any]
    ) -> SecondaryIndex:
        """Open the index. content: the result of `build`. The checksums of the files have been verified."""
        ...

    def check(self, folder: Path, content: Mapping[str, Any], columns: Sequence[IndexSource]) -> None:
        """Raise CorruptSegmentError if untrusted files would make `open` or a query fail or read out of bounds.

        Called only if `is_portable`.
        """
        ...
