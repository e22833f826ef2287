"""The syntax of Lucene's classic query parser: `error AND (disk OR "out of memory"~2) -test* name:[a TO f] /re.*/ wrod~1`.

query  := clause (["AND" | "&&" | "OR" | "||"] clause)*
clause := ["+" | "-" | "!" | "NOT"] [field ":"] (word | phrase | range | regex | "(" query ")") ["~" [number]] ["^" number]
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gamay.base.errors import QueryError
from gamay.base.recently_used import remembered
from gamay.functions.arguments import wrong
from gamay.functions.regex.matching import check_length
from gamay.functions.search.options import EDITS_DEFAULT, NAME, SearchOptions
from gamay.functions.search.patterns import regex_pattern, wildcard
from gamay.functions.search.query import (
    NO_TEXT,
    Between,
    Everything,
    OneWord,
    Phrase,
    SearchQuery,
    Similar,
    Term,
    boosted,
    clauses,
)

_SPACE = " \\t\\n\\r\u3000"
_NO_WORD = _SPACE + r'!():^\[\]"{}~*?\\/'
_WORD = rf"(?:[^+\-{_NO_WORD}]|\\.|[*?])(?:[^{_NO_WORD}]|\\.|[*?])*"
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_LEXEMES = re.compile(
    rf"""
    (?P<space>[{_SPACE}]+)
    | (?P<quoted>{_QUOTED})
    | (?P<regex>/(?:[^/\\]|\\.)*/)
    | (?P<range>[\[{{][ ]*(?P<lower>{_QUOTED}|[^\s\]}}]+)[ ]+(?:TO[ ]+)?(?P<upper>{_QUOTED}|[^\s\]}}]+)[ ]*[\]}}])
    | (?P<bare>[+\-!](?=[{_SPACE}]))
    | (?P<sign>[+\-!():])
    | (?P<boost>\^[0-9]+(?:\.[0-9]+)?)
    | (?P<fuzzy>~(?:[0-9]+(?:\.[0-9]+)?)?)
    | (?P<word>{_WORD})
    """,
    re.VERBOSE | re.DOTALL,
)
_AND, _OR, _NOT = ("AND", "&&"), ("OR", "||"), ("NOT", "!", "-")
_NESTED_MAX = 100
_PIECE = re.compile(r"(?:\\.|[^\s\\])+", re.DOTALL)
_PIECE_FUZZY = re.compile(r"~([0-9]*\.?[0-9]*)$")


@dataclass(frozen=True, slots=True)
class _Lexeme:
    """A token. kind: as named in the pattern, "operator" for AND, OR and NOT, or "end"; at: its position, from 0."""

    kind: str
    text: str
    at: int
    bounds: tuple[str, str] = ("", "")


@remembered()
def search_query(text: str, options: SearchOptions, column: str) -> SearchQuery:
    """Parse a query. column: the field name that may precede a colon. Raises QueryError if the query is invalid."""
    check_length(text)
    if not text.strip():
        raise wrong(NAME, "the query is empty; write words to search for, or '*:*' for every row")
    if options.parser == "MATCHPHRASE":
        return _whole_phrase(text, options)
    if options.parser == "MATCH":
        return _words(text, options)
    return _Reader(text, options, column).read()


# -- queries without syntax


def _whole_phrase(text: str, options: SearchOptions) -> SearchQuery:
    found = options.analysis.words(text)
    words: list[OneWord] = [Term(word) for _, word in found]
    if words and options.prefix_last:
        words[-1] = wildcard(found[-1][1], ends=True)
    return _phrase(words, [place for place, _ in found], options.slop, in_order=options.in_order) or NO_TEXT


def _words(text: str, options: SearchOptions) -> SearchQuery:
    words: list[SearchQuery] = [Term(word) for _, word in options.analysis.words(text)]
    if options.needs_all:
        return clauses(words, [], [])
    return clauses([], words, [], _least(options.should_min, len(words)))


def _least(share: str, count: int) -> int:
    """Return the number of words that a share such as `2`, `-1` or `75%` of `count` words means."""
    if not share:
        return 0
    number = int(share.removesuffix("%"))
    if share.endswith("%"):
        number = abs(number) * count // 100 * (-1 if number < 0 else 1)
    return max(0, min(count, count + number if share.startswith("-") else number))


def _phrase(words: Sequence[OneWord], places: Sequence[int], slop: int, *, in_order: bool) -> SearchQuery | None:
    if len(words) < 2:
        return words[0] if words else None
    return Phrase(tuple(words), tuple(place - places[0] for place in places), slop, in_order)


# -- the syntax


class _Reader:
    """Parser of one query."""

    def __init__(self, text: str, options: SearchOptions, column: str) -> None:
        self._text, self._options, self._column = text, options, column
        self._analysis = options.analysis
        self._lexemes = list(self._split())
        self._next = 0
        self._depth = 0

    def read(self) -> SearchQuery:
        found = self._query()
        if self._lexeme.kind != "end":
            raise self._wrong(f"'{self._lexeme.text}' has no opening parenthesis")
        return NO_TEXT if found is None else found

    def _split(self) -> Iterator[_Lexeme]:
        at = 0
        while at < len(self._text):
            match = _LEXEMES.match(self._text, at)
            if match is None:
                raise self._unread(at)
            kind, found = str(match.lastgroup), match[0]
            if match["range"] is not None:
                yield _Lexeme("range", found, at, (match["lower"], match["upper"]))
            elif kind == "word" and found in (*_AND, *_OR, "NOT"):
                yield _Lexeme("operator", found, at)
            elif kind != "space":
                yield _Lexeme(kind, found, at)
            at = match.end()
        yield _Lexeme("end", "", at)

    def _unread(self, at: int) -> QueryError:
        char = self._text[at]
        hints = {
            '"': 'the phrase has no end; write \\" to search for a quotation mark',
            "/": "the regular expression has no end; write \\/ to search for a slash",
            "[": "a range is written [a TO b]; write \\[ to search for a bracket",
            "{": "a range is written {a TO b}; write \\{ to search for a brace",
            "^": "a boost must be a number: word^2",
            "\\": "a backslash must precede the character that it escapes",
        }
        return self._wrong(hints.get(char, f"'{char}' is not allowed here; write \\{char} to search for it"), at)

    def _wrong(self, detail: str, at: int | None = None) -> QueryError:
        place = self._lexeme.at if at is None else at
        return wrong(NAME, f"{detail} (at character {place + 1} of '{self._text}')")

    @property
    def _lexeme(self) -> _Lexeme:
        return self._lexemes[self._next]

    def _take(self, kind: str, *texts: str) -> _Lexeme | None:
        """Return the next token and advance, if it is of this kind."""
        lexeme = self._lexeme
        if lexeme.kind != kind or (texts and lexeme.text not in texts):
            return None
        self._next += 1
        return lexeme

    def _query(self) -> SearchQuery | None:
        """Parse clauses up to a closing parenthesis, or the end; None if all consist of stop words."""
        self._depth += 1
        if self._depth > _NESTED_MAX:
            raise self._wrong(f"parentheses nest at most {_NESTED_MAX} deep")
        # each with its sign: "+", "-", or none; decided clause by clause, as by the classic parser
        found: list[tuple[str, SearchQuery]] = []
        is_first = True
        while is_first or not (self._lexeme.kind == "end" or self._lexeme.text == ")"):
            joined = "" if is_first else self._conjunction()
            is_first = False
            is_needed = self._take("sign", "+") is not None
            is_excluded = not is_needed and self._negation()
            query = self._clause()
            if found and found[-1][0] != "-":
                if joined == "AND":
                    found[-1] = "+", found[-1][1]
                elif joined == "OR" and self._options.needs_all:
                    found[-1] = "", found[-1][1]
            if query is None:
                continue
            if self._options.needs_all:
                is_needed = joined != "OR"
            else:
                is_needed = is_needed or joined == "AND"
            found.append(("-" if is_excluded else "+" if is_needed else "", query))
        self._depth -= 1
        if not found:
            return None
        must, should, must_not = ([query for sign, query in found if sign == wanted] for wanted in ("+", "", "-"))
        return clauses(must, should, must_not)

    def _conjunction(self) -> str:
        lexeme = self._take("operator", *_AND, *_OR)
        return "" if lexeme is None else "AND" if lexeme.text in _AND else "OR"

    def _negation(self) -> bool:
        return self._take("sign", *_NOT) is not None or self._take("operator", *_NOT) is not None

    def _clause(self) -> SearchQuery | None:
        self._field()
        if self._take("sign", "("):
            found = self._query()
            if not self._take("sign", ")"):
                raise self._wrong("a parenthesis is not closed")
            return self._boosted(found)
        lexeme = self._lexeme
        if lexeme.kind not in ("word", "quoted", "regex", "range", "bare"):
            what = "the end" if lexeme.kind == "end" else f"'{lexeme.text}'"
            raise self._wrong(f"a word or a phrase is missing before {what}")
        self._next += 1
        if lexeme.text == "*" and self._names_all:
            return self._boosted(Everything())
        before = self._take("boost")
        fuzzy = self._take("fuzzy") if lexeme.kind in ("word", "quoted", "regex") else None
        return self._boosted(self._single(lexeme, fuzzy), before)

    def _boosted(self, query: SearchQuery | None, before: _Lexeme | None = None) -> SearchQuery | None:
        """Return a condition with the boost that follows, or that preceded `~`."""
        boost = self._take("boost") or before
        return query if query is None or boost is None else boosted(query, float(boost.text[1:]))

    def _single(self, lexeme: _Lexeme, fuzzy: _Lexeme | None) -> SearchQuery | None:
        if lexeme.kind == "quoted":
            return self._quoted(lexeme, fuzzy)
        if lexeme.kind == "range":
            return self._range(lexeme)
        if lexeme.kind == "regex":
            return self._regex(lexeme)
        return None if lexeme.kind == "bare" else self._word(lexeme, fuzzy)

    def _field(self) -> None:
        """Skip the name of the column, if it precedes a colon."""
        self._names_all = False
        behind = self._lexemes[self._next + 1] if self._lexeme.kind == "word" else None
        if behind is None or behind.kind != "sign" or behind.text != ":":
            return
        name = self._lexeme.text
        self._names_all = name == "*"
        if name != "*" and unescaped(name).lower() != self._column.lower():
            raise self._wrong(
                f"'{name}:' names another field, but '{self._column}' alone is searched; write '{name}\\:' to search "
                "for a colon"
            )
        self._next += 2

    # -- single clauses

    def _word(self, lexeme: _Lexeme, fuzzy: _Lexeme | None) -> SearchQuery | None:
        text, options = lexeme.text, self._options
        if any(is_wild for _, is_wild in characters(text)):
            if text[0] in "*?" and not options.allow_leading:
                raise self._wrong(
                    f"'{text[0]}' may not begin a word; allow it by the third argument 'allowLeadingWildcard=true', or "
                    f"write \\{text[0]} to search for it",
                    lexeme.at,
                )
            return wildcard_of(text, options)
        if fuzzy is not None:
            return self._similar(unescaped(text), fuzzy)
        found = self._analysis.words(unescaped(text))
        words = [Term(word) for _, word in found]
        if len(words) < 2:
            return words[0] if words else None
        if options.auto_phrases:
            return _phrase(words, [place for place, _ in found], options.phrase_slop, in_order=False)
        return clauses([*words], [], []) if options.needs_all else clauses([], [*words], [])

    def _similar(self, text: str, fuzzy: _Lexeme) -> SearchQuery:
        number = float(fuzzy.text[1:]) if len(fuzzy.text) > 1 else self._options.min_similarity
        if number >= 1 and number != int(number):
            raise self._wrong("the number of edits must be a whole number: word~1", fuzzy.at)
        return similar(self._analysis.normal(text), number, self._options.fuzzy_prefix)

    def _quoted(self, lexeme: _Lexeme, fuzzy: _Lexeme | None) -> SearchQuery | None:
        options = self._options
        slop = options.phrase_slop if fuzzy is None or len(fuzzy.text) == 1 else int(float(fuzzy.text[1:]))
        text = lexeme.text[1:-1]
        if options.parser == "COMPLEX":
            return self._complex(text, slop)
        found = self._analysis.words(unescaped(text))
        words: list[OneWord] = [Term(word) for _, word in found]
        if options.open_phrases and len(words) > 1:
            words[0], words[-1] = wildcard(found[0][1], begins=True), wildcard(found[-1][1], ends=True)
        # adjacent words are necessarily in order
        return _phrase(words, [place for place, _ in found], slop, in_order=False)

    def _complex(self, text: str, slop: int) -> SearchQuery | None:
        """Parse a phrase of words with wildcards and `word~`."""
        words: list[OneWord] = []
        places: list[int] = []
        place = 0
        for piece in _PIECE.findall(text):
            fuzzy = _PIECE_FUZZY.search(piece)
            if any(is_wild for _, is_wild in characters(piece)):
                words.append(wildcard_of(piece, self._options))
                places.append(place)
                place += 1
            elif fuzzy is not None:
                number = float(fuzzy[1]) if fuzzy[1] else self._options.min_similarity
                word = self._analysis.normal(unescaped(piece[: fuzzy.start()]))
                words.append(similar(word, number, self._options.fuzzy_prefix))
                places.append(place)
                place += 1
            else:
                found = self._analysis.words(unescaped(piece))
                words += [Term(word) for _, word in found]
                places += [place + at for at, _ in found]
                place += max((at + 1 for at, _ in found), default=1)
        return _phrase(words, places, slop, in_order=self._options.in_order)

    def _range(self, lexeme: _Lexeme) -> SearchQuery:
        bounds = [self._bound(bound) for bound in lexeme.bounds]
        return Between(bounds[0], bounds[1], lexeme.text[0] == "[", lexeme.text[-1] == "]")

    def _bound(self, text: str) -> str | None:
        if text == "*":
            return None
        return self._analysis.normal(unescaped(text[1:-1] if text[0] == '"' else text))

    def _regex(self, lexeme: _Lexeme) -> SearchQuery:
        try:
            return regex_pattern(self._analysis.normal(lexeme.text[1:-1]))
        except ValueError as error:
            raise self._wrong(f"{lexeme.text} is not a regular expression of Lucene: {error}", lexeme.at) from None


def characters(text: str) -> list[tuple[str, bool]]:
    """Return the characters of a word, and which of them are wildcards, which a backslash escapes."""
    found: list[tuple[str, bool]] = []
    at = 0
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text):
            code = re.match(r"u([0-9a-fA-F]{4})", text[at + 1 :])
            found.append((chr(int(code[1], 16)) if code else text[at + 1], False))
            at += 6 if code else 2
        else:
            found.append((text[at], text[at] in "*?"))
            at += 1
    return found


def unescaped(text: str) -> str:
    """Return a text without the backslashes that escape characters."""
    return "".join(char for char, _ in characters(text))


def wildcard_of(text: str, options: SearchOptions) -> OneWord:
    """Return the condition for a word with `*` and `?`."""
    found = characters(text)
    plain = options.analysis.normal("".join("\0" if is_wild else char for char, is_wild in found))
    marks = iter(char for char, is_wild in found if is_wild)
    return wildcard(plain, marks="".join(marks))


def similar(word: str, number: float, prefix: int) -> Similar:
    """Return the condition `word~number`: at most `number` edits, or below 1 the share of characters that must be equal."""
    edits = int((1 - number) * len(word)) if 0 < number < 1 else int(number)
    return Similar(word, min(edits, int(EDITS_DEFAULT)), min(prefix, len(word)))
