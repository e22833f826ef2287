"""Secondary indexes of a consuming segment: immutable indexes of blocks of rows, built in the background.

Rows that are not in a block yet are scanned, so queries see every row immediately, and results do not depend on the
progress of the indexes.
"""

import logging
import shutil
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import numpy as np
from pyroaring import BitMap

from gamay.functions.expression import Expression
from gamay.functions.search.score import JoinedCorpus
from gamay.functions.search.words import Analysis
from gamay.functions.vector import Vector
from gamay.model.table.secondary_indexes import IndexDeclaration
from gamay.segment.secondary.registry import index_type, missing_extra
from gamay.segment.spi import Column, Found, Ids, IndexedTexts, NearestSearch, Neighbours, SecondaryIndex

_log = logging.getLogger(__name__)
_REMOVALS_MAX = 100
BLOCK_ROWS = 1 << 16
"""Rows per block: few enough to be scanned in milliseconds, and enough to be worth an index and its files."""


class View(Protocol):
    """The part of a consuming segment's view that is used."""

    @property
    def num_docs(self) -> int: ...
    def column(self, name: str) -> Column: ...


class _BlockColumn:
    """The rows [start, stop) of a column; implements `IndexSource`."""

    dictionary = None

    def __init__(self, column: Column, start: int, stop: int) -> None:
        self.name = column.name
        self.data_type = column.data_type
        self.single_value = column.single_value
        self.num_docs = stop - start
        self._column = column
        self._start = start

    @property
    def null_docs(self) -> BitMap | None:
        nulls = self._column.null_docs
        return (
            None if nulls is None else (nulls & BitMap(range(self._start, self._start + self.num_docs))).shift(-self._start)
        )

    def values(self, start: int, stop: int) -> Vector:
        return self._column.values(self._start + start, self._start + stop)

    def ids(self, start: int, stop: int) -> Ids:
        return self._column.ids(self._start + start, self._start + stop)


class BlockedIndex(SecondaryIndex):
    """The combined indexes of the first blocks of a consuming segment. blocks: of `block_rows` rows each."""

    def __init__(self, kind: str, blocks: Sequence[SecondaryIndex], block_rows: int) -> None:
        self.kind = kind
        self._blocks = blocks
        self._block_rows = block_rows

    def find(self, condition: Expression) -> Found | None:
        parts, unsure = [], BitMap()
        for number, block in enumerate(self._blocks):
            found = block.find(condition)
            if found is None:
                return None
            parts.append(found.docs.shift(number * self._block_rows))
            if not found.is_exact:
                untested = found.docs if found.unsure is None else found.unsure
                unsure |= untested.shift(number * self._block_rows)
        return Found(BitMap.union(*parts), not unsure, len(parts) * self._block_rows, unsure if unsure else None)

    def nearest(self, search: NearestSearch) -> Neighbours | None:
        found = [block.nearest(self._within(search, number)) for number, block in enumerate(self._blocks)]
        parts = [part for part in found if part is not None]
        if len(parts) < len(found) or not parts:
            return None
        docs = [part.docs + np.int32(number * self._block_rows) for number, part in enumerate(parts)]
        vectors = np.concatenate([part.vectors for part in parts])
        return Neighbours(np.concatenate(docs), vectors, covered=len(parts) * self._block_rows)

    def texts(self, column: str, analysis: Analysis) -> IndexedTexts | None:
        found = [part.corpus for block in self._blocks if (part := block.texts(column, analysis)) is not None]
        if len(found) < len(self._blocks):
            return None
        starts = range(0, (len(found) + 1) * self._block_rows, self._block_rows)
        return IndexedTexts(JoinedCorpus(found, starts), starts[-1])

    def _within(self, search: NearestSearch, number: int) -> NearestSearch:
        if search.visible is None:
            return search
        first = number * self._block_rows
        return replace(search, visible=search.visible[first : first + self._block_rows])


