"""textScore on real segments against scores by definition, text by text."""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.naive.lucene import Group, Near, Word, score
from tests.query.test_text_match import CONFIG, QUERIES, SCHEMA, TEXTS

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import ErrorCode, InvalidConfigError, QueryError
from gamay.functions.search import counted
from gamay.functions.search.counted import ReadCorpus
from gamay.functions.search.options import search_options
from gamay.functions.search.query import Phrase
from gamay.functions.search.score import Scores, narrow
from gamay.functions.search.syntax import search_query
from gamay.functions.vector import Vector
from gamay.model.index.indexing import StarTreeConfig
from gamay.model.table.search_settings import SearchSettings
from gamay.model.types import DataType
from gamay.query.bind.binder import bind
from gamay.query.bind.search_settings import with_search_settings
from gamay.query.execute.executor import execute
from gamay.query.limits.budget import Budget, ProcessBudget
from gamay.query.limits.deadline import Deadline
from gamay.query.limits.spill_files import SpillSpace
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import reduce
from gamay.query.startree.definition import define
from gamay.query.wire.request import ReceivedStatements, encode_query
from gamay.segment.mutable.segment import MutableSegment
from gamay.segment.read.reader import open_segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.sql.parser import parse_query


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted, "_FIRST_ROWS", 3)
    monkeypatch.setattr(counted, "_BATCH_BYTES", 200)


def _with_boosts(part: Any, boosts: Iterator[float]) -> Any:
    if isinstance(part, Group):
        clauses = tuple((operator, sign, _with_boosts(inner, boosts)) for operator, sign, inner in part.clauses)
        part = replace(part, clauses=clauses)
    return replace(part, boost=next(boosts))


_BOOSTS = st.lists(st.sampled_from([1, 1, 1, 2, 0.5, 0]), min_size=1, max_size=5)
BOOSTED = st.builds(
    # the group around all has no place for a boost
    lambda query, boosts: replace(_with_boosts(query, cycle(boosts)), boost=1),
    QUERIES,
    _BOOSTS,
)


def corpus_of(texts: list[str], options: str = "", settings: str = "") -> ReadCorpus:
    array = pa.array(texts, pa.string())
    return ReadCorpus(
        lambda start, stop: Vector(DataType.STRING, array[start:stop]),
        Vector(DataType.STRING, array).at,
        len(texts),
        search_options(options, settings).analysis,
    )


@settings(max_examples=400)
@given(st.lists(TEXTS, min_size=1, max_size=12), BOOSTED, st.booleans())
@example(["a fox", "of", "", "fox of the fox the"], Group((("", "", Near(("fox", "the"), 2)),)), False)
@example(["x y x y", "y x y y"], Group((("", "", Near(("x", "y", "y"), 3)),)), False)
@example(["x"] * 5, Group((("", "", Word("wildcard", "x*")), ("", "-", Word("term", "y")))), False)
def test_scores_are_those_of_the_definition(texts: list[str], query: Group, needs_all: bool) -> None:
    options = "defaultOperator=AND" if needs_all else ""
    read = search_query(query.written(), search_options(options, ""), "x")
    found = Scores.of(read, corpus_of(texts)).within(0, len(texts))
    np.testing.assert_allclose(found, [score(query, text, texts, needs_all=needs_all) for text in texts], rtol=1e-12)


_FEW_WORDS = st.lists(st.sampled_from(["x", "y", "z", "the"]), max_size=9)


@given(
    st.lists(_FEW_WORDS, min_size=1, max_size=4), _FEW_WORDS.filter(lambda words: len({*words} - {"the"}) > 1), st.booleans()
)
@example([["x", "x", "y", "z", "y"]], ["x", "y"], True)
@example([["y", "x", "x", "y"]], ["x", "y", "x"], False)
def test_phrases_are_counted_by_how_near_their_words_are(texts: list[list[str]], phrase: list[str], in_order: bool) -> None:
    options = f"parser=MATCHPHRASE,slop=3,inOrder={in_order}"
    read = search_query(" ".join(phrase), search_options(options, ""), "x")
    assert isinstance(read, Phrase)
    corpus = corpus_of([" ".join(words) for words in texts])
    counted = corpus.frequencies(read, np.arange(len(texts)))
    wanted = [(place, word) for place, word in enumerate(phrase) if word != "the"]
    expected = []
    for words in texts:
        spans = set()
        for spots in product(*([spot for spot, found in enumerate(words) if found == word] for _, word in wanted)):
            if len({*spots}) < len(spots):
                continue
            shifts = [spot - place for spot, (place, _) in zip(spots, wanted, strict=True)]
            if in_order and (list(spots) != sorted(spots) or min(shifts) < shifts[0]):
                continue
            if max(shifts) - min(shifts) <= 3:
                spans.add((min(shifts), max(shifts)))
        narrowest = [one for one in spans if not any(one[0] <= low <= high <= one[1] for low, high in spans - {one})]
        expected.append(sum(1 / (1 + high - low) for low, high in narrowest))
    np.testing.assert_allclose(counted, expected)


