"""Queries of a JSON index: from conditions such as JSON_MATCH to docs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from pyroaring import BitMap

from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.scalar.json.conditions import Condition, Leaf, Path
from gamay.functions.scalar.json.match import json_filter
from gamay.model.index.json_index import JsonIndexConfig, Levels
from gamay.segment.secondary.json_index.extracted import Comparison, comparison
from gamay.segment.secondary.json_index.files import StoredTerms
from gamay.segment.spi import Found, Ids, SecondaryIndex

# If one part of a conjunction selects few docs, reading their documents is cheaper than a union of this many times more
# docs.
_WORTH_UNITING = 50
_FEW_DOCS = 20
# Candidates do not help if they are more than one doc in this number.
_SELECTIVE = 2

Loaded: TypeAlias = tuple[BitMap, bool]
"""Docs for which a condition may hold, and whether it certainly holds for all of them."""


@dataclass(frozen=True)
class Answer:
    """The docs for which a condition may hold, about `count` of them; `load` computes them.

    is_single: whether all flattened documents of a doc have the same values, because no array is on the path.
    """

    count: int
    load: Callable[[], Loaded]
    is_single: bool


class JsonIndex(SecondaryIndex):
    """The values of a column's documents by path."""

    kind = "json"

    def __init__(self, column: str, terms: StoredTerms, config: JsonIndexConfig) -> None:
        self._column = Column(column)
        self._terms = terms
        self._config = config

    def find(self, condition: Expression) -> Found | None:
        if not isinstance(condition, Call):
            return None
        if condition.name == "not":
            found = self.find(condition.args[0])
            return Found(self._others(found.docs)) if found is not None and found.is_exact else None
        if condition.name != "jsonmatch":
            compared = comparison(condition, self._column)
            return None if compared is None or not self._config.holds(compared.levels) else self._compared(compared)
        text = condition.args[1]
        is_known = condition.args[0] == self._column and isinstance(text, Literal) and isinstance(text.value, str)
        return self._match(str(text.value)) if is_known else None  # type: ignore[union-attr]

    def _match(self, text: str) -> Found | None:
        wanted = json_filter("jsonMatch", text)
        answer = self._answer(wanted.test)
        if answer is None:
            return None
        docs, is_exact = answer.load()
        if wanted.absent:
            if not is_exact:
                return None
            docs = self._others(docs) - self._terms.rare_docs.get(0)
        return self._found(docs, is_exact)

    def _compared(self, wanted: Comparison) -> Found | None:
        path, first, last = self._terms.path(wanted.levels) or (None, 0, 0)
        present = BitMap() if path is None else self._terms.path_docs.get(path)
        if wanted.if_missing is not False and (
            wanted.has_positions or (wanted.if_missing is None and len(present) < self._terms.num_docs)
        ):
            return None
        if wanted.texts:
            fits = self._places(wanted.texts, first, last)
        else:
            fits = np.flatnonzero(wanted.may_fit(self._terms.numbers[first:last])) + first
        if int(self._terms.docs.counts[fits].sum()) * _SELECTIVE > self._terms.num_docs and not wanted.texts:
            return None
        docs, is_exact = self._terms.docs.union(fits), bool(wanted.texts) and not wanted.has_positions
        is_short = wanted.texts and max(map(len, wanted.texts)) <= self._config.max_value_length
        if path is not None and not is_short:
            long = self._terms.long_docs.get(path)
            docs, is_exact = docs | long, is_exact and not long
        if wanted.if_missing:  # also if there is an object or array, whose text is not in the index
            docs, is_exact = docs | self._others(present), False
        return self._found(docs, is_exact)

    def _found(self, docs: BitMap, is_exact: bool) -> Found | None:
        """Return docs together with those that the index cannot decide; None if these are too many."""
        if unread := self._terms.rare_docs.get(1):
            docs, is_exact = docs | unread, False
        return Found(docs, is_exact) if is_exact or len(docs) * _SELECTIVE <= self._terms.num_docs else None

    def _others(self, docs: BitMap) -> BitMap:
        return docs.flip(0, self._terms.num_docs)

    def _answer(self, condition: Condition) -> Answer | None:
        if isinstance(condition, Leaf):
            return self._of_leaf(condition)
        parts = [self._answer(part) for part in condition.parts]
        known = [part for part in parts if part is not None]
        if condition.is_and:
            return _all_of(known, is_whole=len(known) == len(parts)) if known else None
        return _any_of(known) if len(known) == len(parts) else None

    def _of_leaf(self, leaf: Leaf) -> Answer | None:
        levels = levels_of_steps(leaf.path)
        if not self._config.holds(levels):
            return None
        is_single = all(kind == "key" for kind, _ in leaf.path)
        is_exact = all(kind != "index" for kind, _ in leaf.path)  # the index has no positions
        place = self._terms.path(levels)
        if place is None:
            return Answer(0, lambda: (BitMap(), True), is_single)
        path, first, last = place
        in_all, num_long = self._terms.path_docs.counts.item(path), self._terms.long_docs.counts.item(path)
        fits = np.arange(first, last) if leaf.fits_any else self._fitting(leaf, first, last)
        count = int(self._terms.docs.counts[fits].sum())
        if leaf.fits_any or (len(fits) == last - first and not num_long):
            return Answer(in_all, lambda: (self._terms.path_docs.get(path), is_exact), is_single)
        if num_long and not _is_short(leaf, self._config.max_value_length):
            return Answer(count + num_long, partial(self._with_long, path, fits), is_single)
        if is_single and not num_long and in_all < 2 * count:
            rest = np.setdiff1d(np.arange(first, last), fits, assume_unique=True)
            return Answer(count, partial(self._but, path, rest), is_single)
        return Answer(count, lambda: (self._terms.docs.union(fits), is_exact), is_single)

    def _with_long(self, path: int, terms: Ids) -> Loaded:
        return self._terms.docs.union(terms) | self._terms.long_docs.get(path), False

    def _but(self, path: int, terms: Ids) -> Loaded:
        return self._terms.path_docs.get(path) - self._terms.docs.union(terms), True

    def _fitting(self, leaf: Leaf, first: int, last: int) -> Ids:
        """Return the terms in [first, last) of a path that satisfy a test: int64, ascending."""
        if leaf.listed is not None:
            found = self._places(leaf.listed, first, last)
            return np.setdiff1d(np.arange(first, last), found, assume_unique=True) if leaf.is_negated else found
        if leaf.compare is not None:
            compare, bounds = leaf.compare
            return np.flatnonzero(compare(self._terms.numbers[first:last], bounds)) + first
        return np.flatnonzero(leaf.test_texts(self._terms.texts.array(first, last))) + first

    def _places(self, texts: Iterable[str], first: int, last: int) -> Ids:
        """Return the terms in [first, last) with one of some texts: int64, ascending."""
        places = (self._terms.texts.place_of(text.encode(), first, last) for text in texts)
        return np.unique(np.array([place for place in places if place >= 0], np.int64))


