"""Texts as words, as by Lucene's StandardAnalyzer: split at Unicode's word boundaries, in lower case, without stop words."""

import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.arrays import Array
from gamay.functions.arrow import binary_buffers
from gamay.functions.vector import Values
from gamay.kernels.text import words as kernels

_STOP_WORDS = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to "
    "was will with"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""The English stop words of Lucene."""

WORD_CHARS_MAX = 255
ASCII_MAX = 127
_CODES = 0x20000
_LETTERS, _CASE_BIT = 26, 5

# https://www.unicode.org/reports/tr29/#Table_Word_Break_Property_Values; ranges [first, last]
_IDEOGRAPHS = (
    (0x2E80, 0x2FD5), (0x3005, 0x3005), (0x3007, 0x3007), (0x3021, 0x3029), (0x3038, 0x303B), (0x3041, 0x3096),
    (0x309D, 0x309F), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x1B001, 0x1B11F), (0x1F200, 0x1F200),
)  # fmt: skip
_KATAKANA = (
    (0x3031, 0x3035), (0x309B, 0x309C), (0x30A0, 0x30FA), (0x30FC, 0x30FF), (0x31F0, 0x31FF), (0x32D0, 0x32FE),
    (0x3300, 0x3357), (0xFF66, 0xFF9D), (0x1B000, 0x1B000),
)  # fmt: skip
# letters of scripts without spaces between words
_COMPLEX = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x1950, 0x19DF), (0x1A20, 0x1AAF), (0xA9E0, 0xA9FF),
    (0xAA60, 0xAADF),
)  # fmt: skip
_EMOJIS = ((0x231A, 0x231B), (0x23E9, 0x23F3), (0x2600, 0x27BF), (0x2B1B, 0x2B55), (0x1F300, 0x1FAFF))
_SINGLE = {
    kernels.MID_LETTER: ":\u00b7\u0387\u055f\u05f4\u2027\ufe13\ufe55\uff1a",
    kernels.MID_NUMBER: ",;\u037e\u0589\u060c\u060d\u066c\u07f8\u2044\ufe10\ufe14\ufe50\ufe54\uff0c\uff1b",
    kernels.MID_EITHER: ".'\u2018\u2019\u2024\ufe52\uff07\uff0e",
    kernels.JOINER: "\u202f",
    kernels.NUMBER: "\u066b",
    kernels.OTHER: "\u200b",
    kernels.EMOJI_JOINER: "\u200d",
    kernels.EXTENDING: "\uff9e\uff9f",
}


@lru_cache(maxsize=1)
def _classes() -> Array:
    """Return the word-break class of each character: uint8, by code point."""
    categories = np.array([unicodedata.category(chr(code)) for code in range(_CODES)])
    classes = np.zeros(_CODES, np.uint8)
    is_letter = np.char.startswith(categories, "L") | (categories == "Nl")
    is_letter[0x24B6 : 0x24E9 + 1] = True
    classes[is_letter] = kernels.LETTER
    for ranges, kind in ((_COMPLEX, kernels.COMPLEX), (_IDEOGRAPHS, kernels.IDEOGRAPH)):
        for first, last in ranges:
            span = slice(first, last + 1)
            classes[span][is_letter[span] | (categories[span] == "So")] = kind
    for first, last in _KATAKANA:
        classes[first : last + 1] = kernels.KATAKANA
    classes[categories == "Nd"] = kernels.NUMBER
    classes[categories == "Pc"] = kernels.JOINER
    for first, last in _EMOJIS:
        span = slice(first, last + 1)
        classes[span][categories[span] == "So"] = kernels.EMOJI
    classes[0x1F1E6:0x1F200] = kernels.REGIONAL
    classes[np.char.startswith(categories, "M") | (categories == "Cf")] = kernels.EXTENDING
    classes[0x1F3FB:0x1F400] = kernels.EXTENDING
    for kind, chars in _SINGLE.items():
        classes[[ord(char) for char in chars]] = kind
    return classes


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The words of some texts.

    data: uint8, the texts concatenated; word w is data[starts[w]:ends[w]]; text i has the words [bounds[i], bounds[i + 1]).
    """

    data: Array
    starts: Array
    ends: Array
    bounds: Array

    def __len__(self) -> int:
        return len(self.starts)

    def equal(self, word: str) -> Array:
        """Return which words equal a word: bool [words]."""
        out = np.empty(len(self), np.bool_)
        kernels.equal_words(self.data, self.starts, self.ends, np.frombuffer(word.encode(), np.uint8), out)
        return out

    def distinct(self) -> tuple[Array, pa.StringArray]:
        """Return the position of each word among the distinct words, and those."""
        offsets = np.empty(len(self) + 1, np.int32)
        out = np.empty(int(np.sum(self.ends - self.starts)), np.uint8)
        kernels.copy_words(self.data, self.starts, self.ends, offsets, out)
        every = pa.Array.from_buffers(pa.string(), len(self), [None, pa.py_buffer(offsets), pa.py_buffer(out)])
        encoded = every.dictionary_encode()
        return encoded.indices.to_numpy(), encoded.dictionary

    def counts(self, marks: Array) -> Array:
        """Return how many words of each text have their flag set: int32 [texts]."""
        before = np.zeros(len(marks) + 1, np.int32)
        np.cumsum(marks, out=before[1:])
        found: Array = before[self.bounds[1:]] - before[self.bounds[:-1]]
        return found

    def among(self, listed: Collection[str]) -> Array:
        """Return which words are among a few: bool [words]."""
        few = sorted((word.encode() for word in listed), key=len)
        offsets = np.zeros(len(few) + 1, np.int32)
        np.cumsum([len(word) for word in few], out=offsets[1:])
        out = np.empty(len(self), np.bool_)
        kernels.words_among(self.data, self.starts, self.ends, np.frombuffer(b"".join(few), np.uint8), offsets, out)
        return out


