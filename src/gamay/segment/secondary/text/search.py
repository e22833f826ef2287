"""Execution of TEXT_MATCH on a text index: the matching rows, and the statistics for their scores."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from gamay.base import guard
from gamay.base.arrays import Array, Mask
from gamay.functions.expression import Column, Expression
from gamay.functions.scalar.text.text_match import searched
from gamay.functions.search.match import Rows, phrase_weights, phrases, words_matching
from gamay.functions.search.query import Between, Clauses, Everything, OneWord, Pattern, Phrase, SearchQuery, Similar, Term
from gamay.functions.search.score import Counted, Lengths, Totals
from gamay.functions.search.words import Analysis
from gamay.kernels.encode.encoding import gather_lists, mark_lists
from gamay.kernels.text.tokens import count_token, count_tokens
from gamay.model.types import DataType
from gamay.segment.encode.dictionary import SortedDictionary
from gamay.segment.index.bitmaps import DocSets, bitmap_of
from gamay.segment.spi import Found, Ids, IndexedTexts, SecondaryIndex

# rows whose tokens are searched together for a phrase
_ROWS_AT_ONCE = 1 << 16
# not a byte of UTF-8: sorts after every word that starts with the bytes before it
_BEYOND = b"\xff"


@dataclass(frozen=True)
class Postings:
    """The words of one column's texts, see `index_type`. case_sensitive: whether words keep their case."""

    terms: pa.BinaryArray
    docs: DocSets
    tokens: Ids
    bounds: Ids
    texts: "Ids | None"
    case_sensitive: bool
    _lengths: dict[frozenset[str], Lengths] = field(default_factory=dict, compare=False, repr=False)

    def lengths_without(self, stop_words: frozenset[str]) -> Lengths:
        """Return the lengths of texts (one per row) without some words; cached while the index is open."""
        known = self._lengths.get(stop_words)
        if known is None:
            kept = np.ones(len(self.terms), np.bool_)
            kept[self.dictionary.ids_of(sorted(stop_words))] = False
            lengths = np.empty(self.num_docs, np.int32)
            for start in range(0, self.num_docs, _ROWS_AT_ONCE):
                guard.check()
                count_tokens(self.tokens, self.bounds, start, kept, lengths[start : start + _ROWS_AT_ONCE])
            known = self._lengths[stop_words] = Lengths.of(lengths)
        return known

    @property
    def num_docs(self) -> int:
        return len(self.bounds if self.texts is None else self.texts) - 1

    @cached_property
    def dictionary(self) -> SortedDictionary:
        return SortedDictionary(DataType.STRING, self.terms)


class TextIndex(SecondaryIndex):
    """The postings of one or more columns, by name."""

    kind = "text"

    def __init__(self, columns: Mapping[str, Postings]) -> None:
        self._columns = columns

    def find(self, condition: Expression) -> Found | None:
        called = searched(condition)
        if called is None or not isinstance(called.text, Column):
            return None
        postings = self._columns.get(called.text.name)
        if postings is None or postings.case_sensitive != called.options.analysis.case_sensitive:
            return None
        return Found(_Search(postings, called.options.analysis).docs(called.query))

    def texts(self, column: str, analysis: Analysis) -> IndexedTexts | None:
        postings = self._columns.get(column)
        if postings is None or postings.texts is not None or postings.case_sensitive != analysis.case_sensitive:
            return None
        return IndexedTexts(_Search(postings, analysis))