@dataclass
class _Growing:
    """One declared index: its built blocks, and whether building one failed, after which no more are built.

    folder: of its files.
    """

    declaration: IndexDeclaration
    folder: Path
    blocks: list[SecondaryIndex] = field(default_factory=list)
    is_failed: bool = False


class GrowingIndexes:
    """The secondary indexes of one consuming segment. of_columns: by column, the blocks that are ready.

    One thread announces new rows (`follow`); another builds blocks one by one, and ends when no full one is left.
    """

    def __init__(self, declarations: Sequence[IndexDeclaration], folder: Path) -> None:
        """folder: that of the segment's buffers."""
        self._folder = folder / "indexes"
        self._every = [
            _Growing(declaration, self._folder / str(number))
            for number, declaration in enumerate(declarations)
            if missing_extra(declaration.kind) is None and index_type(declaration.kind).of_blocks
        ]
        self._block_rows = BLOCK_ROWS
        self._num_blocks = 0
        self._lock = threading.Lock()
        self._latest: View | None = None
        self._is_building = self._is_closed = False
        self.of_columns: Mapping[str, Sequence[SecondaryIndex]] = MappingProxyType({})

    def follow(self, view: View) -> None:
        """Announce the present rows; another thread builds the blocks that have become full."""
        if not self._every or view.num_docs < (self._num_blocks + 1) * self._block_rows:
            return
        with self._lock:
            self._latest = view
            if self._is_building or self._is_closed:
                return
            self._is_building = True
        threading.Thread(target=self._build_blocks, name="index-blocks", daemon=True).start()

    def close(self) -> None:
        """Stop building and remove the files; open indexes stay readable."""
        with self._lock:
            self._is_closed = True
        for _ in range(_REMOVALS_MAX):  # a concurrent build may write a file while its folder is being removed
            shutil.rmtree(self._folder, ignore_errors=True)
            if not self._folder.exists():
                break

    def _build_blocks(self) -> None:
        while (view := self._next()) is not None:
            for growing in self._every:
                self._grow(growing, view)
            self._num_blocks += 1
            self.of_columns = self._by_column()

    def _next(self) -> View | None:
        """Return a view that has another full block, or None to end the thread."""
        with self._lock:
            view = self._latest
            if self._is_closed or view is None or view.num_docs < (self._num_blocks + 1) * self._block_rows:
                self._is_building, self._latest = False, None
                return None
            return view

    def _grow(self, growing: _Growing, view: View) -> None:
        if growing.is_failed:
            return
        try:
            growing.blocks.append(self._block(view, growing))
        except Exception:  # noqa: BLE001 - no error of an index may fail consumption: rows can be read without it
            growing.is_failed = True
            if not self._is_closed:  # else its folder has been removed
                declared, first = growing.declaration, self._num_blocks * self._block_rows
                named = ", ".join(declared.columns)
                _log.exception("rows from %d on have no %s index of %s, it cannot be built", first, declared.kind, named)

    def _block(self, view: View, growing: _Growing) -> SecondaryIndex:
        declaration, start = growing.declaration, self._num_blocks * self._block_rows
        columns = [_BlockColumn(view.column(name), start, start + self._block_rows) for name in declaration.columns]
        folder = growing.folder / str(self._num_blocks)
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the segment is closed")
            folder.mkdir(parents=True)
        wanted = index_type(declaration.kind)
        content = wanted.build(columns, declaration.settings, folder)
        return wanted.open(folder, content, columns, declaration.settings)

    def _by_column(self) -> Mapping[str, Sequence[SecondaryIndex]]:
        found: dict[str, tuple[SecondaryIndex, ...]] = {}
        for growing in self._every:
            if growing.blocks:
                index = BlockedIndex(growing.declaration.kind, tuple(growing.blocks), self._block_rows)
                for column in growing.declaration.columns:
                    found[column] = (*found.get(column, ()), index)
        return MappingProxyType(found)
