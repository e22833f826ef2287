"""The trigram index against matching every entry: entries it excludes never match."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gamay.base.errors import InvalidConfigError
from gamay.functions.expression import Call, Column, Literal
from gamay.functions.scalar.text.patterns import find, like, like_runs, needed_runs
from gamay.kernels.text.trigrams import mark_trigrams, number_trigrams
from gamay.model.types import DataType
from gamay.segment.encode.dictionary import SortedDictionary
from gamay.segment.secondary.fst import FST

ALPHABET = "abcABCkK.sſKé_%"
texts = st.lists(st.text(ALPHABET, max_size=12), min_size=1, max_size=40, unique=True)
words = st.text("abckKsé", min_size=1, max_size=6)
PIECES = (".*", "[abc]", "b?", "c+", "(ab|bc)", "(?:abc)", "(?i)", "^", "$", "\\.", "|")


class Source:
    name = "c"
    data_type = DataType.STRING
    single_value = True
    null_docs = None

    def __init__(self, values: list[str]) -> None:
        self.num_docs = len(values)
        self.dictionary = SortedDictionary(DataType.STRING, pa.array(sorted(v.encode() for v in values), pa.binary()))

    def values(self, start: int, stop: int) -> Any:
        raise AssertionError("built of the dictionary")


def condition(name: str, *constants: str) -> Call:
    return Call(name, (Column("c"), *(Literal(constant, DataType.STRING) for constant in constants)))


def candidates(index: Any, call: Call, count: int) -> set[int]:
    found = index.entries(call)
    return set(range(count)) if found is None else set(found.tolist())


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return lambda: tmp_path_factory.mktemp("fst")


@given(values=texts, parts=st.lists(st.one_of(words, st.sampled_from(["%", "_", "\\%", "\\_", "\\"])), max_size=6))
@example(values=["ſky blue"], parts=["%", "sky"])
@example(values=["\u212aelvin"], parts=["kelvin"])
def test_no_match_of_like_is_left_out(folders: Any, values: list[str], parts: list[str]) -> None:
    pattern = "".join(parts)
    source, folder = Source(values), folders()
    index = FST.open(folder, FST.build([source], {}, folder), [source], {})
    matching = set(np.flatnonzero(like(source.dictionary.values.values, pattern)).tolist())
    assert matching <= candidates(index, condition("like", pattern), len(values))


@given(
    values=texts,
    parts=st.lists(st.one_of(words, st.sampled_from(PIECES))),
    options=st.sampled_from([(), ("i",), ("c",)]),
)
@example(values=["\u212aelvin"], parts=["kelvin"], options=("i",))
def test_no_match_of_a_pattern_is_left_out(folders: Any, values: list[str], parts: list[str], options: Any) -> None:
    pattern = "".join(parts)
    try:
        needed_runs(pattern)
    except Exception:  # noqa: BLE001 - generated text that is no pattern
        return
    source, folder = Source(values), folders()
    index = FST.open(folder, FST.build([source], {}, folder), [source], {})
    matching = set(np.flatnonzero(find(source.dictionary.values.values, pattern, options == ("i",))).tolist())
    assert matching <= candidates(index, condition("regexplike", pattern, *options), len(values))


def test_most_entries_are_left_out(folders: Any) -> None:
    values = [f"http://example.com/{number:05x}/page" for number in range(3000)]
    source, folder = Source(values), folders()
    index = FST.open(folder, FST.build([source], {}, folder), [source], {})
    for call in (
        condition("like", "%/00abc/%"),
        condition("like", "HTTP%/00ABC%"),
        condition("regexplike", "/00abc/p.*e$"),
        condition("regexplike", "/00ABC/", "i"),
    ):
        assert index.entries(call).tolist() == [0xABC]
    assert index.entries(condition("like", "%zzz%")).tolist() == []
    assert index.entries(condition("like", "%ab%")) is None
    assert index.entries(condition("like", "%example%")) is None  # nearly all have it
    assert index.entries(condition("regexplike", "abc|def")) is None
    assert index.entries(Call("like", (Call("upper", (Column("c"),)), Literal("%00ABC%", DataType.STRING)))) is None


@given(values=st.lists(st.binary(max_size=8), max_size=20))
def test_kernels_number_the_trigrams_of_each_text(values: list[bytes]) -> None:
    expected = [[value.lower()[at : at + 3] for at in range(len(value) - 2)] for value in values]
    data = np.frombuffer(b"".join(values), np.uint8)
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int32)
    occurs = np.zeros(1 << 24, np.bool_)
    mark_trigrams(data, offsets, occurs)
    codes = np.flatnonzero(occurs)
    assert [int(code).to_bytes(3, "big") for code in codes] == sorted({part for parts in expected for part in parts})
    number_of = np.empty(1 << 24, np.int32)
    number_of[codes] = np.arange(len(codes))
    numbers, ends = np.empty(sum(map(len, expected)), np.int32), np.empty(len(values), np.int32)
    number_trigrams(data, offsets, number_of, numbers, ends)
    assert [int(codes[number]).to_bytes(3, "big") for number in numbers] == [part for parts in expected for part in parts]
    assert ends.tolist() == np.cumsum([len(parts) for parts in expected]).tolist()


@pytest.mark.parametrize(
    ("pattern", "runs"),
    [("a_b%", ["a", "b"]), (r"10\%%", ["10%"]), (r"a\b", [r"a\b"]), ("%", []), ("abc\\", ["abc\\"]), (r"\\x", [r"\x"])],
)
def test_runs_of_like_patterns(pattern: str, runs: list[str]) -> None:
    assert like_runs(pattern) == runs


def test_a_column_without_dictionary_is_refused(tmp_path: Path) -> None:
    source = Source(["a"])
    source.dictionary = None  # type: ignore[assignment]
    with pytest.raises(InvalidConfigError, match="'c' needs a dictionary of texts"):
        FST.build([source], {}, tmp_path)
