"""TEXT_MATCH on real segments against a naive search, document by document."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.naive.lucene import Group, Near, Word, holds, words

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.search.match import matching
from gamay.functions.search.options import search_options
from gamay.functions.search.syntax import search_query
from gamay.functions.search.words import Analysis
from gamay.model.index.indexing import IndexingConfig
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.query.bind.binder import bind
from gamay.query.execute.executor import execute
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import reduce
from gamay.segment.mutable.segment import MutableSegment
from gamay.segment.read.reader import open_segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.sql.parser import parse_query

SCHEMA = Schema(
    "t",
    (
        FieldSpec("id", DataType.INT),
        FieldSpec("encoded", DataType.STRING),
        FieldSpec("raw", DataType.STRING),
        FieldSpec("tags", DataType.STRING, single_value=False),
        FieldSpec("rawTags", DataType.STRING, single_value=False),
    ),
)
CONFIG = TableConfig.offline("t", indexing=IndexingConfig(no_dictionary_columns=("raw", "rawTags")))

# words that look like others, in any case, with what joins and parts them
_LETTERS = "aAbBcé9_"
_WORDS = st.one_of(
    st.sampled_from(
        ["fox", "Fox", "foxes", "quick", "the", "of", "error", "disk", "Ångström", "x9", "東京", "İx", "3.14", "can't"]
    ),
    st.text(_LETTERS, min_size=1, max_size=5),
)
_PARTS = st.sampled_from([" ", " ", " ", ", ", "-", ".", ":", "'", " 😀 ", "\u0301", ";", "  "])
TEXTS = st.lists(st.tuples(_WORDS, _PARTS), max_size=8).map(lambda pairs: "".join(word + part for word, part in pairs))

_PLAIN = st.one_of(
    st.sampled_from(["fox", "foxes", "quick", "THE", "of", "error", "x9", "ångström"]),
    st.text("aAbBcé9_", min_size=1, max_size=3).filter(lambda text: words(text) == [text.lower()]),
)
_SEARCHED = st.one_of(
    _PLAIN.map(lambda text: Word("term", text)),
    _PLAIN.flatmap(
        lambda text: st.sampled_from([f"{text}*", f"{text}?", f"{text[0]}*{text[-1]}", f"{text[0]}?{text[-1]}"])
    ).map(lambda text: Word("wildcard", text)),
    st.builds(lambda text, number: Word("similar", text, number), _PLAIN, st.integers(0, 2)),
    st.builds(
        lambda low, high, number: Word("range", low, number, high),
        st.one_of(_PLAIN, st.just("*")),
        st.one_of(_PLAIN, st.just("*")),
        st.integers(0, 3),
    ),
    st.sampled_from(["fo[a-x]+", "a.*", "(quick|disk)", "[^a]+", "x9?"]).map(lambda text: Word("regex", text)),
    st.builds(Near, st.lists(_PLAIN, min_size=2, max_size=4).map(tuple), st.integers(0, 4)),
)
_OPERATORS, _SIGNS = st.sampled_from(["", "", "AND", "OR"]), st.sampled_from(["", "", "", "+", "-"])
QUERIES = st.recursive(
    _SEARCHED,
    lambda inner: st.lists(st.tuples(_OPERATORS, _SIGNS, inner), min_size=1, max_size=4).map(tuple).map(Group),
    max_leaves=6,
).map(lambda part: part if isinstance(part, Group) else Group((("", "", part),)))


@given(st.lists(TEXTS, min_size=1, max_size=5))
@example(
    [
        "a.b",
        "1.2",
        "1,2",
        "a,b",
        "a:b",
        "1:2",
        "a.1",
        "a'b",
        "_",
        "_a_",
        "東京ab",
        "タワー",
        "a\u0301b",
        "\u0301",
        "a. b",
        "a..b",
    ]
)
def test_words_are_those_of_the_rules(texts: list[str]) -> None:
    analysis = Analysis(frozenset())
    assert [[word for _, word in analysis.words(text)] for text in texts] == [words(text) for text in texts]


@settings(max_examples=400)
@given(st.lists(TEXTS, min_size=1, max_size=12), QUERIES, st.booleans())
def test_texts_are_found_as_by_definition(texts: list[str], query: Group, needs_all: bool) -> None:
    options = search_options("defaultOperator=AND" if needs_all else "", "")
    found = matching(search_query(query.written(), options, "x"), pa.array(texts, pa.string()), options.analysis)
    assert found.tolist() == [holds(query, [text], needs_all=needs_all) for text in texts]


class Rows:
    """Some rows in a segment that is built, and in one that is consumed."""

    def __init__(self, texts: list[str], lists: list[list[str]], folder: Path) -> None:
        self._folder, self._pool = folder, WorkPool(2)
        arrays = [
            pa.array(range(len(texts)), pa.int32()),
            *[pa.array(texts, pa.string())] * 2,
            *[pa.array(lists, pa.list_(pa.string()))] * 2,
        ]
        batch = pa.RecordBatch.from_arrays(arrays, names=[field.name for field in SCHEMA.stored_fields])
        builder = SegmentBuilder(SCHEMA, CONFIG, "t_0", folder)
        builder.append(batch)
        self._built = open_segment(builder.build())
        self._consuming = MutableSegment("t_1", SCHEMA, CONFIG, folder, clock=SYSTEM_CLOCK)
        self._consuming.append(batch)

    def where(self, condition: str) -> list[int]:
        """The ids of the rows for which a condition holds, the same in both segments."""
        found = []
        for segment in (self._built, self._consuming.view()):
            bound = bind(parse_query(f"SELECT id FROM t WHERE {condition} ORDER BY id LIMIT 1000"), SCHEMA)
            answer = reduce(bound, [execute(bound, [segment], self._pool, Deadline.after_ms(60_000, SYSTEM_CLOCK), "host")])
            assert answer.table is not None
            found.append([row[0] for row in answer.table.rows()])
        assert found[0] == found[1]
        return found[0]

    def close(self) -> None:
        self._built.close()
        self._consuming.close()
        self._pool.close()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(TEXTS, min_size=1, max_size=3), min_size=1, max_size=10), QUERIES)
def test_columns_of_all_forms_are_searched(tmp_path_factory: Any, lists: list[list[str]], query: Group) -> None:
    rows = Rows([values[0] for values in lists], lists, tmp_path_factory.mktemp("rows"))
    text = query.written().replace("'", "''")
    single = [row for row, values in enumerate(lists) if holds(query, values[:1])]
    several = [row for row, values in enumerate(lists) if holds(query, values)]
    others = [[row for row in range(len(lists)) if row not in found] for found in (single, several)]
    for column in ("encoded", "raw"):
        assert rows.where(f"TEXT_MATCH({column}, '{text}')") == single
        assert rows.where(f"NOT TEXT_MATCH({column}, '{text}')") == others[0]
        assert rows.where(f"CASE WHEN TEXT_MATCH({column}, '{text}') THEN 1 ELSE 0 END = 1") == single
    for column in ("tags", "rawTags"):
        assert rows.where(f"TEXT_MATCH({column}, '{text}')") == several
        assert rows.where(f"NOT TEXT_MATCH({column}, '{text}')") == others[1]
    rows.close()


def found(texts: list[str], query: str, options: str = "", settings: dict[str, Any] | None = None) -> list[int]:
    """The places of the texts that a query matches."""
    read = search_options(options, json.dumps(settings or {}))
    return [
        at
        for at, is_found in enumerate(matching(search_query(query, read, "x"), pa.array(texts), read.analysis))
        if is_found
    ]


_DOCUMENTS = [
    "The quick brown fox jumps over the lazy dog",
    "Brown bread and a quick snack",
    "foxes are quick, quick foxes",
    "error: disk /dev/sda1 is full (out of memory)",
    "OutOfMemoryError at com.example.Main line 42",
]


@pytest.mark.parametrize(
    ("query", "options", "expected"),
    [
        ("brown fox", "", [0, 1]),
        ("brown fox", "defaultOperator=AND", [0]),
        ("the AND of", "", []),  # stop words alone
        ("the AND fox", "", [0]),
        ("-fox", "", []),
        ("*:* -fox", "", [1, 2, 3, 4]),
        ("x:fox || X:(bread && snack)", "", [0, 1]),
        ("fo*", "", [0, 2]),
        ("*memory*", "allowLeadingWildcard=true", [3, 4]),
        ("b?own", "", [0, 1]),
        ("BROWN^2 +lazy^0.5", "", [0]),
        ('"out memory"', "", []),  # the stop word between them leaves a gap
        ('"out of memory"', "", [3]),
        ('"out the memory"', "", [3]),
        ('"brown quick"', "phraseSlop=2", [0]),
        ('"brown quick"', "phraseSlop=3", [0, 1]),
        ('"quick quick"~1', "", [2]),
        ("memry~1", "", [3]),
        ("meomry~1", "", [3]),  # two swapped letters are one edit
        ("mmeory~0.8", "", [3]),
        ("xemory~1", "fuzzyPrefixLength=1", []),
        ("/[a-f]ox(es)?/", "", [0, 2]),
        ("[dog TO fox}", "", [0, 3]),
        ("[* TO a]", "", [4]),  # 42; `a` is a stop word
        ("com.example.main", "", [4]),
        ("\\/dev\\/sda1", "", [3]),
        ("sda1-full", "defaultOperator=AND", [3]),
        ("full-sda1", "autoGeneratePhraseQueries=true", []),
        ("4\\2", "", [4]),
        ("quick brown f", "parser=MATCHPHRASE", []),
        ("quick brown f", "parser=MATCHPHRASE,enablePrefixMatch=true", [0]),
        ("brown quick", "parser=MATCHPHRASE,slop=5", [1]),
        ("brown quick", "parser=MATCHPHRASE,slop=5,inOrder=false", [0, 1]),
        ("quick brown (snack)", "parser=MATCH", [0, 1, 2]),
        ("quick brown snack", "parser=MATCH,minimumShouldMatch=2", [0, 1]),
        ("quick brown snack", "parser=MATCH,minimumShouldMatch=-1", [0, 1]),
        ("quick brown snack", "parser=MATCH,minimumShouldMatch=100%", [1]),
        ("quick brown snack", "parser=match, defaultOperator=AND", [1]),
        ('"qui* bron~1"', "parser=COMPLEX", [0]),
        ('"bron~ qui*"~3', "parser=COMPLEX", [1]),
        ('"bron~ qui*"~3', "parser=COMPLEX,inOrder=false", [0, 1]),
        ("fox", "notAnOption=7", [0]),
    ],
)
def test_queries_and_options(query: str, options: str, expected: list[int]) -> None:
    assert found(_DOCUMENTS, query, options) == expected


@pytest.mark.parametrize(
    ("query", "settings", "expected"),
    [
        ("brown fox", {"useANDForMultiTermQueries": True}, [0]),
        ("brown OR fox", {"useANDForMultiTermQueries": True}, [0, 1]),
        ("Brown", {"caseSensitive": True}, [1]),
        ("B*", {"caseSensitive": True}, [1]),
        ("The", {"caseSensitive": True}, [0]),
        ("quick", {"stopWordsInclude": ["Quick"]}, []),
        ("of", {"stopWordsExclude": ["of", "is"]}, [3]),
        ('"uick brow"', {"enablePrefixSuffixMatchingInPhraseQueries": True}, [0]),
        ('"uick rown"', {"enablePrefixSuffixMatchingInPhraseQueries": True}, []),
    ],
)
def test_settings_of_the_index(query: str, settings: dict[str, Any], expected: list[int]) -> None:
    assert found(_DOCUMENTS, query, settings=settings) == expected


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("", "the query is empty"),
        ('fox "quick', "the phrase has no end.*at character 5 of"),
        ("(fox", "a parenthesis is not closed.*at character 5"),
        ("fox)", "has no opening parenthesis.*at character 4"),
        ("fox AND", "is missing before the end.*at character 8"),
        ("fox AND OR dog", "is missing before 'OR'.*at character 9"),
        ("*ox", "allowLeadingWildcard=true.*at character 1"),
        ("a /b", "the regular expression has no end.*at character 3"),
        ("/a(/", "is not a regular expression of Lucene.*at character 1"),
        ("/a&b/", "intersections.*are not supported"),
        ("[a b", r"a range is written \[a TO b\].*at character 1"),
        ("fox^much", "a boost must be a number.*at character 4"),
        ("fox~1.5", "the number of edits must be a whole number.*at character 4"),
        ("title:fox", r"'title:' names another field, but 'encoded' alone is searched.*at character 1"),
        ("fox\\", "a backslash"),
        ("(" * 150 + "fox" + ")" * 150, "nest at most 100 deep"),
    ],
)
def test_what_is_no_query_is_refused(query: str, says: str) -> None:
    with pytest.raises(QueryError, match=says) as raised:
        bind(parse_query(f"SELECT id FROM t WHERE TEXT_MATCH(encoded, '{query}')"), SCHEMA)
    assert raised.value.code is ErrorCode.QUERY_VALIDATION


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("TEXT_MATCH(encoded)", "2 to 3 argument"),
        ("TEXT_MATCH(encoded, 'a', '', '{}')", "2 to 3 argument"),
        ("TEXT_MATCH(encoded, raw)", "argument 2 must be a constant text"),
        ("TEXT_MATCH(id, 'a')", "argument 1 must be text, not INT"),
        ("TEXT_MATCH(encoded, 'a', 'parser=LUCENE')", "the option parser must be one of CLASSIC"),
        ("TEXT_MATCH(encoded, 'a', 'parser')", "'parser' is not an option"),
        ("TEXT_MATCH(encoded, 'a', 'phraseSlop=x')", "the option phraseSlop must be a whole number"),
        (
            "CASE WHEN TEXT_MATCH(tags, 'a') THEN 1 ELSE 0 END = 1",
            "a multi-value column can only be searched by a condition in WHERE",
        ),
    ],
)
def test_calls_that_make_no_sense_are_refused(condition: str, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        bind(parse_query(f"SELECT id FROM t WHERE {condition}"), SCHEMA)


def test_long_words_are_cut() -> None:
    assert [len(word) for _, word in Analysis().words("x" * 600 + " y")] == [255, 255, 90, 1]
