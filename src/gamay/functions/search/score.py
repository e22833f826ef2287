"""Relevance of texts for a query, as in Lucene: BM25 of words and phrases.

Each word or phrase of the query that a text has adds its boost times `idf * freq / (freq + norm)`: its rarity, and its
frequency relative to the text's length. Conditions that match many words (wildcards, edits, ranges, regular expressions)
add their boost, and so does `*:*`. Negated conditions add nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log1p
from typing import Protocol, TypeAlias

import numpy as np

from gamay.base import guard
from gamay.base.arrays import Array
from gamay.functions.search.match import Rows
from gamay.functions.search.query import Clauses, OneWord, Phrase, SearchQuery, Term

K1, B = 1.2, 0.75

Counted: TypeAlias = Term | Phrase
"""Conditions that a text can match several times."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals over rows: the number of rows with a word other than a stop word, and the number of such words."""

    rows: int
    words: int

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(self.rows + other.rows, self.words + other.words)

    @property
    def words_per_row(self) -> float:
        """The average over rows that have words; 1 if none has."""
        return self.words / self.rows if self.rows else 1.0


@dataclass(frozen=True, slots=True)
class Lengths:
    """The number of words of each text, without stop words, in the narrowest dtype, and the totals of all rows."""

    of_texts: Array
    totals: Totals

    @classmethod
    def of(cls, lengths: Array, num_rows: Array | None = None) -> "Lengths":
        """Return lengths to be cached. num_rows: int64 [texts], the number of rows with each text; None if each has one."""
        if num_rows is None:
            totals = Totals(int(np.count_nonzero(lengths)), int(lengths.sum(dtype=np.int64)))
        else:
            totals = Totals(int(num_rows[lengths > 0].sum()), int(num_rows @ lengths))
        return cls(narrow(lengths), totals)


def narrow(lengths: Array) -> Array:
    """Return lengths in the narrowest type that holds them; those that are in it already as they are."""
    return lengths.astype(np.min_scalar_type(int(lengths.max(initial=0))), copy=False)


class Corpus(Protocol):
    """The texts that are searched, numbered from 0; each belongs to one row or several."""

    def matching(self, query: SearchQuery) -> Rows:
        """Return the texts that match, ascending."""
        ...

    def rows_of(self, texts: Rows) -> int:
        """Return the number of rows with one of these texts."""
        ...

    def totals(self) -> Totals:
        """Return the totals of all rows."""
        ...

    def lengths(self, texts: Rows) -> Array:
        """Return the number of words of some texts (ascending), without stop words."""
        ...

    def frequencies(self, query: Counted, texts: Rows) -> Array:
        """Return how often some texts (ascending) have a word, or a phrase according to `match.phrase_weights`."""
        ...


@dataclass(frozen=True, slots=True)
class Scores:
    """The texts that match a query, int64 [n], ascending, and their scores, float64 [n]; those of others are 0."""

    texts: Rows
    values: Array

    @classmethod
    def of(cls, query: SearchQuery, corpus: Corpus) -> "Scores":
        """Return the scores of the texts of a corpus. Raises QueryError if the query ends meanwhile."""
        texts = corpus.matching(query)
        values = np.zeros(len(texts))
        _Scorer(corpus, texts, values).add(query, np.arange(len(texts)))
        return cls(texts, values)

    @property
    def nbytes(self) -> int:
        """The memory that they take."""
        return self.texts.nbytes + self.values.nbytes

    def within(self, start: int, stop: int) -> Array:
        """Return the scores of texts [start, stop)."""
        first, last = np.searchsorted(self.texts, (start, stop))
        found = np.zeros(stop - start)
        found[self.texts[first:last] - start] = self.values[first:last]
        return found

    def at(self, texts: Array) -> Array:
        """Return the scores of some texts."""
        found = np.zeros(len(texts))
        if len(self.texts):
            places = np.minimum(np.searchsorted(self.texts, texts), len(self.texts) - 1)
            np.copyto(found, self.values[places], where=self.texts[places] == texts)
        return found


class _Scorer:
    """Adds the scores of some texts, all of which match, to `values`."""

    def __init__(self, corpus: Corpus, texts: Rows, values: Array) -> None:
        self._corpus, self._texts, self._values = corpus, texts, values
        self._rarities: dict[OneWord, float] = {}

    def add(self, query: SearchQuery, places: Rows) -> None:
        """Add the score of a part of the query to the texts at some positions, all of which it matches."""
        guard.check()
        if isinstance(query, Clauses):
            for part in query.must:
                self.add(part, places)
            for part in query.should:
                self.add(part, places[_common(self._texts[places], self._corpus.matching(part))])
        elif isinstance(query, Term | Phrase):
            words = query.words if isinstance(query, Phrase) else (query,)
            frequencies = self._corpus.frequencies(query, self._texts[places])
            share = frequencies / (frequencies + self._norms[places])
            self._values[places] += query.boost * sum(map(self._rarity, words)) * share
        else:
            self._values[places] += query.boost

    @cached_property
    def _norms(self) -> Array:
        """The normalisation of frequencies, larger for long texts: float64 [texts]."""
        average = self._corpus.totals().words_per_row
        norms: Array = K1 * (1 - B + B * (self._corpus.lengths(self._texts) / average))
        return norms

    def _rarity(self, word: OneWord) -> float:
        """Return the idf of a word; of a pattern within a phrase, by the rows that have any matching word."""
        known = self._rarities.get(word)
        if known is None:
            rows, all_rows = self._corpus.rows_of(self._corpus.matching(word)), self._corpus.totals().rows
            known = self._rarities[word] = log1p((all_rows - rows + 0.5) / (rows + 0.5))
        return known


def _common(texts: Rows, found: Rows) -> Rows:
    """Return the positions in `texts` of those that are in `found`; both ascend."""
    if len(found) < len(texts):
        places = np.searchsorted(texts, found)
        kept: Rows = places[np.append(texts, -1)[places] == found]
        return kept
    return np.flatnonzero(np.append(found, -1)[np.searchsorted(found, texts)] == texts)


class JoinedCorpus:
    """Concatenation of several corpora; implements `Corpus`. starts: the first row of each, ascending, and the end."""

    def __init__(self, parts: Sequence[Corpus], starts: Sequence[int]) -> None:
        self._parts, self._starts = parts, starts

    def matching(self, query: SearchQuery) -> Rows:
        found = [part.matching(query) + start for part, start in zip(self._parts, self._starts, strict=False)]
        return np.concatenate(found)

    def rows_of(self, texts: Rows) -> int:
        return sum(part.rows_of(own) for part, own in self._divided(texts))

    def totals(self) -> Totals:
        return sum((part.totals() for part in self._parts), Totals(0, 0))

    def lengths(self, texts: Rows) -> Array:
        return np.concatenate([part.lengths(own) for part, own in self._divided(texts)])

    def frequencies(self, query: Counted, texts: Rows) -> Array:
        return np.concatenate([part.frequencies(query, own) for part, own in self._divided(texts)])

    def _divided(self, texts: Rows) -> Iterator[tuple[Corpus, Rows]]:
        bounds = np.searchsorted(texts, self._starts)
        for part, start, first, last in zip(self._parts, self._starts, bounds, bounds[1:], strict=False):
            yield part, texts[first:last] - start
