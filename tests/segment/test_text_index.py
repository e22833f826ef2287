"""Text indexes against a search of each text: generated texts and queries, all forms of columns, damaged files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.naive.lucene import Group, Near, Word
from tests.query.test_text_match import QUERIES, TEXTS
from tests.query.test_text_score import BOOSTED, corpus_of

from gamay.base.errors import CorruptSegmentError, InvalidConfigError
from gamay.functions.expression import TEXT_MATCH, Call, Column, Literal
from gamay.functions.scalar.text.text_match import searched
from gamay.functions.search import counted
from gamay.functions.search.match import matching
from gamay.functions.search.options import search_options
from gamay.functions.search.score import Scores
from gamay.functions.search.syntax import search_query
from gamay.functions.search.words import Analysis
from gamay.functions.vector import Vector
from gamay.kernels.encode.encoding import count_rows, group_rows
from gamay.model.types import DataType
from gamay.query.bind.predicate import And, Constant, Filter, Match, Not, Or
from gamay.query.bind.searches import text_filter
from gamay.segment.secondary.growing import BlockedIndex
from gamay.segment.secondary.text.index_type import TEXT
from gamay.segment.secondary.text.search import TextIndex
from gamay.segment.spi import SecondaryIndex


class Texts:
    """Some rows of a column of texts, or of lists of them; implements `IndexSource`."""

    dictionary = null_docs = None

    def __init__(self, rows: Sequence[Any], *, single_value: bool = True, name: str = "s") -> None:
        self.name, self.data_type, self.single_value, self.num_docs = name, DataType.STRING, single_value, len(rows)
        self._rows = rows

    def values(self, start: int, stop: int) -> Vector:
        rows = self._rows[start:stop]
        if self.single_value:
            return Vector(DataType.STRING, pa.array(rows, pa.string()))
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
        return Vector(DataType.STRING, pa.array([text for row in rows for text in row], pa.string()), offsets)


def built(folder: Path, *columns: Texts, **settings: Any) -> tuple[TextIndex, dict[str, Any]]:
    content = dict(TEXT.build(columns, settings, folder))
    TEXT.check(folder, content, columns)
    return TEXT.open(folder, content, columns, settings), content


def called(query: str, options: str = "", settings: str = "", column: str = "s") -> Call:
    constants = (Literal(text, DataType.STRING) for text in (query, options, settings))
    return Call(TEXT_MATCH, (Column(column), *constants))


def docs(index: SecondaryIndex, call: Call) -> list[int] | None:
    found = index.find(call)
    assert found is None or (found.is_exact and found.covered is None)
    return None if found is None else list(found.docs)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted, "_FIRST_ROWS", 3)
    monkeypatch.setattr(counted, "_BATCH_BYTES", 200)


_SETTINGS = st.sampled_from(
    ["", '{"caseSensitive": true}', '{"stopWordsInclude": ["fox", "Quick"], "stopWordsExclude": ["of"]}',
     '{"enablePrefixSuffixMatchingInPhraseQueries": true}', '{"useANDForMultiTermQueries": true}']
)  # fmt: skip
_OPTIONS = st.sampled_from(
    ["", "parser=COMPLEX", "parser=MATCH,minimumShouldMatch=2", "parser=MATCHPHRASE,slop=2,inOrder=false"]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(TEXTS, max_size=12), QUERIES, _SETTINGS, _OPTIONS)
@example(["a fox", "of", "", "fox of the"], Group((("", "", Near(("fox", "the"), 2)),)), "", "")
@example(["x"] * 5, Group((("", "", Word("wildcard", "x*")), ("", "-", Word("term", "y")))), "", "")
def test_an_index_finds_what_a_search_of_each_text_finds(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: Group, given_settings: str, options: str
) -> None:
    folder, written = tmp_path_factory.mktemp("index"), query.written()
    found = search_options(options, given_settings)
    kept = {"caseSensitive": ["s"]} if found.analysis.case_sensitive else {}
    index, _ = built(folder, Texts(texts), **kept)
    expected = matching(search_query(written, found, "s"), pa.array(texts, pa.string()), found.analysis)
    assert docs(index, called(written, options, given_settings)) == np.flatnonzero(expected).tolist()


@settings(max_examples=150, deadline=None)
@given(st.lists(TEXTS, max_size=12), BOOSTED, _SETTINGS, _OPTIONS)
@example(["x y y", "", "y the x"], Group((("", "", Near(("x", "y"), 2)), ("", "", Word("term", "y")))), "", "")
def test_an_index_scores_as_the_texts_do(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: Group, given_settings: str, options: str
) -> None:
    written, read = query.written(), corpus_of(texts, options, given_settings)
    found = search_options(options, given_settings)
    kept = {"caseSensitive": ["s"]} if found.analysis.case_sensitive else {}
    expected = Scores.of(search_query(written, found, "s"), read)
    whole, _ = built(tmp_path_factory.mktemp("index"), Texts(texts), **kept)
    parts = [built(tmp_path_factory.mktemp("block"), Texts(texts[at : at + 3]), **kept)[0] for at in range(0, len(texts), 3)]
    indexes: list[SecondaryIndex] = [whole]
    if len(texts) and len(texts) % 3 == 0:
        indexes.append(BlockedIndex("text", parts, 3))
    for index in indexes:
        indexed = index.texts("s", found.analysis)
        assert indexed is not None
        assert indexed.covered in (None, len(texts))
        scores = Scores.of(search_query(written, found, "s"), indexed.corpus)
        assert scores.texts.tolist() == expected.texts.tolist()
        assert scores.values.tolist() == expected.values.tolist()
        assert indexed.corpus.totals() == read.totals()


def test_scores_need_an_index_of_the_same_words_and_one_text_a_row(tmp_path: Path) -> None:
    columns = Texts(["Red fox", "dog"]), Texts([["a"], ["b", "red"]], single_value=False, name="tags")
    index, _ = built(tmp_path, *columns, caseSensitive=["s"])
    assert index.texts("s", Analysis(case_sensitive=True)) is not None
    assert index.texts("s", Analysis()) is index.texts("tags", Analysis()) is index.texts("other", Analysis()) is None


def _rows_of(index: SecondaryIndex, filter_: Filter, count: int) -> set[int]:
    if isinstance(filter_, Constant):
        return set(range(count)) if filter_.matches else set()
    if isinstance(filter_, Not):
        return set(range(count)) - _rows_of(index, filter_.part, count)
    if isinstance(filter_, And | Or):
        parts = [_rows_of(index, part, count) for part in filter_.parts]
        return set.intersection(*parts) if isinstance(filter_, And) else set.union(*parts)
    assert isinstance(filter_, Match)
    found = docs(index, filter_.expression)  # type: ignore[arg-type]
    assert found is not None
    return set(found)


def _rows_scanned(filter_: Filter, rows: Sequence[Sequence[str]]) -> set[int]:
    """As `_rows_of`, by an index of each value alone: a row matches a word or phrase when one of its values does."""
    if isinstance(filter_, Match):
        found = searched(filter_.expression)
        assert found is not None
        flags = [matching(found.query, pa.array(values, pa.string()), found.options.analysis) for values in rows]
        return {row for row, matches in enumerate(flags) if matches.any()}
    if isinstance(filter_, Constant):
        return set(range(len(rows))) if filter_.matches else set()
    if isinstance(filter_, Not):
        return set(range(len(rows))) - _rows_scanned(filter_.part, rows)
    assert isinstance(filter_, And | Or)
    parts = [_rows_scanned(part, rows) for part in filter_.parts]
    return set.intersection(*parts) if isinstance(filter_, And) else set.union(*parts)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(TEXTS, max_size=3), max_size=8), QUERIES)
def test_rows_of_several_values(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], query: Group) -> None:
    index, _ = built(tmp_path_factory.mktemp("index"), Texts(rows, single_value=False))
    filter_ = text_filter(called(query.written()), "s", DataType.STRING)
    assert _rows_of(index, filter_, len(rows)) == _rows_scanned(filter_, rows)


def test_an_index_of_several_columns_knows_each(tmp_path: Path) -> None:
    columns = Texts(["Red fox", "dog"]), Texts([["a"], ["b", "red"]], single_value=False, name="tags")
    index, _ = built(tmp_path, *columns, caseSensitive=["s"])
    kept = '{"caseSensitive": true}'
    assert docs(index, called("Red", settings=kept)) == [0]
    assert docs(index, called("red", settings=kept)) == []
    assert docs(index, called("RED", column="tags")) == [1]
    for other in (
        called("red"),  # words are kept in another case than they are asked for: the config has changed
        called("red", column="other"),
        Call("like", (Column("s"), Literal("red", DataType.STRING))),
        Call(TEXT_MATCH, (Call("lower", (Column("s"),)), Literal("red", DataType.STRING))),
    ):
        assert docs(index, other) is None


def test_only_texts_have_an_index(tmp_path: Path) -> None:
    numbers = Texts([])
    numbers.data_type = DataType.INT
    with pytest.raises(InvalidConfigError, match="the text index of 's' needs texts, not values of type INT"):
        TEXT.build([numbers], {}, tmp_path)


def test_files_that_would_be_read_wrongly_are_refused(tmp_path: Path) -> None:
    rows = [["a b", "c"], [], ["d é a"]]
    _, content = built(tmp_path, Texts(rows, single_value=False))
    (file,) = tmp_path.iterdir()
    sound = file.read_bytes()
    places = {kind: (offset, size) for kind, offset, size, _ in content["buffers"]}
    for kind, byte, value, problem in (
        ("0.terms.offsets", 4, 9, "offsets do not ascend"),
        ("0.terms.data", 0, 0xFF, "terms that are not UTF-8"),
        ("0.terms.data", 0, ord("z"), "terms do not ascend"),
        ("0.docs.sets", 0, 9, "docs that do not ascend within the segment"),
        ("0.tokens", 0, 9, "tokens beyond the terms"),
        ("0.bounds", 4, 200, "offsets do not ascend"),
        ("0.texts", 4, 200, "offsets do not ascend"),
    ):
        damaged = bytearray(sound)
        damaged[places[kind][0] + byte] = value
        file.write_bytes(damaged)
        with pytest.raises(CorruptSegmentError, match=problem):
            TEXT.check(tmp_path, content, [Texts(rows, single_value=False)])
    file.write_bytes(sound)
    with pytest.raises(CorruptSegmentError, match="docs that do not ascend within the segment"):
        TEXT.check(tmp_path, content, [Texts(rows[:2], single_value=False)])


@given(st.lists(st.lists(st.integers(0, 4), max_size=5), max_size=8))
def test_rows_are_grouped_by_key_each_once(rows: list[list[int]]) -> None:
    keys = np.array([key for row in rows for key in row], np.int32)
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
    counts = np.zeros(5, np.int64)
    count_rows(keys, offsets, np.full(5, -1, np.int32), counts)
    expected = [[number for number, row in enumerate(rows) if key in row] for key in range(5)]
    assert counts.tolist() == list(map(len, expected))
    found = np.empty(counts.sum(), np.uint32)
    group_rows(keys, offsets, np.full(5, -1, np.int32), np.cumsum(counts) - counts, found)
    assert found.tolist() == [number for numbers in expected for number in numbers]
