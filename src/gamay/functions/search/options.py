"""Search options: from the column's text index config, and the third argument of TEXT_MATCH."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gamay.base.errors import nearest
from gamay.base.recently_used import remembered
from gamay.functions.arguments import wrong
from gamay.functions.search.words import STOP_WORDS, Analysis

NAME = "textMatch"
_log = logging.getLogger(__name__)
PARSERS = ("CLASSIC", "STANDARD", "COMPLEX", "MATCHPHRASE", "MATCH")
EDITS_DEFAULT = 2.0


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The options by which a query is parsed and matched.

    parser: one of PARSERS. needs_all: words without an operator between them are joined by AND. allow_leading: `*` and
    `?` may begin a word. phrase_slop: default slop of phrases. auto_phrases: a token that is split into words is a
    phrase. min_similarity, fuzzy_prefix: of `word~`. slop, in_order, prefix_last: of the only phrase of MATCHPHRASE
    (in_order also of phrases of COMPLEX). should_min: the number of words of MATCH that must match: `2`, `-1`, `75%`.
    open_phrases: the first word of a phrase matches as a suffix, and the last one as a prefix.
    """

    parser: str = "CLASSIC"
    needs_all: bool = False
    allow_leading: bool = False
    phrase_slop: int = 0
    auto_phrases: bool = False
    min_similarity: float = EDITS_DEFAULT
    fuzzy_prefix: int = 0
    slop: int = 0
    in_order: bool = True
    prefix_last: bool = False
    should_min: str = ""
    open_phrases: bool = False
    analysis: Analysis = field(default_factory=Analysis)


def _flag(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return value.lower() == "true"


def _count(value: str) -> int:
    if not value.isdecimal():
        raise ValueError("a whole number from 0")
    return int(value)


def _similarity(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number <= EDITS_DEFAULT:
        raise ValueError("0, 1 or 2 edits, or a share below 1 that stays the same")
    return number


def _operator(value: str) -> bool:
    if value.upper() not in ("AND", "OR"):
        raise ValueError("AND or OR")
    return value.upper() == "AND"


def _parser(value: str) -> str:
    if value.upper() not in PARSERS:
        raise ValueError(f"one of {', '.join(PARSERS)}")
    return value.upper()


def _share(value: str) -> str:
    if not value.removesuffix("%").removeprefix("-").isdecimal():
        raise ValueError("a number of words such as 2 or -1, or a share such as 75%")
    return value


_OPTIONS: Mapping[str, tuple[str, Any]] = {
    "parser": ("parser", _parser),
    "defaultOperator": ("needs_all", _operator),
    "allowLeadingWildcard": ("allow_leading", _flag),
    "phraseSlop": ("phrase_slop", _count),
    "autoGeneratePhraseQueries": ("auto_phrases", _flag),
    "fuzzyMinSim": ("min_similarity", _similarity),
    "fuzzyPrefixLength": ("fuzzy_prefix", _count),
    "slop": ("slop", _count),
    "inOrder": ("in_order", _flag),
    "enablePrefixMatch": ("prefix_last", _flag),
    "minimumShouldMatch": ("should_min", _share),
}
_BY_FOLDED = {name.lower(): name for name in _OPTIONS}


@remembered()
def search_options(options: str, settings: str) -> SearchOptions:
    """Return the search options, from the third argument of TEXT_MATCH and the column's settings (`of_column`).

    Raises QueryError for an invalid value of an option; an unknown option is logged and ignored.
    """
    found = _of_settings(json.loads(settings)) if settings else SearchOptions()
    given: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in options.split(","))):
        key, is_pair, value = (piece.strip() for piece in part.partition("="))
        if not is_pair:
            raise wrong(NAME, f"'{part}' is not an option; write key=value, separated by commas")
        name = _BY_FOLDED.get(key.lower())
        if name is None:
            _log.warning("TEXT_MATCH has no option '%s', which is ignored.%s", key, nearest(key, _OPTIONS))
            continue
        attribute, read = _OPTIONS[name]
        try:
            given[attribute] = read(value)
        except ValueError as error:
            raise wrong(NAME, f"the option {name} must be {error}, not '{value}'") from None
    return replace(found, **given)


def _of_settings(settings: Mapping[str, Any]) -> SearchOptions:
    case_sensitive = bool(settings.get("caseSensitive"))
    more, fewer = (settings.get(key, ()) for key in ("stopWordsInclude", "stopWordsExclude"))
    return SearchOptions(
        needs_all=bool(settings.get("useANDForMultiTermQueries")),
        open_phrases=bool(settings.get("enablePrefixSuffixMatchingInPhraseQueries")),
        analysis=Analysis((STOP_WORDS | _folded(more, case_sensitive)) - _folded(fewer, case_sensitive), case_sensitive),
    )


def _folded(words: Sequence[str], case_sensitive: bool) -> frozenset[str]:
    return frozenset(words) if case_sensitive else frozenset(map(Analysis().normal, words))