def batch_of(texts: "list[str | None]", first: int = 0) -> pa.RecordBatch:
    arrays = [
        pa.array(range(first, first + len(texts)), pa.int32()),
        *[pa.array(texts, pa.string())] * 2,
        *[pa.array([["x"]] * len(texts), pa.list_(pa.string()))] * 2,
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[field.name for field in SCHEMA.stored_fields])


class Rows:
    """Some rows in a segment that is built, and in one that is consumed."""

    def __init__(self, texts: "list[str | None]", folder: Path) -> None:
        self._folder, self._pool = folder, WorkPool(2)
        batch = batch_of(texts)
        config = replace(CONFIG, indexing=replace(CONFIG.indexing, null_handling_enabled=True))
        builder = SegmentBuilder(SCHEMA, config, "t_0", folder)
        builder.append(batch)
        self._built = open_segment(builder.build())
        self._consuming = MutableSegment("t_1", SCHEMA, config, folder, clock=SYSTEM_CLOCK)
        self._consuming.append(batch)

    def ask(self, sql: str, memory_bytes: int = 1 << 30) -> list[tuple[Any, ...]]:
        """The answer to a query that may hold so much, the same of both segments."""
        found = []
        for segment in (self._built, self._consuming.view()):
            bound = bind(parse_query(sql), SCHEMA)
            budget = Budget(memory_bytes, ProcessBudget(1 << 40, 1 << 40, SpillSpace(self._folder)))
            deadline = Deadline.after_ms(60_000, SYSTEM_CLOCK, budget)
            answer = reduce(bound, [execute(bound, [segment], self._pool, deadline, "host")])
            budget.close()
            assert answer.table is not None
            found.append(answer.table.rows())
        assert found[0] == found[1]
        return [tuple(row) for row in found[0]]

    def close(self) -> None:
        self._built.close()
        self._consuming.close()
        self._pool.close()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(TEXTS, st.sampled_from(["fox", "the quick fox"])), min_size=1, max_size=12), BOOSTED)
