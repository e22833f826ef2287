"""Relevance scores of a column's texts for a search, as a column that queries read like others.

Statistics are those of the whole segment: of its text index, or of its texts, which are read for that. The scores of rows
are computed when the first row is read.
"""

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from gamay.base import guard
from gamay.base.arrays import Array
from gamay.functions.expression import Column as ColumnExpression
from gamay.functions.scalar.text.text_match import Searched
from gamay.functions.search.counted import ReadCorpus
from gamay.functions.search.score import Corpus, JoinedCorpus, Scores
from gamay.functions.search.words import Analysis
from gamay.functions.vector import Vector
from gamay.kernels.tuning import AGGREGATED_BLOCK_ROWS
from gamay.model.types import DataType
from gamay.query.view.virtual import QuerySegment
from gamay.segment.read.computed import ComputedColumn, unknown_stats
from gamay.segment.spi import Column, Dictionary, DocIds, Grows, IndexedTexts

# text lengths of columns that are read, by text analysis: of rows, and of dictionary entries
_LENGTHS: "WeakKeyDictionary[object, tuple[dict[Analysis, Array], dict[Analysis, Array]]]" = WeakKeyDictionary()


def attach_scores(scores: Mapping[str, Searched], segments: Sequence[QuerySegment]) -> None:
    """Add the score columns that a query reads to segments."""
    for name, searched in scores.items():
        for segment in segments:
            segment.attach(ScoreColumn(name, searched, segment))


class ScoreColumn(ComputedColumn):
    """The scores of a column's texts: DOUBLE, 0 for a text that does not match, null for a null text."""

    data_type = DataType.DOUBLE

    def __init__(self, name: str, searched: Searched, segment: QuerySegment) -> None:
        assert isinstance(searched.text, ColumnExpression)
        self._texts = segment.column(searched.text.name)
        self._indexes = [
            index for index in self._texts.indexes if index.kind not in segment.skipped_indexes.get(searched.text.name, ())
        ]
        self._query, self._analysis = searched.query, searched.options.analysis
        self.name = name
        self.num_docs = segment.num_docs
        self.null_docs = self._texts.null_docs
        self.stats = unknown_stats(segment.num_docs, num_nulls=len(self.null_docs or ()))
        self._lock = threading.Lock()
        self._known: Scores | _EntryScores | None = None

    def values(self, start: int, stop: int) -> Vector:
        return Vector(self.data_type, self._scores().within(start, stop))

    def values_at(self, docs: DocIds) -> Vector:
        return Vector(self.data_type, self._scores().at(docs))

    @property
    def source(self) -> str:
        """The source of the scores, for EXPLAIN."""
        return "INDEX" if self._indexed is not None else "SCAN" if self._texts.dictionary is None else "DICTIONARY"

    @cached_property
    def _indexed(self) -> IndexedTexts | None:
        indexed = (index.texts(self._texts.name, self._analysis) for index in self._indexes)
        return next((texts for texts in indexed if texts is not None), None)

    def _scores(self) -> "Scores | _EntryScores":
        with self._lock:
            if self._known is None:
                found = self._computed()
                guard.holder("scores of texts").hold(found.nbytes)  # until the query ends
                self._known = found
            return self._known

    def _computed(self) -> "Scores | _EntryScores":
        if self._indexed is not None:
            return Scores.of(self._query, self._with_tail(self._indexed))
        if self._texts.dictionary is not None:
            return self._of_entries(self._texts.dictionary)
        of_rows, _ = self._lengths()
        return Scores.of(self._query, self._rows(0, of_rows))

    def _lengths(self) -> tuple[dict[Analysis, Array], dict[Analysis, Array]]:
        """Return the known lengths of the column, including those that other views of the same rows, or of more, added."""
        of_all_views = self._texts.whole if isinstance(self._texts, Grows) else self._texts
        return _LENGTHS.setdefault(of_all_views, ({}, {}))

    def _with_tail(self, found: IndexedTexts) -> Corpus:
        """Return the statistics of the rows that are in an index, and of those after them."""
        if found.covered is None or found.covered >= self.num_docs:
            return found.corpus
        return JoinedCorpus((found.corpus, self._rows(found.covered)), (0, found.covered, self.num_docs))

    def _rows(self, first: int, known: dict[Analysis, Array] | None = None) -> ReadCorpus:
        """Return the texts of the rows from `first` on. known: their lengths, if known."""
        return ReadCorpus(
            lambda start, stop: self._texts.values(first + start, first + stop),
            lambda rows: self._texts.values_at((first + rows).astype(np.int32)),
            self.num_docs - first,
            self._analysis,
            known=known,
        )

    def _of_entries(self, dictionary: Dictionary) -> "_EntryScores":
        num_rows = np.zeros(len(dictionary), np.int64)
        for start in range(0, self.num_docs, AGGREGATED_BLOCK_ROWS):
            ids = self._texts.ids(start, min(start + AGGREGATED_BLOCK_ROWS, self.num_docs))
            num_rows += np.bincount(ids, minlength=len(dictionary))
        entries, (_, of_entries) = dictionary.values, self._lengths()
        corpus = ReadCorpus(
            lambda start, stop: Vector(entries.type, entries.values[start:stop]),
            entries.at,
            len(dictionary),
            self._analysis,
            num_rows,
            of_entries,
        )
        return _EntryScores(self._texts, Scores.of(self._query, corpus).within(0, len(dictionary)))


class _EntryScores:
    """The scores of rows, by the scores of their dictionary entries, float64 [entries]."""

    def __init__(self, column: Column, of_entries: Array) -> None:
        self._column, self._of_entries = column, of_entries

    @property
    def nbytes(self) -> int:
        """The memory size of the scores."""
        return self._of_entries.nbytes

    def within(self, start: int, stop: int) -> Array:
        """Return the scores of rows [start, stop)."""
        return self._of_entries[self._column.ids(start, stop)]

    def at(self, docs: Array) -> Array:
        """Return the scores of some rows."""
        return self._of_entries[self._column.ids_at(docs)]