def lower_case(texts: Values) -> pa.StringArray:
    """Return texts in lower case, character by character."""
    offsets, data = binary_buffers(texts)
    if data.max(initial=0) > ASCII_MAX:
        return pc.utf8_lower(texts)
    # bytes below A wrap around; looking up each byte in a table takes twice as long
    lowered = data | ((data - np.uint8(ord("A"))) < _LETTERS).view(np.uint8) << _CASE_BIT
    return pa.Array.from_buffers(pa.string(), len(texts), [None, pa.py_buffer(offsets), pa.py_buffer(lowered)])


def words_of(texts: Values) -> Words:
    """Split texts (StringArray) into words, in their original case."""
    offsets, read_only = binary_buffers(texts)
    data = np.array(read_only)  # kernels would be compiled again for read-only arrays
    starts, ends = np.empty((2, len(data)), np.int32)
    bounds = np.empty(len(texts) + 1, np.int32)
    count = kernels.split_words(data, offsets, _classes(), WORD_CHARS_MAX, starts, ends, bounds)
    return Words(data, starts[:count], ends[:count], bounds)


@dataclass(frozen=True, slots=True)
class Analysis:
    """How texts, and search terms, are turned into words."""

    stop_words: frozenset[str] = STOP_WORDS
    case_sensitive: bool = False

    def normal(self, text: str) -> str:
        """Return the normal form of a word."""
        return text if self.case_sensitive else str(pc.utf8_lower(pa.scalar(text)).as_py())

    def words(self, text: str) -> list[tuple[int, str]]:
        """Return the words of a text that are not stop words, each with its position among all words."""
        found = words_of(pa.array([self.normal(text)], pa.string()))
        spans = zip(found.starts.tolist(), found.ends.tolist(), strict=True)
        listed = [found.data[start:end].tobytes().decode() for start, end in spans]
        return [(place, word) for place, word in enumerate(listed) if word not in self.stop_words]
