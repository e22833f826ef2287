"""Columns without a forward index: which queries they answer, which are refused, and how their rows are reconstructed."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

import gamay
from gamay.base.clock import ManualClock
from gamay.base.errors import QueryError
from gamay.model.types import DataType
from gamay.query.layout.rebuild import TableLayout, rebuild
from gamay.segment.describe import describe
from gamay.segment.write.row_subset import KeptRows, write_kept

COLUMNS = ("a", "b", "s", "tags")
OFF = [{"name": name, "indexes": {"forward": {"disabled": True}}} for name in COLUMNS]


@pytest.mark.parametrize("data_type", [DataType.INT, DataType.STRING, DataType.BIG_DECIMAL, DataType.BOOLEAN])
@pytest.mark.parametrize("single_value", [True, False])
@given(data=st.data())
def test_rows_are_read_back_from_the_inverted_index(kit: Any, data_type: DataType, single_value: bool, data: Any) -> None:
    schema = kit.schema(kit.field("c", data_type, single_value))
    value = st.one_of(st.none(), kit.few(data_type)) if single_value else st.lists(kit.few(data_type), max_size=4)
    rows = data.draw(st.lists(value, max_size=60))
    off = kit.config([{"name": "c", "properties": {"forwardIndexDisabled": "true"}}], invertedIndexColumns=["c"])
    expected = kit.open(schema, kit.config(invertedIndexColumns=["c"]), {"c": rows}).column("c")
    column = kit.open(schema, off, {"c": rows}).column("c")
    assert not any(kind.startswith("forward.") for kind in column.meta.buffers)
    wanted, found = kit.plain(expected.values(0, len(rows))), kit.plain(column.with_forward().values(0, len(rows)))
    if single_value:
        assert found == wanted
        assert expected.null_docs == column.null_docs
    else:  # an inverted index knows which values a row has, neither how often nor in which order
        assert found == [sorted(set(row), key=kit.sort_key) for row in wanted]
    if not column.has_forward:
        with pytest.raises(QueryError, match="'c' has no forward index"):
            column.values(0, len(rows))


@given(rows=st.lists(st.tuples(st.integers(0, 5), st.sampled_from("xyz")), min_size=1, max_size=80), data=st.data())
def test_the_forward_index_comes_back_when_it_is_enabled_again(kit: Any, rows: list[Any], data: Any) -> None:
    schema = kit.schema(kit.field("a", DataType.INT), kit.field("b", DataType.STRING))
    values = {"a": [a for a, _ in rows], "b": [b for _, b in rows]}
    on = kit.config(invertedIndexColumns=["a", "b"])
    off = kit.config(OFF[:2], invertedIndexColumns=["a", "b"])
    plain, bare = kit.open(schema, on, values), kit.open(schema, off, values)
    assert TableLayout(schema, off).matches(bare.info)
    assert not TableLayout(schema, on).matches(bare.info)
    assert not TableLayout(schema, off).matches(plain.info)
    folder = Path(kit.build(schema, on, values)).parent
    again = rebuild(bare, TableLayout(schema, on), folder / "on", ManualClock())
    assert (again / "columns.bin").read_bytes() == (plain.path / "columns.bin").read_bytes()
    removed = rebuild(plain, TableLayout(schema, off), folder / "off", ManualClock())
    assert (removed / "columns.bin").read_bytes() == (bare.path / "columns.bin").read_bytes()

    kept = BitMap(data.draw(st.sets(st.integers(0, len(rows) - 1), min_size=1)))
    compacted = write_kept([KeptRows.of(bare, kept)], schema, off, "s", folder / "kept", ManualClock().now_ms())
    expected = kit.build(schema, off, {name: [column[i] for i in kept] for name, column in values.items()})
    assert (compacted / "columns.bin").read_bytes() == (expected / "columns.bin").read_bytes()


def test_a_segment_says_so(kit: Any) -> None:
    schema = kit.schema(kit.field("a", DataType.INT))
    path = kit.build(schema, kit.config(OFF[:1], invertedIndexColumns=["a"]), {"a": [2, 1, 2]})
    assert "no forward index" in describe(path)


def test_without_an_inverted_index_the_forward_index_stays(kit: Any) -> None:
    schema = kit.schema(kit.field("a", DataType.INT))
    column = kit.open(schema, kit.config(OFF[:1]), {"a": [2, 1, 2]}).column("a")
    assert column.meta.has_forward


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two tables of the same rows: `plain`, and `bare`, which has no forward index but that of the metric."""
    count = 4000
    rows = pa.table(
        {
            "a": [f"v{i * 7919 % 11}" for i in range(count)],
            "b": [i * 7919 % 1999 for i in range(count)],
            "s": [i // 100 for i in range(count)],
            "tags": [[f"t{i * j % 5}" for j in range(i % 3)] for i in range(count)],
            "m": list(range(count)),
        }
    )
    schema = {
        "dimensionFieldSpecs": [
            {"name": "a", "dataType": "STRING"},
            {"name": "b", "dataType": "INT"},
            {"name": "s", "dataType": "INT"},
            {"name": "tags", "dataType": "STRING", "singleValueField": False},
        ],
        "metricFieldSpecs": [{"name": "m", "dataType": "LONG"}],
    }
    indexing = {"invertedIndexColumns": list(COLUMNS), "rangeIndexColumns": ["b"]}
    with gamay.connect(tmp_path_factory.mktemp("bare")) as db:
        for name, fields in (("plain", []), ("bare", OFF)):
            config = {"tableIndexConfig": indexing, "fieldConfigList": fields}
            db.create_table(name, rows, {**schema, "schemaName": name}, config)
        yield db


ANSWERED = [
    "a = 'v3'", "a <> 'v3'", "a IN ('v1', 'v2', 'x')", "a NOT IN ('v1')", "a LIKE '%1%'", "upper(a) = 'V4'", "a > 'v3'",
    "b = 17", "b BETWEEN 100 AND 1500", "b > 1990", "NOT b <= 1990", "b % 7 = 3", "b < -1", "b % 7 = 3 AND m < 20",
    "s = 7", "s BETWEEN 3 AND 9", "s % 2 = 1", "tags = 't1'", "tags IN ('t1', 't4')", "tags <> 't1'", "tags LIKE 't%'",
    "a = 'v3' AND b > 500 OR tags = 't2'", "NOT (a = 'v3' OR s > 12)",
]  # fmt: skip


@pytest.mark.parametrize("condition", ANSWERED)
def test_filters_need_no_forward_index(database: Any, condition: str) -> None:
    asked = "SELECT count(*), sum(m), min(s) FROM {} WHERE " + condition
    assert database.sql(asked.format("bare")).rows() == database.sql(asked.format("plain")).rows()


REFUSED = [
    ("SELECT a FROM bare", "a"),
    ("SELECT * FROM bare", "a"),
    ("SELECT tags FROM bare WHERE m = 1", "tags"),
    ("SELECT b, count(*) FROM bare GROUP BY b", "b"),
    ("SELECT sum(b) FROM bare WHERE m < 10", "b"),
    ("SELECT m FROM bare ORDER BY b", "b"),
    ("SELECT count(*) FROM bare WHERE b - m > 10", "b"),
]


@pytest.mark.parametrize(("text", "column"), REFUSED)
def test_what_reads_rows_is_refused_by_the_name_of_the_column(database: Any, text: str, column: str) -> None:
    with pytest.raises(QueryError, match=f"Column '{column}' has no forward index"):
        database.sql(text)


def test_dictionary_and_statistics_answer(database: Any) -> None:
    for asked in (
        "SELECT DISTINCT a FROM {} ORDER BY a LIMIT 50",
        "SELECT min(b), max(b), sum(b), distinctcount(tags) FROM {}",
    ):
        assert database.sql(asked.format("bare")).rows() == database.sql(asked.format("plain")).rows()


def test_a_sorted_column_keeps_its_rows(database: Any) -> None:
    """The sorted index contains them."""
    asked = "SELECT s, count(*), max(m) FROM {} WHERE m > 321 GROUP BY s ORDER BY s LIMIT 100"
    assert database.sql(asked.format("bare")).rows() == database.sql(asked.format("plain")).rows()
    asked = "SELECT s, m FROM {} WHERE b = 17 ORDER BY m LIMIT 100"
    assert database.sql(asked.format("bare")).rows() == database.sql(asked.format("plain")).rows()
