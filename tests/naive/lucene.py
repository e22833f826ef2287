"""Text search by definition: words character by character, queries clause by clause, documents one by one."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import log

_STOP_WORDS = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to "
    "was will with"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())


def kind(char: str) -> str:
    """Return the kind of a character for word boundaries, for the characters used in tests."""
    if char in ":·":
        return "mid letter"
    if char in ",;":
        return "mid number"
    if char in ".'’":
        return "mid either"
    if "\u30a0" <= char <= "\u30ff":
        return "katakana"
    if "\u4e00" <= char <= "\u9fff" or "\u3041" <= char <= "\u3096" or char == "😀":
        return "alone"
    category = unicodedata.category(char)
    return {"L": "letter", "N": "digit" if category == "Nd" else "", "M": "extend"}.get(
        category[0], "joiner" * (category == "Pc")
    )


def lower(text: str) -> str:
    """A text in lower case, character by character."""
    return "".join(char.lower()[0] for char in text)


def goes_on(before: str, between: str, here: str) -> bool:
    """Whether a character goes on with a word that ends in one of kind `before`; `between`: that of one in the middle."""
    if between:
        return (before == here == "letter" and between in ("mid letter", "mid either")) or (
            before == here == "digit" and between in ("mid number", "mid either")
        )
    if "alone" in (before, here) or not before or not here or "mid" in before or "mid" in here:
        return False
    if "katakana" in (before, here):
        return {before, here} <= {"katakana", "joiner"}
    return True


def words(text: str) -> list[str]:
    """Return the words of a text, in lower case."""
    chars: list[str] = []
    for char in text:
        if chars and kind(char) == "extend":
            chars[-1] += char
        else:
            chars.append(char)
    kinds = [kind(char[0]).replace("extend", "") for char in chars]
    found, at = [], 0
    while at < len(chars):
        end = at + 1
        while kinds[at] and "mid" not in kinds[at] and end < len(chars):
            if goes_on(kinds[end - 1], "", kinds[end]):
                end += 1
            elif end + 1 < len(chars) and "mid" in kinds[end] and goes_on(kinds[end - 1], kinds[end], kinds[end + 1]):
                end += 2
            else:
                break
        if any(k in ("letter", "digit", "katakana", "alone") for k in kinds[at:end]):
            found.append(lower("".join(chars[at:end])))
        at = end
    return found


@lru_cache(maxsize=100_000)
def edits(one: str, other: str) -> int:
    """The least number of edits between two words; swapped neighbours are one, and are not edited again."""
    if not one or not other:
        return len(one) + len(other)
    least = min(edits(one[1:], other) + 1, edits(one, other[1:]) + 1, edits(one[1:], other[1:]) + (one[0] != other[0]))
    if len(one) > 1 and len(other) > 1 and one[0] == other[1] and one[1] == other[0]:
        least = min(least, edits(one[2:], other[2:]) + 1)
    return least


@dataclass(frozen=True)
class Word:
    """One word that is searched, in any of the forms: word, pat*ern, word~n, [a TO b]."""

    form: str
    text: str
    number: int = 0
    other: str = ""
    boost: float = 1

    def written(self) -> str:
        return {
            "term": self.text,
            "wildcard": self.text,
            "similar": f"{self.text}~{self.number}",
            "regex": f"/{self.text}/",
            "range": f"{'[{'[self.number & 1]}{self.text} TO {self.other}{']}'[self.number >> 1]}",
        }[self.form] + boost_of(self)

    def fits(self, word: str) -> bool:
        if self.form == "term":
            return word == self.text.lower()
        if word in STOP_WORDS:
            return False
        if self.form == "wildcard":
            pattern = "".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in self.text.lower())
            return re.fullmatch(pattern, word, re.DOTALL) is not None
        if self.form == "regex":
            return re.fullmatch(self.text.lower(), word) is not None
        if self.form == "similar":
            return edits(self.text.lower(), word) <= self.number
        low, high, here = self.text.lower().encode(), self.other.lower().encode(), word.encode()
        above = self.text == "*" or (here > low if self.number & 1 else here >= low)
        return above and (self.other == "*" or (here < high if self.number >> 1 else here <= high))

    def holds(self, values: list[str]) -> bool:
        if self.form == "term" and self.text.lower() in STOP_WORDS:
            return False
        return any(self.fits(word) for value in values for word in words(value))


@dataclass(frozen=True)
class Near:
    """A phrase."""

    texts: tuple[str, ...]
    slop: int
    boost: float = 1

    def written(self) -> str:
        return f'"{" ".join(self.texts)}"' + (f"~{self.slop}" if self.slop else "") + boost_of(self)

    @property
    def kept(self) -> list[tuple[int, str]]:
        return [(place, text.lower()) for place, text in enumerate(self.texts) if text.lower() not in STOP_WORDS]

    def holds(self, values: list[str]) -> bool:
        return any(self.spans(words(value)) for value in values)

    def spans(self, found: list[str]) -> set[tuple[int, int]]:
        """How far its words in a text are from their places, from the least to the most, for each way to choose them."""
        spots = [[(at, at - place) for at, word in enumerate(found) if word == text] for place, text in self.kept]
        spans = set()
        for choice in product(*spots) if self.kept else ():
            shifts = [shift for _, shift in choice]
            if len({at for at, _ in choice}) == len(choice) and max(shifts) - min(shifts) <= self.slop:
                spans.add((min(shifts), max(shifts)))
        return spans


@dataclass(frozen=True)
class Group:
    """Clauses, each with the operator before it ("", AND, OR), its sign ("", +, -) and what it says."""

    clauses: "tuple[tuple[str, str, Word | Near | Group], ...]"
    boost: float = 1

    def written(self) -> str:
        texts = []
        for at, (operator, sign, part) in enumerate(self.clauses):
            inner = f"({part.written()}){boost_of(part)}" if isinstance(part, Group) else part.written()
            texts.append(f"{operator + ' ' if at and operator else ''}{sign}{inner}")
        return " ".join(texts)


def boost_of(part: Word | Near | Group) -> str:
    return "" if part.boost == 1 else f"^{part.boost}"


def is_void(part: "Word | Near | Group") -> bool:
    """Whether only stop words are searched: treated as if absent."""
    if isinstance(part, Group):
        return all(is_void(inner) for _, _, inner in part.clauses)
    return not part.kept if isinstance(part, Near) else part.form == "term" and part.text.lower() in STOP_WORDS


def holds(part: "Word | Near | Group", values: list[str], *, needs_all: bool = False) -> bool:
    """Whether a document with these values matches."""
    if not isinstance(part, Group):
        return part.holds(values)
    results = [(sign, holds(inner, values, needs_all=needs_all)) for sign, inner in _signed(part, needs_all)]
    if any(found for sign, found in results if sign == "-") or not all(found for sign, found in results if sign == "+"):
        return False
    return any(found for sign, found in results if sign != "-")


def _signed(part: Group, needs_all: bool) -> "list[tuple[str, Word | Near | Group]]":
    """Return the remaining clauses of a group, each as must match, must not match, or may match."""
    signs: list[tuple[str, Word | Near | Group]] = []
    for at, (operator, sign, inner) in enumerate(part.clauses):
        operator = operator if at else ""
        # an operator also applies to the clause before it, even if its own is void
        if signs and signs[-1][0] != "-" and (operator == "AND" or (operator == "OR" and needs_all)):
            signs[-1] = ("+" if operator == "AND" else "", signs[-1][1])
        if is_void(inner):
            continue
        if sign != "-" and (operator == "AND" or (needs_all and operator != "OR")):
            sign = "+"
        elif sign == "+" and needs_all and operator == "OR":
            sign = ""
        signs.append((sign, inner))
    return signs


def score(part: Word | Near | Group, text: str, texts: Sequence[str], *, needs_all: bool = False) -> float:
    """How well one of some texts matches: BM25 of words and phrases, the boost for what stands for many words."""
    if not holds(part, [text], needs_all=needs_all):
        return 0
    if isinstance(part, Group):
        parts = (inner for sign, inner in _signed(part, needs_all) if sign != "-")
        return part.boost * sum(score(inner, text, texts, needs_all=needs_all) for inner in parts)
    if isinstance(part, Word) and part.form != "term":
        return part.boost
    if isinstance(part, Word):
        named, frequency = [part.text.lower()], float(words(text).count(part.text.lower()))
    else:
        spans = part.spans(words(text))
        narrowest = [
            (low, high) for low, high in spans if not any(low <= a <= b <= high for a, b in spans if (a, b) != (low, high))
        ]
        named, frequency = [word for _, word in part.kept], sum(1 / (1 + high - low) for low, high in narrowest)
    lengths = [sum(word not in STOP_WORDS for word in words(each)) for each in texts]
    with_words = sum(length > 0 for length in lengths)
    rarity = 0.0
    for word in named:
        having = sum(word in words(each) for each in texts)
        rarity += log(1 + (with_words - having + 0.5) / (having + 0.5))
    length = sum(word not in STOP_WORDS for word in words(text))
    average = sum(lengths) / with_words
    return part.boost * rarity * frequency / (frequency + 1.2 * (1 - 0.75 + 0.75 * length / average))
