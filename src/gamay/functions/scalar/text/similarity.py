"""Similarity of two texts, by their characters or by their sound."""

from collections.abc import Callable
from itertools import groupby

from rapidfuzz.distance import Levenshtein

from gamay.base import guard
from gamay.functions.scalar.define import by_value
from gamay.model.types import DataType

STRING, INT = DataType.STRING, DataType.INT
_PAIRS_MAX = 1 << 32
_PAIRS_CHECKED = 1 << 24
_PAIR_S = 2.4e-11


@by_value("strcmp", params=(STRING, STRING), returns=INT)
def strcmp(left: str, right: str) -> int:
    """Java's comparison: the difference of the first differing characters, else of the lengths."""
    for a, b in zip(left, right, strict=False):
        if a != b:
            return ord(a) - ord(b)
    return len(left) - len(right)


@by_value("hammingDistance", params=(STRING, STRING), returns=INT)
def hamming_distance(left: str, right: str) -> int:
    """The number of positions at which the characters differ; -1 for different lengths."""
    if len(left) != len(right):
        return -1
    return sum(a != b for a, b in zip(left, right, strict=True))


@by_value("levenshteinDistance", params=(STRING, STRING), returns=INT)
def levenshtein_distance(left: str, right: str) -> int:
    """The number of insertions, deletions and replacements of characters that turn one text into the other.

    Raises ValueError for texts so long that comparing them would block this process: the longest allowed take 0.1 s.
    """
    pairs = len(left) * len(right)
    if pairs > _PAIRS_MAX:
        raise ValueError(f"{len(left)} and {len(right)} characters are too many to compare; the product may be {_PAIRS_MAX}")
    if pairs > _PAIRS_CHECKED:
        guard.uninterrupted(pairs * _PAIR_S)
    return Levenshtein.distance(left, right)


_SOUNDS = {
    letter: digit
    for digit, letters in (("1", "BFPV"), ("2", "CGJKQSXZ"), ("3", "DT"), ("4", "L"), ("5", "MN"), ("6", "R"))
    for letter in letters
}


@by_value("soundex", params=(STRING,), returns=STRING)
def soundex(text: str) -> str:
    """American Soundex of the letters A to Z: `Robert` and `Rupert` are R163. `0000` without such letters.

    Adjacent letters of one sound, also around an H or W, count once (National Archives and Records
    Administration, "The Soundex Indexing System").
    """
    letters = [letter for letter in text.upper() if "A" <= letter <= "Z"]
    if not letters:
        return "0000"
    kept = [letters[0], *(letter for letter in letters[1:] if letter not in "HW")]
    digits = [digit for digit, _ in groupby(_SOUNDS.get(letter, "") for letter in kept)]
    return (letters[0] + "".join(digits[1:]) + "000")[:4]


@by_value("difference", params=(STRING, STRING), returns=INT)
def difference(left: str, right: str) -> int:
    """The number of positions at which their Soundex codes agree."""
    code: Callable[[str], str] = soundex
    return sum(a == b for a, b in zip(code(left), code(right), strict=True))
