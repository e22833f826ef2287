"""A corpus without an index: each method scans the texts, a batch at a time."""

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from gamay.base import guard
from gamay.base.arrays import Array
from gamay.functions.search.match import Marks, Rows, matching, phrase_weights
from gamay.functions.search.query import Phrase, SearchQuery
from gamay.functions.search.score import Counted, Lengths, Totals, narrow
from gamay.functions.search.words import Analysis, Words, lower_case, words_of
from gamay.functions.vector import Values, Vector

# the size of a batch of texts; its intermediate data take some ten times that
_BATCH_BYTES = 1 << 24
_FIRST_ROWS = 1 << 10


def text_batches(read: Callable[[int, int], Vector], num_rows: int) -> Iterator[tuple[int, Vector]]:
    """Yield the texts of successive rows, as `read` returns them for [start, stop), with the first row of each batch."""
    start, rows = 0, _FIRST_ROWS
    while start < num_rows:
        guard.check()
        stop = min(start + rows, num_rows)
        vector = read(start, stop)
        yield start, vector
        bytes_per_row = max(1, vector.values.nbytes // (stop - start))
        start, rows = stop, max(1, min(2 * rows, _BATCH_BYTES // bytes_per_row))


class ReadCorpus:
    """Corpus of the texts of rows, or of the entries of a dictionary; implements `gamay.functions.search.score.Corpus`.

    read, read_at: return the texts [start, stop), and texts by position. num_rows: int64 [texts], the number of rows with
    each text; None if each has one. known: a cache of the number of words of each text, without stop words, by analysis;
    kept by the caller, perhaps for fewer or more texts.
    """

    def __init__(
        self,
        read: Callable[[int, int], Vector],
        read_at: Callable[[Rows], Vector],
        num_texts: int,
        analysis: Analysis,
        num_rows: Array | None = None,
        known: dict[Analysis, Array] | None = None,
    ) -> None:
        self._read, self._read_at, self._num_texts = read, read_at, num_texts
        self._analysis, self._num_rows, self._known = analysis, num_rows, {} if known is None else known

    def matching(self, query: SearchQuery) -> Rows:
        found = [
            start + np.flatnonzero(matching(query, batch.values, self._analysis))
            for start, batch in text_batches(self._read, self._num_texts)
        ]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def rows_of(self, texts: Rows) -> int:
        return len(texts) if self._num_rows is None else int(self._num_rows[texts].sum())

    def totals(self) -> Totals:
        return self._lengths.totals

    def lengths(self, texts: Rows) -> Array:
        return self._lengths.of_texts[texts]

    @cached_property
    def _lengths(self) -> Lengths:
        known = self._known.get(self._analysis, np.empty(0, np.uint8))
        counted = len(known)
        if counted < self._num_texts:
            lengths, stop_words = np.empty(self._num_texts - counted, np.int32), self._analysis.stop_words
            for start, batch in text_batches(lambda *span: self._read(*(counted + row for row in span)), len(lengths)):
                words = self._words(batch.values)
                lengths[start : start + len(batch)] = np.diff(words.bounds) - words.counts(words.among(stop_words))
            known = self._known[self._analysis] = np.concatenate([known, narrow(lengths)])
        return Lengths.of(known[: self._num_texts], self._num_rows)

    def frequencies(self, query: Counted, texts: Rows) -> Array:
        found = []
        for _, batch in text_batches(lambda start, stop: self._read_at(texts[start:stop]), len(texts)):
            words = self._words(batch.values)
            marks = Marks(words, self._analysis)
            if isinstance(query, Phrase):
                elements = np.array([marks.of(word) for word in query.words])
                found.append(phrase_weights(query, elements, words.bounds))
            else:
                found.append(words.counts(marks.of(query)))
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _words(self, texts: Values) -> Words:
        return words_of(texts if self._analysis.case_sensitive else lower_case(texts))
