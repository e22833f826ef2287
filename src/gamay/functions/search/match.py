"""Matching of queries with many texts.

Most texts lack the parts that a match must contain, which is tested on their bytes. Only the others are split into words.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base import guard
from gamay.base.arrays import Array, Mask
from gamay.functions.arrow import binary_buffers
from gamay.functions.regex import re2
from gamay.functions.regex.like_parts import LikeParts
from gamay.functions.search.query import (
    Between,
    Clauses,
    Everything,
    Leaf,
    OneWord,
    Pattern,
    Phrase,
    SearchQuery,
    Similar,
    Term,
)
from gamay.functions.search.words import ASCII_MAX, Analysis, Words, lower_case, words_of
from gamay.functions.vector import Values, take
from gamay.kernels.text import words as kernels

Rows: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

# the least ratio of all texts to those queried, from which the latter are copied before they are searched
_FEW = 4
_SAMPLED = 64


def matching(query: SearchQuery, texts: Values, analysis: Analysis) -> Mask:
    """Return which texts (StringArray) a query matches: bool [n]."""
    return _Matcher(texts, analysis).flags(query, np.arange(len(texts)))


class _Matcher:
    """Matcher of queries with some texts."""

    def __init__(self, texts: Values, analysis: Analysis) -> None:
        self._analysis = analysis
        is_ascii = binary_buffers(texts)[1].max(initial=0) <= ASCII_MAX
        # non-ASCII letters change their bytes with their case, so that parts are searched in lower-case texts
        self._ignore_case = is_ascii and not analysis.case_sensitive
        self._texts = texts if is_ascii or analysis.case_sensitive else lower_case(texts)

    def flags(self, query: SearchQuery, rows: Rows) -> Mask:
        """Return which of some texts a query matches: bool [rows]. Raises QueryError if the query ends meanwhile."""
        guard.check()
        if isinstance(query, Everything):
            return np.ones(len(rows), np.bool_)
        if isinstance(query, Clauses):
            return self._clauses(query, rows)
        found = np.zeros(len(rows), np.bool_)
        candidates = self._candidates(_parts(query), rows)
        if len(candidates):
            found[candidates] = self._holds(query, self._words(rows[candidates]))
        return found

    def _clauses(self, query: Clauses, rows: Rows) -> Mask:
        left = np.arange(len(rows))
        for part in query.must:  # each tests only the texts that matched the earlier ones
            left = left[self.flags(part, rows[left])]
        if query.should_min == 1:
            left = left[self._any(query.should, rows[left])]
        elif query.should_min:
            counts = np.zeros(len(left), np.int64)
            for part in query.should:
                counts += self.flags(part, rows[left])
            left = left[counts >= query.should_min]
        for part in query.must_not:
            left = left[~self.flags(part, rows[left])]
        found = np.zeros(len(rows), np.bool_)
        found[left] = True
        return found

    def _any(self, parts: Sequence[SearchQuery], rows: Rows) -> Mask:
        found = np.zeros(len(rows), np.bool_)
        for part in parts:
            rest = np.flatnonzero(~found)
            found[rest] = self.flags(part, rows[rest])
        return found

    def _candidates(self, parts: Sequence[str], rows: Rows) -> Rows:
        """Return the positions in `rows` of the texts that contain all parts."""
        left = np.arange(len(rows))
        needed_parts = [LikeParts.of([part], False, False, ignore_case=self._ignore_case) for part in parts]
        if len(parts) > 1 and len(rows) > _SAMPLED:
            # the parts that are rarest in a sample are searched first
            some = take(self._texts, rows[:: len(rows) // _SAMPLED])
            needed_parts.sort(key=lambda needed: np.count_nonzero(needed.holds(some)))
        for needed in needed_parts:
            if len(left) == 0:
                break
            if len(left) * _FEW < len(self._texts):
                left = left[needed.holds(take(self._texts, rows[left]))]
            else:
                left = left[needed.holds(self._texts)[rows[left]]]
        return left

    def _words(self, rows: Rows) -> Words:
        texts = self._texts if len(rows) == len(self._texts) else take(self._texts, rows)
        return words_of(lower_case(texts) if self._ignore_case else texts)

    def _holds(self, query: Leaf, words: Words) -> Mask:
        """Return which of the texts with these words match: bool [texts]."""
        marks = Marks(words, self._analysis)
        if not isinstance(query, Phrase):
            return words.counts(marks.of(query)) > 0
        return phrases(query, np.array([marks.of(word) for word in query.words]), words.bounds)


class Marks:
    """Matcher of single words; each distinct word is tested once, except against a plain term."""

    def __init__(self, words: Words, analysis: Analysis) -> None:
        self._words, self._analysis = words, analysis
        self._distinct: tuple[Array, pa.StringArray] | None = None

    def of(self, wanted: OneWord) -> Mask:
        """Return which words match: bool [words]."""
        if isinstance(wanted, Term):
            return self._words.equal(wanted.word)
        if self._distinct is None:
            self._distinct = self._words.distinct()
        codes, entries = self._distinct
        marks: Mask = words_matching(wanted, entries, self._analysis)[codes]
        return marks


def words_matching(wanted: Pattern | Similar | Between, words: pa.StringArray, analysis: Analysis) -> Mask:
    """Return which of several distinct words match: bool [words]. Stop words do not, as Lucene's index lacks them."""
    stop_words = pa.array(sorted(analysis.stop_words), pa.string())
    found: Mask = _TESTS[type(wanted)](wanted, words) & ~np.asarray(pc.is_in(words, value_set=stop_words))
    return found


