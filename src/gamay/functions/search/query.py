"""What is searched: a tree of conditions on the words of one text.

The boost of a condition, from 0, is what its part of the score is multiplied by; it does not matter to what matches.
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
    """A word that matches as a whole.

    regex: as RE2 reads it. parts: what each such word contains, one behind the other. prefix: what each begins with.
    """

    regex: str
    parts: tuple[str, ...] = ()
    prefix: str = ""
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Similar:
    """A word that at most so many edits make this one; its first `prefix` characters are the same."""

    word: str
    edits_max: int
    prefix: int = 0
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Between:
    """A word between two, by their UTF-8 bytes; None is no bound."""

    lower: str | None
    upper: str | None
    lower_inclusive: bool
    upper_inclusive: bool
    boost: float = 1.0


OneWord: TypeAlias = Term | Pattern | Similar | Between


@dataclass(frozen=True, slots=True)
class Phrase:
    """At least two words, one near the other.

    places: where each stands, from 0, ascending. slop: how far each may be behind its place, counted from the one that is
    farthest ahead. in_order: they come one after the other, and none is ahead of its place as counted from the first.
    """

    words: tuple[OneWord, ...]
    places: tuple[int, ...]
    slop: int
    in_order: bool
    boost: float = 1.0


Leaf: TypeAlias = OneWord | Phrase


@dataclass(frozen=True, slots=True)
class Clauses:
    """All of `must` match, none of `must_not`, and at least `should_min` of `should`."""

    must: tuple["SearchQuery", ...]
    should: tuple["SearchQuery", ...]
    must_not: tuple["SearchQuery", ...]
    should_min: int


@dataclass(frozen=True, slots=True)
class Everything:
    """Every text."""

    boost: float = 1.0


SearchQuery: TypeAlias = Leaf | Clauses | Everything

NO_TEXT = Clauses((), (), (), 1)
"""What no text matches."""


def clauses(
    must: "list[SearchQuery]", should: "list[SearchQuery]", must_not: "list[SearchQuery]", should_min: int = 0
) -> SearchQuery:
    """Join conditions; one of `should` is enough, and needed only where nothing must match, unless more are asked for."""
    if not must and not should:
        return NO_TEXT
    needed = max(should_min, 0 if must else 1)
    if not must_not and len(must) + len(should) == 1 and needed == len(should):
        return (must or should)[0]
    return Clauses(tuple(must), tuple(should), tuple(must_not), needed)


def boosted(query: SearchQuery, factor: float) -> SearchQuery:
    """Return a condition whose boost is so many times as high."""
    if not isinstance(query, Clauses):
        return replace(query, boost=query.boost * factor)
    must, should = (tuple([boosted(part, factor) for part in parts]) for parts in (query.must, query.should))
    return Clauses(must, should, query.must_not, query.should_min)
