"""Search queries: trees of conditions on the words of one text.

The boost of a condition, at least 0, is the factor of its part of the score; it does not affect what matches.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Term:
    """A word."""

    word: str
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Pattern:
    """A word that matches a pattern as a whole.

    regex: in RE2's syntax. parts: texts that each such word contains, in order. prefix: the common prefix of such words.
    """

    regex: str
    parts: tuple[str, ...] = ()
    prefix: str = ""
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Similar:
    """A word that at most `edits_max` edits turn into this one; the first `prefix` characters are equal."""

    word: str
    edits_max: int
    prefix: int = 0
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Between:
    """A word between two, by their UTF-8 bytes; None for no bound."""

    lower: str | None
    upper: str | None
    lower_inclusive: bool
    upper_inclusive: bool
    boost: float = 1.0


OneWord: TypeAlias = Term | Pattern | Similar | Between


@dataclass(frozen=True, slots=True)
class Phrase:
    """At least two words near each other.

    places: the position of each, from 0, ascending. slop: how far each may lag behind its position, relative to the one
    that is farthest ahead. in_order: they follow each other, and none is ahead of its position relative to the first.
    """

    words: tuple[OneWord, ...]
    places: tuple[int, ...]
    slop: int
    in_order: bool
    boost: float = 1.0


Leaf: TypeAlias = OneWord | Phrase


@dataclass(frozen=True, slots=True)
class Clauses:
    """A conjunction: all of `must` match, none of `must_not`, and at least `should_min` of `should`."""

    must: tuple["SearchQuery", ...]
    should: tuple["SearchQuery", ...]
    must_not: tuple["SearchQuery", ...]
    should_min: int


@dataclass(frozen=True, slots=True)
class Everything:
    """A condition that every text matches."""

    boost: float = 1.0


SearchQuery: TypeAlias = Leaf | Clauses | Everything

NO_TEXT = Clauses((), (), (), 1)
"""A query that no text matches."""


def clauses(
    must: "list[SearchQuery]", should: "list[SearchQuery]", must_not: "list[SearchQuery]", should_min: int = 0
) -> SearchQuery:
    """Join conditions; of `should`, one must match if nothing else must, or `should_min` if that is more."""
    if not must and not should:
        return NO_TEXT
    needed = max(should_min, 0 if must else 1)
    if not must_not and len(must) + len(should) == 1 and needed == len(should):
        return (must or should)[0]
    return Clauses(tuple(must), tuple(should), tuple(must_not), needed)


def boosted(query: SearchQuery, factor: float) -> SearchQuery:
    """Return a condition with its boost multiplied by a factor."""
    if not isinstance(query, Clauses):
        return replace(query, boost=query.boost * factor)
    must, should = (tuple([boosted(part, factor) for part in parts]) for parts in (query.must, query.should))
    return Clauses(must, should, query.must_not, query.should_min)