def _matches_pattern(wanted: Pattern, entries: pa.StringArray) -> Mask:
    if not wanted.parts:
        every: Mask = re2.found(entries, wanted.regex)
        return every
    found: Mask = LikeParts.of(wanted.parts, False, False, ignore_case=False).holds(entries)
    candidates = np.flatnonzero(found)
    found[candidates] = re2.found(take(entries, candidates), wanted.regex)
    return found


def _is_similar(wanted: Similar, entries: pa.StringArray) -> Mask:
    offsets, data = binary_buffers(entries)
    out = np.empty(len(entries), np.bool_)
    word = np.array(list(map(ord, wanted.word)), np.int64)
    buffers = np.empty((3, len(word) + 1), np.int64)
    kernels.similar_words(np.array(data), offsets, word, wanted.edits_max, wanted.prefix, buffers, out)
    return out


def _is_between(wanted: Between, entries: pa.StringArray) -> Mask:
    out = np.ones(len(entries), np.bool_)
    if wanted.lower is not None:
        compare = pc.greater_equal if wanted.lower_inclusive else pc.greater
        out &= np.asarray(compare(entries, wanted.lower))
    if wanted.upper is not None:
        compare = pc.less_equal if wanted.upper_inclusive else pc.less
        out &= np.asarray(compare(entries, wanted.upper))
    return out


_TESTS: dict[type, Callable[[Any, pa.StringArray], Mask]] = {
    Pattern: _matches_pattern,
    Similar: _is_similar,
    Between: _is_between,
}


def _parts(query: Leaf) -> tuple[str, ...]:
    """Return the parts that each matching text contains, the longest first, as it is the rarest."""
    if isinstance(query, Term):
        return (query.word,)
    if isinstance(query, Pattern):
        return tuple(sorted(query.parts, key=len, reverse=True))
    if isinstance(query, Phrase):
        parts = {part for word in query.words for part in _parts(word)}
        return tuple(sorted(parts, key=lambda part: (-len(part), part)))
    return ()


def phrases(query: Phrase, marks: Mask, bounds: Array) -> Mask:
    """Return which texts have a phrase: bool [texts].

    marks: bool [words of the phrase, words], which words of the texts match each. bounds: int32 [texts + 1], see `Words`.
    """
    return phrase_weights(query, marks, bounds, once=True) > 0


def phrase_weights(query: Phrase, marks: Mask, bounds: Array, *, once: bool = False) -> Array:
    """Return the frequency of a phrase in each text; occurrences with words out of place count less.

    once: only whether a text has the phrase matters. The other arguments: see `phrases`.
    """
    return _in_a_row(marks, query.places, bounds) if query.slop == 0 else _near(marks.view(np.uint8), query, bounds, once)


def _in_a_row(elements: Array, places: Sequence[int], bounds: Array) -> Array:
    """Return how often texts have words at the distances of the phrase: int32 [texts]."""
    size, num_words = places[-1], elements.shape[1]
    if num_words <= size:
        return np.zeros(len(bounds) - 1, np.int32)
    starts = elements[0, : num_words - size].copy()
    for marks, place in zip(elements[1:], places[1:], strict=True):
        starts &= marks[place : num_words - size + place]
    before = np.zeros(num_words + 1, np.int32)
    np.cumsum(starts, out=before[1 : len(starts) + 1])
    before[len(starts) + 1 :] = before[len(starts)]
    first = bounds[:-1]
    # the last position at which the phrase can begin and still end in the same text
    stop = np.maximum(bounds[1:] - size, first)
    found: Array = before[stop] - before[first]
    return found


def _near(elements: Array, query: Phrase, bounds: Array, once: bool) -> Array:
    out = np.empty(len(bounds) - 1)
    earlier = [max((k for k in range(e) if query.words[k] == word), default=-1) for e, word in enumerate(query.words)]
    places = np.array(query.places, np.int64)
    kernels.weigh_phrases(elements, bounds, places, np.array(earlier, np.int64), query.slop, query.in_order, once, out)
    return out