def test_columns_of_all_forms_have_scores(tmp_path_factory: Any, texts: list[str], query: Group) -> None:
    rows = Rows([*texts], tmp_path_factory.mktemp("rows"))
    written = query.written().replace("'", "''")
    expected = [score(query, text, texts) for text in texts]
    for column in ("encoded", "raw"):
        call = f"textScore({column}, '{written}')"
        found = rows.ask(f"SELECT id, {call} FROM t ORDER BY id LIMIT 100")
        assert [number for number, _ in found] == list(range(len(texts)))
        np.testing.assert_allclose([value for _, value in found], expected, rtol=1e-12)
        bound = sorted(expected)[len(expected) // 2] * 1.001
        above = rows.ask(f"SELECT id FROM t WHERE {call} > {bound:.12f} ORDER BY id LIMIT 100")
        assert above == [(number,) for number, value in enumerate(expected) if value > bound]
        first = rows.ask(f"SELECT {call} AS s FROM t WHERE TEXT_MATCH({column}, '{written}') ORDER BY s DESC LIMIT 3")
        kept = sorted((value for value in expected if value), reverse=True)
        np.testing.assert_allclose([value for (value,) in first if value], kept[:3], rtol=1e-12)
        total = rows.ask(f"SELECT SUM({call}), COUNT(*) FROM t WHERE id >= 1")
        if len(texts) > 1:
            np.testing.assert_allclose(total, [(sum(expected[1:]), len(texts) - 1)], rtol=1e-9)
    rows.close()


@pytest.mark.parametrize("column", ["encoded", "raw"])
def test_lengths_are_counted_once_while_rows_arrive(tmp_path: Path, column: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For any views, queried in any order."""
    counts: list[int] = []
    monkeypatch.setattr(counted, "narrow", lambda lengths: counts.append(len(lengths)) or narrow(lengths))
    rng = random.Random(4)
    texts = [" ".join(rng.choices(["fox", "the", *"abcdef"], k=rng.choice([1, 3, 300]))) for _ in range(60)]
    segment, views = MutableSegment("t_1", SCHEMA, CONFIG, tmp_path, clock=SYSTEM_CLOCK), []
    for start in range(0, 60, 10):
        segment.append(batch_of([*texts[start : start + 10]], start))
        views.append(segment.view())
    bound = bind(parse_query(f"SELECT textScore({column}, 'fox b') FROM t ORDER BY id LIMIT 100"), SCHEMA)
    with WorkPool(1) as pool:
        for place in (1, 0, 4, 3, 5, 5, 2):
            answer = reduce(bound, [execute(bound, [views[place]], pool, Deadline.after_ms(60_000, SYSTEM_CLOCK), "host")])
            assert answer.table is not None
            known = texts[: views[place].num_docs]
            query = Group((("", "", Word("term", "fox")), ("", "", Word("term", "b"))))
            expected = [score(query, text, known) for text in known]
            np.testing.assert_allclose([value for (value,) in answer.table.rows()], expected, rtol=1e-12)
    distinct = [len({*texts[: view.num_docs]}) if column == "encoded" else view.num_docs for view in views]
    assert counts == [distinct[1], distinct[4] - distinct[1], distinct[5] - distinct[4]]
    segment.close()


def test_a_null_has_no_score_with_null_handling(tmp_path: Path) -> None:
    rows = Rows(["a fox", None, "null", "dog"], tmp_path)
    for column in ("encoded", "raw"):
        asked = f"SELECT id, textScore({column}, 'null') AS s FROM t ORDER BY id"
        with_nulls, without = (rows.ask(f"SET enableNullHandling = {flag}; {asked}") for flag in ("true", "false"))
        assert [score is None for _, score in with_nulls] == [False, True, False, False]
        assert [score > 0 for _, score in without] == [False, True, True, False]  # a null text reads as 'null'
        assert with_nulls[2] == without[2]
        for flag in ("true", "false"):
            is_null = f"textScore({column}, 'null') IS NULL"
            found = rows.ask(f"SET enableNullHandling = {flag}; SELECT id, {is_null} FROM t ORDER BY id")
            assert found == [(0, False), (1, True), (2, False), (3, False)]
            assert rows.ask(f"SET enableNullHandling = {flag}; SELECT id FROM t ORDER BY {is_null} DESC, id LIMIT 1") == [
                (1,)
            ]
        on = "SET enableNullHandling = true; "
        assert rows.ask(f"{on}SELECT id FROM t WHERE textScore({column}, 'null') IS NULL") == [(1,)]
        assert rows.ask(f"{on}SELECT id FROM t WHERE NOT textScore({column}, 'null') > 0 ORDER BY id") == [(0,), (3,)]
        assert rows.ask(f"{on}SELECT id FROM t ORDER BY textScore({column}, 'dog') DESC NULLS LAST, id") == [
            *[(3,), (0,), (2,)],
            (1,),
        ]
    rows.close()


def test_scores_stand_where_expressions_do(tmp_path: Path) -> None:
    rows = Rows(["fox", "fox fox", "dog", "fox dog"], tmp_path)
    fox = "textScore(raw, 'fox')"
    assert rows.ask(f"SELECT {fox} > 0 AS found, COUNT(*) FROM t GROUP BY found ORDER BY found") == [(False, 1), (True, 3)]
    assert rows.ask(f"SELECT COUNT(*) FILTER (WHERE {fox} > 0), COUNT(*) FROM t") == [(3, 4)]
    assert rows.ask(f"SELECT DISTINCT {fox} = 0 AS missing FROM t ORDER BY missing") == [(False,), (True,)]
    assert rows.ask(f"SELECT id FROM t WHERE 2 * {fox} + textScore(encoded, 'dog') > 1 ORDER BY id") == []
    assert rows.ask(f"SELECT id FROM t ORDER BY {fox} DESC, id LIMIT 2") == [(1,), (0,)]
    assert rows.ask(f"SELECT MAX({fox}) = MIN({fox}) AS same FROM t GROUP BY encoded HAVING MAX({fox}) > 0") == [(True,)] * 3
    assert rows.ask(f"SELECT textScore(T.RAW, 'fox') - {fox} FROM t LIMIT 1") == [(0.0,)]
    rows.close()


def test_scores_count_as_memory_of_the_query(tmp_path: Path) -> None:
    rows = Rows([f"fox {number}" for number in range(2000)], tmp_path)
    for column in ("encoded", "raw"):
        text = f"SELECT COUNT(*) FROM t WHERE textScore({column}, 'fox') > 0"
        assert rows.ask(text, 100_000) == [(2000,)]
        with pytest.raises(QueryError, match="scores of texts") as raised:
            rows.ask(text, 10_000)
        assert raised.value.code is ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED
    rows.close()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("textScore(encoded)", "'textScore': it takes 2 to 3 arguments, not 1"),
        ("textScore()", "'textScore': it takes 2 to 3 arguments, not 0"),
        ("textScore(encoded, raw)", "'textScore': argument 2 must be a constant text"),
        ("textScore(id, 'a')", "'textScore': argument 1 must be a column of texts, not of INT"),
        ("textScore(tags, 'a')", "'textScore': a multi-value column has no scores"),
        ("textScore(lower(encoded), 'a')", "'textScore': argument 1 must be a column"),
        ("textScore('a text', 'a')", "'textScore': argument 1 must be a column"),
        ("textScore(encoded, '(a')", "'textScore': a parenthesis is not closed"),
        ("textScore(encoded, 'a', 'parser=LUCENE')", "'textScore': the option parser must be one of CLASSIC"),
    ],
)
def test_calls_that_make_no_sense_are_refused(call: str, says: str) -> None:
    for sql in (f"SELECT {call} FROM t", f"SELECT id FROM t WHERE {call} > 1"):
        with pytest.raises(QueryError, match=says.replace("(", r"\(").replace(")", r"\)")) as raised:
            bind(parse_query(sql), SCHEMA)
        assert raised.value.code is ErrorCode.QUERY_VALIDATION


def test_servers_are_asked_for_scores_by_the_settings_of_the_column() -> None:
    query = parse_query("SELECT textScore(encoded, 'the fox') FROM t WHERE textScore(encoded, 'a') > 1 OR id = 3")
    configured = with_search_settings(query, SCHEMA, SearchSettings({"encoded": '{"stopWordsExclude": ["a", "the"]}'}))
    bound = bind(configured, SCHEMA)
    _, received = ReceivedStatements().bind(*encode_query(bound))
    assert received.scores == bound.scores
    assert received.filter == bound.filter
    assert list(bound.scores) == ["textscore(encoded,'the fox')", "textscore(encoded,'a')"]
    assert bound.names == ("textscore(encoded,'the fox')",)
    assert not {"a", "the"} & next(iter(bound.scores.values())).options.analysis.stop_words
    assert bind(query, SCHEMA).scores != bound.scores


def test_a_score_belongs_to_rows_not_to_groups() -> None:
    with pytest.raises(QueryError, match="neither in GROUP BY nor inside an aggregate"):
        bind(parse_query("SELECT id FROM t GROUP BY id HAVING textScore(encoded, 'a') > 1"), SCHEMA)


def test_the_columns_of_scores_are_named_as_written() -> None:
    bound = bind(parse_query("SELECT id FROM t WHERE textScore(encoded, 'a', 'phraseSlop=1') > 1"), SCHEMA)
    assert list(bound.scores) == ["textscore(encoded,'a','phraseSlop=1')"]
    assert list(bound.fields) == ["id", "encoded"]


@pytest.mark.parametrize(
    "tree",
    [
        StarTreeConfig(("id",), function_column_pairs=("MAX__textScore(encoded, 'a')",)),
        StarTreeConfig(("textScore(encoded, 'a')",), function_column_pairs=("COUNT__*",)),
    ],
)
def test_a_star_tree_keeps_no_scores(tree: StarTreeConfig) -> None:
    with pytest.raises(InvalidConfigError, match=r"trees\[0\]: textscore\(encoded,'a'\) is computed for each query"):
        define(SCHEMA, tree, "trees[0]")
