"""Which entries of a sorted dictionary can match a LIKE pattern, by how the pattern begins.

Case does not count in LIKE, so a prefix stands for several; those that no entry has are dropped letter by letter.
"""

from itertools import product

from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.segment.spi import Dictionary

# prefixes that are looked up; beyond, the ranges so far are good enough
_PREFIXES_MAX = 16
# letters beyond ASCII that are another case of one in it: https://www.unicode.org/Public/UCD/latest/ucd/CaseFolding.txt
_FOLDED = {"k": "\u212a", "s": "\u017f"}
_SURROGATES = (0xD800, 0xE000)
_LAST = 0x10FFFF


def like_ranges(condition: Expression, dictionary: Dictionary) -> list[tuple[int, int]] | None:
    """Return the ranges of ids that hold all matches of `column LIKE 'begin%…'`, ascending; None when that is not known."""
    if not isinstance(condition, Call) or condition.name != "like":
        return None
    text, like = condition.args
    if not isinstance(text, Column) or not isinstance(like, Literal):
        return None  # what is made of a column's values does not begin as they do
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
    """Return what texts that match begin with: ASCII, up to the first that stands for something else."""
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
    """Return the ids of the entries with a prefix; None when there are none."""
    first, last = dictionary.id_range(begin, _behind(begin), True, False)
    return (first, last) if first < last else None


def _behind(begin: str) -> str | None:
    """Return the least text behind all that begin so."""
    text = begin.rstrip(chr(_LAST))
    if not text:
        return None
    code = ord(text[-1]) + 1
    return text[:-1] + chr(_SURROGATES[1] if code == _SURROGATES[0] else code)
