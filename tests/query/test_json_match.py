"""JSON_MATCH and jsonExtractIndex on real segments, against a naive flattening of whole documents."""

import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.scalar.json.match import json_filter
from gamay.model.index.indexing import IndexingConfig
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.query.bind.binder import bind
from gamay.query.execute.executor import execute
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import reduce
from gamay.segment.read.reader import open_segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.sql.parser import parse_query

DOCUMENTS: list[Any] = [
    {"name": "ann", "age": 30, "tags": ["x", "y"], "items": [{"kind": "a", "price": 5}, {"kind": "b", "price": 2.5}]},
    {"name": "bob", "age": 4, "items": [{"kind": "a", "price": 1}, {"kind": "c"}], "ok": True},
    {"name": "cid", "age": None, "items": [], "deep": {"a": {"b": [[1, 2], [3]]}}},
    [{"k": 1}, {"k": 2, "l": "x"}],
    "text",
    7,
    {"a.b": 1, "a": {"c": "ü"}},
]
TEXTS = [*map(json.dumps, DOCUMENTS), "no json", ""]


@pytest.fixture(scope="module", params=["dictionary", "raw"])
def rows_where(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function from an expression to the ids of the rows for which it holds."""
    schema = Schema("t", (FieldSpec("id", DataType.INT), FieldSpec("doc", DataType.JSON)))
    raw = ("doc",) if request.param == "raw" else ()
    config = TableConfig.offline("t", indexing=IndexingConfig(no_dictionary_columns=raw))
    builder = SegmentBuilder(schema, config, "t_0", Path(tmp_path_factory.mktemp("segments")))
    texts = TEXTS * 2
    batch = pa.RecordBatch.from_arrays(
        [pa.array(range(len(texts)), pa.int32()), pa.array(texts, pa.string())], names=["id", "doc"]
    )
    builder.append(batch)
    segment = open_segment(builder.build())
    pool = WorkPool(2)

    def run(condition: str) -> list[int]:
        sql = f"SELECT id FROM t WHERE {condition} ORDER BY id LIMIT 100"
        bound = bind(parse_query(sql), schema)
        answer = reduce(bound, [execute(bound, [segment], pool, Deadline.after_ms(60_000, SYSTEM_CLOCK), "host")])
        assert answer.table is not None
        found = [row[0] for row in answer.table.rows()]
        first = [row for row in found if row < len(TEXTS)]
        assert found == first + [row + len(TEXTS) for row in first]
        return first

    yield run
    pool.close()


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("""JSON_MATCH(doc, '"$.name" = ''ann''')""", [0]),
        ("""JSON_MATCH(doc, '"name" = ''ann''')""", [0]),
        ("""JSON_MATCH(doc, 'name = ''ann''')""", [0]),
        ("""JSON_MATCH(doc, 'a.c = ''ü'' OR age > 4')""", [0, 6]),
        ("""JSON_MATCH(doc, '"$.name" <> ''ann''')""", [1, 2]),
        ("""JSON_MATCH(doc, '"$.name" IN (''ann'', ''cid'')')""", [0, 2]),
        ("""JSON_MATCH(doc, '"$.name" NOT IN (''ann'', ''cid'')')""", [1]),
        ("""JSON_MATCH(doc, '"$.age" > 4')""", [0]),
        ("""JSON_MATCH(doc, '"$.age" > ''4''')""", []),  # as text, "30" is less
        ("""JSON_MATCH(doc, '"$.age" BETWEEN 4 AND 30')""", [0, 1]),
        ("""JSON_MATCH(doc, '"$.age" IS NULL')""", [2, 3, 4, 5, 6]),
        ("""JSON_MATCH(doc, '"$.age" IS NOT NULL')""", [0, 1]),
        ("""NOT JSON_MATCH(doc, '"$.age" IS NULL')""", [0, 1, 7, 8]),
        ("""JSON_MATCH(doc, '"$.ok" = true')""", [1]),
        ("""JSON_MATCH(doc, '"$.tags[*]" = ''y''')""", [0]),
        ("""JSON_MATCH(doc, '"$.tags[0]" = ''y''')""", []),
        ("""JSON_MATCH(doc, '"$.tags[1]" = ''y''')""", [0]),
        ("""JSON_MATCH(doc, '"$.tags" = ''y''')""", []),
        # in the same element, or in any
        ("""JSON_MATCH(doc, '"$.items[*].kind" = ''a'' AND "$.items[*].price" < 3')""", [1]),
        (
            """JSON_MATCH(doc, '"$.items[*].kind" = ''a''') AND JSON_MATCH(doc, '"$.items[*].price" < 3')""",
            [0, 1],
        ),
        ("""JSON_MATCH(doc, '"$.items[0].kind" = ''a'' AND "$.items[1].kind" = ''b''')""", []),
        ("""JSON_MATCH(doc, '"$.items[0].kind" = ''a'' OR "$.items[1].kind" = ''b''')""", [0, 1]),
        ("""JSON_MATCH(doc, '"$.items[*].kind" = ''b'' AND "$.tags[*]" = ''x''')""", [0]),
        ("""JSON_MATCH(doc, '"$.items[*].price" = 2.5')""", [0]),
        ("""JSON_MATCH(doc, '"$.deep.a.b[1][0]" = 3')""", [2]),
        ("""JSON_MATCH(doc, '"$.deep.a.b[*][*]" = 2')""", [2]),
        ("""JSON_MATCH(doc, '"$[*].k" = 2 AND "$[*].l" = ''x''')""", [3]),
        ("""JSON_MATCH(doc, '"[0].k" = 1')""", [3]),
        ("""JSON_MATCH(doc, '"$" = ''text''')""", [4]),
        ("""JSON_MATCH(doc, '"$[''a.b'']" = 1')""", [6]),
        ("""JSON_MATCH(doc, '"$.a.c" = ''ü''')""", [6]),
        ("""JSON_MATCH(doc, '"$.name" LIKE ''%N%''')""", [0]),
        ("""JSON_MATCH(doc, 'REGEXP_LIKE("$.name", ''an'')')""", []),
        ("""JSON_MATCH(doc, 'REGEXP_LIKE("$.name", ''AN.'', ''i'')')""", [0]),
        ("""JSON_MATCH(doc, '("$.name" = ''ann'' OR "$.name" = ''bob'') AND "$.age" < 10')""", [1]),
        ("""JSON_MATCH(doc, '"$.name" = ''ann''', 'x=y')""", [0]),
        # as an expression, and the values of an index
        ("""CASE WHEN JSON_MATCH(doc, '"$.name" = ''ann''') THEN 1 ELSE 0 END = 1""", [0]),
        ("""jsonExtractIndex(doc, '$.name', 'STRING', '-') = 'bob'""", [1]),
        ("""jsonExtractIndex(doc, '$.items[*].price', 'DOUBLE_ARRAY') > 4""", [0]),
        ("""arrayLength(jsonExtractIndex(doc, '$.items[*].kind', 'STRING_ARRAY')) = 2""", [0, 1]),
        (
            """jsonExtractIndex(doc, '$.items[*].kind', 'STRING_ARRAY', '["-"]', '"$.items[*].price" < 3') = 'b'""",
            [0],
        ),
        ("""jsonExtractIndex(doc, '$.items[0].kind', 'STRING', '-', '"$.tags[*]" IS NOT NULL') = 'a'""", [0]),
        (
            """arrayLength(jsonExtractIndex(doc, '$.tags[*]', 'STRING_ARRAY', '[]', '"$.items[*].kind" <> ''z''')) = 2""",
            [0],
        ),
    ],
)
def test_rows(rows_where: Any, condition: str, expected: list[int]) -> None:
    assert rows_where(condition) == expected


@pytest.mark.parametrize(
    "condition",
    [
        "JSON_MATCH(doc)",
        "JSON_MATCH(doc, id)",
        "JSON_MATCH(doc, '')",
        "JSON_MATCH(doc, 'name')",
        """JSON_MATCH(doc, '"$.a" =')""",
        """JSON_MATCH(doc, '"$.a" = "$.b"')""",
        """JSON_MATCH(doc, '"$.a" = NULL')""",
        """JSON_MATCH(doc, 'NOT "$.a" = 1')""",
        """JSON_MATCH(doc, '"$.a" IS NULL AND "$.b" = 1')""",
        """JSON_MATCH(doc, '"$.a[" = 1')""",
        """JSON_MATCH(doc, '"$..a" = 1')""",
        """JSON_MATCH(doc, '"$.a[-1]" = 1')""",
        """JSON_MATCH(doc, 'upper("$.a") = ''X''')""",
        """JSON_MATCH(doc, 'REGEXP_LIKE("$.a", ''('')')""",
        "jsonExtractIndex(doc, '$.a', 'STRING_ARRAY', 'x') = 'y'",
        "jsonExtractIndex(doc, '$.a[*]', 'STRING') = 'y'",
        "jsonExtractIndex(lower(doc), '$.a', 'STRING') = 'y'",
    ],
)
def test_a_wrong_call_is_refused_when_it_is_bound(rows_where: Any, condition: str) -> None:
    with pytest.raises(QueryError) as caught:
        rows_where(condition)
    assert caught.value.code is ErrorCode.QUERY_VALIDATION


# -- against flattened documents as the reference describes them, all of each


def _flatten(node: Any) -> list[dict[str, Any]]:
    if node is None:
        return []
    if isinstance(node, list):
        return [
            {f"[]{key}": value for key, value in flat.items()} | {f"#{i}": True}
            for i, element in enumerate(node)
            for flat in _flatten(element)
        ]
    if isinstance(node, dict):
        parts = [[{f".{key}{k}": v for k, v in flat.items()} for flat in _flatten(child)] for key, child in node.items()]
        return [
            {key: value for flat in combined for key, value in flat.items()}
            for combined in itertools.product(*(part for part in parts if part))
        ]
    return [{"": node}]


def _documents(depth: int) -> st.SearchStrategy[Any]:
    leaf = st.sampled_from([1, 2, "x", None, True])
    if depth == 0:
        return leaf
    inner = _documents(depth - 1)
    return leaf | st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)


_KEYS = (".a", ".a[*]", ".b[*].a", ".a[*].a", ".a.b", ".b", "[*]", "[*].a", ".a[*][*]", ".b.a[*]")


@settings(max_examples=150, deadline=None)
@given(_documents(3), st.sampled_from(_KEYS), st.sampled_from(_KEYS), st.sampled_from(["=", "<>"]))
def test_conjunctions_hold_in_one_flattened_document(node: Any, first: str, second: str, op: str) -> None:
    text = f""" "${first}" {op} 1 AND "${second}" = 'x' """
    flat = _flatten(node)
    one, other = (key.replace("[*]", "[]") for key in (first, second))
    expected = any(
        one in f and (_text(f[one]) == "1") == (op == "=") and other in f and _text(f[other]) == "x" for f in flat
    )
    assert json_filter("jsonMatch", text).matches(json.dumps(node)) == expected


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