class _Search:
    """Evaluator of queries on postings; single words in a query are never stop words of the analysis.

    Implements `gamay.functions.search.score.Corpus` for columns with one text per row.
    """

    def __init__(self, postings: Postings, analysis: Analysis) -> None:
        self._postings, self._analysis = postings, analysis

    def docs(self, query: SearchQuery) -> BitMap:
        if isinstance(query, Everything):
            return BitMap(range(self._postings.num_docs))
        if isinstance(query, Clauses):
            return self._clauses(query)
        return self._phrase(query) if isinstance(query, Phrase) else self._docs_of_any(self._term_ids(query))

    def _clauses(self, query: Clauses) -> BitMap:
        parts = [self.docs(part) for part in query.must]
        if query.should_min:
            parts.append(self._at_least(query.should_min, [self.docs(part) for part in query.should]))
        found = BitMap.intersection(*parts) if parts else BitMap()
        for part in query.must_not:
            if found:
                found -= self.docs(part)
        return found

    def _at_least(self, count: int, parts: list[BitMap]) -> BitMap:
        if count == 1 or not parts:
            return BitMap.union(*parts) if parts else BitMap()
        counts = np.zeros(self._postings.num_docs, np.int32)
        for part in parts:
            counts[_ids(part)] += 1
        return bitmap_of(np.flatnonzero(counts >= count))

    # -- scores

    def matching(self, query: SearchQuery) -> Rows:
        return _ids(self.docs(query)).astype(np.int64)

    def rows_of(self, texts: Rows) -> int:
        return len(texts)

    def totals(self) -> Totals:
        return self._postings.lengths_without(self._analysis.stop_words).totals

    def lengths(self, texts: Rows) -> Array:
        return self._postings.lengths_without(self._analysis.stop_words).of_texts[texts]

    def frequencies(self, query: Counted, texts: Rows) -> Array:
        postings = self._postings
        if isinstance(query, Phrase):
            elements = [self._term_ids(word) for word in query.words]
            parts = [texts[at : at + _ROWS_AT_ONCE] for at in range(0, len(texts), _ROWS_AT_ONCE)]
            found = [phrase_weights(query, *self._elements(elements, part)) for part in parts]
            return np.concatenate(found) if found else np.empty(0)
        out = np.empty(len(texts), np.int32)
        count_token(postings.tokens, postings.bounds, texts, postings.dictionary.id_of(query.word), out)
        return out

    # -- words

    def _docs_of_any(self, ids: Ids) -> BitMap:
        return self._postings.docs.union(ids) if len(ids) else BitMap()

    def _term_ids(self, wanted: OneWord) -> Ids:
        """Return the terms that match, ascending."""
        dictionary = self._postings.dictionary
        if isinstance(wanted, Term):
            found = dictionary.id_of(wanted.word)
            return np.array([found] if found >= 0 else [], np.int64)
        first, last = self._range(wanted)
        words = self._postings.terms[first:last].view(pa.string())
        return np.flatnonzero(words_matching(wanted, words, self._analysis)) + first

    def _range(self, wanted: Pattern | Similar | Between) -> tuple[int, int]:
        """Return the range [first, last) of the terms with a prefix that can match."""
        between = self._postings.dictionary.id_range
        if isinstance(wanted, Between):
            return between(wanted.lower, wanted.upper, wanted.lower_inclusive, wanted.upper_inclusive)
        prefix = (wanted.prefix if isinstance(wanted, Pattern) else wanted.word[: wanted.prefix]).encode()
        return between(prefix, prefix + _BEYOND, True, False)

    # -- phrases

    def _phrase(self, query: Phrase) -> BitMap:
        elements = [self._term_ids(word) for word in query.words]
        if not all(map(len, elements)):
            return BitMap()
        rows = _ids(BitMap.intersection(*map(self._docs_of_any, elements)))
        flags = [self._holds(query, elements, rows[at : at + _ROWS_AT_ONCE]) for at in range(0, len(rows), _ROWS_AT_ONCE)]
        return BitMap(rows[np.concatenate(flags)]) if flags else BitMap()

    def _holds(self, query: Phrase, elements: list[Ids], rows: Ids) -> Mask:
        """Return which rows have a phrase of these terms: bool [rows]. elements: the terms that match each word."""
        postings = self._postings
        texts, row_bounds = rows.astype(np.int64), None
        if postings.texts is not None:
            firsts, lasts = postings.texts[rows], postings.texts[rows + 1]
            row_bounds = _bounds_of(firsts, lasts)
            texts = _gathered(np.arange(len(postings.bounds) - 1), firsts, lasts, row_bounds)
        found = phrases(query, *self._elements(elements, texts))
        if row_bounds is None:
            return found
        out = np.zeros(len(rows), np.bool_)
        mark_lists(found, row_bounds, out)
        return out

    def _elements(self, elements: list[Ids], texts: Rows) -> tuple[Mask, Ids]:
        """Return which words of some texts are among the terms of each element, and the texts' bounds, as for `phrases`."""
        postings = self._postings
        starts, ends = postings.bounds[texts], postings.bounds[texts + 1]
        bounds = _bounds_of(starts, ends)
        tokens = _gathered(postings.tokens, starts, ends, bounds)
        return np.array([self._marks(ids, tokens) for ids in elements]), bounds

    def _marks(self, ids: Ids, tokens: Ids) -> Mask:
        marks: Mask
        if len(ids) == 1:
            marks = tokens == ids[0]
        else:
            table = np.zeros(len(self._postings.terms), np.bool_)
            table[ids] = True
            marks = table[tokens]
        return marks


def _ids(docs: BitMap) -> Ids:
    return np.frombuffer(docs.to_array(), np.uint32)


def _bounds_of(starts: Ids, ends: Ids) -> Ids:
    bounds = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(ends - starts, out=bounds[1:])
    return bounds


def _gathered(values: Ids, starts: Ids, ends: Ids, bounds: Ids) -> Ids:
    out = np.empty(bounds[-1], values.dtype)
    gather_lists(values, starts, ends, out)
    return out
