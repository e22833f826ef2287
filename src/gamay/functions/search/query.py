"""What is searched: a tree of conditions on the words of one text."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Term:
    """A word."""

    word: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """A word that matches as a whole.

    regex: as RE2 reads it. parts: what each such word contains, one behind the other. prefix: what each begins with.
    """

    regex: str
    parts: tuple[str, ...] = ()
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Similar:
    """A word that at most so many edits make this one; its first `prefix` characters are the same."""

    word: str
    edits_max: int
    prefix: int = 0


@dataclass(frozen=True, slots=True)
class Between:
    """A word between two, by their UTF-8 bytes; None is no bound."""

    lower: str | None
    upper: str | None
    lower_inclusive: bool
    upper_inclusive: bool


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
