"""The entries of a sorted dictionary that can match a LIKE pattern, by the prefix of the pattern.

LIKE ignores case, so that a prefix has several variants; those without entries are dropped letter by letter.
"""

from itertools import product

from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.segment.spi import Dictionary

# the most prefixes to look up; with more, the ranges found so far are used
_PREFIXES_MAX = 16
# non-ASCII letters that fold to an ASCII one: https://www.unicode.org/Public/UCD/latest/ucd/CaseFolding.txt
_FOLDED = {"k": "\u212a", "s": "\u017f"}
_SURROGATES = (0xD800, 0xE000)
_LAST = 0x10FFFF


def like_ranges(condition: Expression, dictionary: Dictionary) -> list[tuple[int, int]] | None:
    """Return the ranges of ids that contain all matches of `column LIKE 'prefix%…'`, ascending; None if unknown."""
    if not isinstance(condition, Call) or condition.name != "like":
        return None
    text, like = condition.args
    if not isinstance(text, Column) or not isinstance(like, Literal):
        return None  # values computed from a column need not have its prefixes
    pattern = like.value
    if not dictionary.is_sorted or not dictionary.data_type.is_text or not isinstance(pattern, str):
        return None
    prefix = _plain_begin(pattern)
    if not prefix:
        return None
    begins = [""]
    for char in prefix:
        variants = _variants(char)
        begins = [begin + variant for begin, variant in product(begins, variants)]
        if len(variants) > 1:
            begins = [begin for begin in begins if _range(begin, dictionary)]
            if len(begins) > _PREFIXES_MAX or not begins:
                break
    return sorted(found for begin in begins if (found := _range(begin, dictionary)) is not None)


def _plain_begin(pattern: str) -> str:
    """Return the plain prefix of a pattern: ASCII, up to the first wildcard or escape."""
    for place, char in enumerate(pattern):
        if char in "%_\\" or not char.isascii():
            return pattern[:place]
    return pattern


def _variants(char: str) -> tuple[str, ...]:
    lower = char.lower()
    if lower == char.upper():
        return (char,)
    folded = _FOLDED.get(lower)
    return (lower, char.upper()) if folded is None else (lower, char.upper(), folded)


def _range(begin: str, dictionary: Dictionary) -> tuple[int, int] | None:
    """Return the ids of the entries with a prefix; None if there are none."""
    first, last = dictionary.id_range(begin, _behind(begin), True, False)
    return (first, last) if first < last else None


def _behind(begin: str) -> str | None:
    """Return the least text greater than all texts with a prefix; None if there is none."""
    text = begin.rstrip(chr(_LAST))
    if not text:
        return None
    code = ord(text[-1]) + 1
    return text[:-1] + chr(_SURROGATES[1] if code == _SURROGATES[0] else code)