def levels_of_steps(path: Path) -> Levels:
    """Return a path without array positions."""
    return tuple(name if kind == "key" else None for kind, name in path)


def _is_short(leaf: Leaf, length_max: int) -> bool:
    """Whether no value longer than `length_max` can satisfy a test."""
    return leaf.listed is not None and not leaf.is_negated and all(len(text) <= length_max for text in leaf.listed)


def _all_of(parts: Sequence[Answer], *, is_whole: bool) -> Answer:
    """Return the docs where all parts may hold in one flattened document. is_whole: whether there are no other parts."""
    ordered = sorted(parts, key=lambda part: part.count)

    def load() -> Loaded:
        docs, is_exact = ordered[0].load()
        is_exact = is_exact and is_whole and sum(not part.is_single for part in parts) <= 1
        for part in ordered[1:]:
            if part.count > _WORTH_UNITING * max(len(docs), _FEW_DOCS):
                is_exact = False
                continue
            more, more_is_exact = part.load()
            docs, is_exact = docs & more, is_exact and more_is_exact
        return docs, is_exact

    return Answer(ordered[0].count, load, all(part.is_single for part in parts))


def _any_of(parts: Sequence[Answer]) -> Answer:
    def load() -> Loaded:
        loaded = [part.load() for part in parts]
        return BitMap.union(*(docs for docs, _ in loaded)), all(is_exact for _, is_exact in loaded)

    return Answer(sum(part.count for part in parts), load, all(part.is_single for part in parts))
