"""Parts of a text as lists: its prefixes, its suffixes, and its n-grams."""

from itertools import pairwise
from typing import Any

import numpy as np

from gamay.functions.arguments import wrong
from gamay.functions.convert import array_of
from gamay.functions.scalar.define import Param, const, each, lists, scalar
from gamay.functions.scalar.text.strings import lists_by_distinct
from gamay.functions.vector import Vector
from gamay.model.types import DataType

STRING, INT = DataType.STRING, DataType.INT
_TEXT = each(STRING)
_MAX_LENGTH = 1000


def _length(name: str, length: int) -> int:
    if not 0 <= length <= _MAX_LENGTH:
        raise wrong(name, f"the length must be from 0 to {_MAX_LENGTH}, not {length}")
    return length


def _length_of(name: str) -> Param:
    """Return a parameter that is a length."""
    return const(INT, lambda length: _length(name, length))


def _beginnings(text: str, longest: int, before: str = "") -> list[str]:
    return [before + text[:n] for n in range(1, min(longest, len(text)) + 1)]


def _endings(text: str, longest: int, after: str = "") -> list[str]:
    return [text[-n:] + after for n in range(1, min(longest, len(text)) + 1)]


@scalar("prefixes", params=(_TEXT, _length_of("prefixes")), returns=STRING, multi_value=True)
def prefixes(text: Any, max_length: int) -> Vector:
    """The prefixes of the text, from one character up to `max_length`."""
    _length("prefixes", max_length)
    return lists_by_distinct(text, lambda value: _beginnings(value, max_length), STRING)


@scalar("suffixes", params=(_TEXT, _length_of("suffixes")), returns=STRING, multi_value=True)
def suffixes(text: Any, max_length: int) -> Vector:
    """The suffixes of the text, from one character up to `max_length`."""
    _length("suffixes", max_length)
    return lists_by_distinct(text, lambda value: _endings(value, max_length), STRING)


@scalar(
    "prefixesWithPrefix",
    params=(_TEXT, _length_of("prefixesWithPrefix"), const(STRING)),
    returns=STRING,
    multi_value=True,
)
def prefixes_with_prefix(text: Any, max_length: int, prefix: str) -> Vector:
    """The prefixes, with a mark such as `^` before each."""
    _length("prefixesWithPrefix", max_length)
    return lists_by_distinct(text, lambda value: _beginnings(value, max_length, prefix), STRING)


@scalar(
    "suffixesWithSuffix",
    params=(_TEXT, _length_of("suffixesWithSuffix"), const(STRING)),
    returns=STRING,
    multi_value=True,
)
def suffixes_with_suffix(text: Any, max_length: int, suffix: str) -> Vector:
    """The suffixes, with a mark such as `$` after each."""
    _length("suffixesWithSuffix", max_length)
    return lists_by_distinct(text, lambda value: _endings(value, max_length, suffix), STRING)


def _ngrams(text: str, shortest: int, longest: int) -> list[str]:
    sizes = range(max(shortest, 1), longest + 1)
    return list(dict.fromkeys(text[i : i + n] for n in sizes for i in range(len(text) - n + 1)))


@scalar(
    "uniqueNgrams",
    "generateUniqueNgrams",
    params=(_TEXT, _length_of("uniqueNgrams"), _length_of("uniqueNgrams")),
    returns=STRING,
    optional=1,
    multi_value=True,
)
def unique_ngrams(text: Any, length: int, max_length: int | None = None) -> Vector:
    """The distinct substrings of `length` characters (up to `max_length`), in order of appearance, shorter ones first."""
    _length("uniqueNgrams", length)
    longest = length if max_length is None else _length("uniqueNgrams", max_length)
    return lists_by_distinct(text, lambda value: _ngrams(value, length, longest), STRING)


@scalar(
    "uniqueNgramsMV",
    params=(lists(STRING), _length_of("uniqueNgramsMV"), _length_of("uniqueNgramsMV")),
    returns=STRING,
    optional=1,
    multi_value=True,
)
def unique_ngrams_of_lists(values: Vector, length: int, max_length: int | None = None) -> Vector:
    """The distinct n-grams of all texts of a row."""
    _length("uniqueNgramsMV", length)
    longest = length if max_length is None else _length("uniqueNgramsMV", max_length)
    texts = values.values.to_pylist()
    offsets = np.asarray(values.offsets).tolist()
    known: dict[str, list[str]] = {text: _ngrams(text, length, longest) for text in set(texts)}
    rows = [list(dict.fromkeys(gram for text in texts[a:b] for gram in known[text])) for a, b in pairwise(offsets)]
    flat = [gram for row in rows for gram in row]
    return Vector(STRING, array_of(flat, STRING), np.cumsum([0, *map(len, rows)]).astype(np.int32), values.nulls)
