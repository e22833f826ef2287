"""enableNullHandling=true beyond the generated queries of tests/oracle: every aggregate, names, statistics, errors."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.nullable import NullSkipping
from gamay.functions.arrow import arrow_type
from gamay.functions.expression import Call, Column, Literal
from gamay.functions.registry import bind_aggregate, function_names, is_aggregate
from gamay.functions.vector import Vector
from gamay.model.index.indexing import IndexingConfig
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType as D
from gamay.model.types import FieldRole
from gamay.query.bind.binder import bind
from gamay.query.execute.executor import execute
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import Answer, reduce
from gamay.segment.read.reader import open_segment
from gamay.segment.spi import INVERTED
from gamay.segment.write.builder import SegmentBuilder
from gamay.sql.parser import parse_query

ON = "SET enableNullHandling=true; "
FIELDS = (
    FieldSpec("id", D.INT),
    FieldSpec("k", D.STRING),
    FieldSpec("i", D.INT),
    FieldSpec("l", D.LONG),
    FieldSpec("x", D.DOUBLE, FieldRole.METRIC),
    FieldSpec("s", D.STRING),
    FieldSpec("by", D.BYTES),
    FieldSpec("t", D.TIMESTAMP, FieldRole.DATE_TIME),
    FieldSpec("b", D.BOOLEAN),
    FieldSpec("m", D.INT, single_value=False),
)
LATER = FieldSpec("later", D.INT, default_null_value=7)
SCHEMA = Schema("n", (*FIELDS, LATER), enable_column_based_null_handling=True)


def _rows(first: int, count: int, with_nulls: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for row in range(first, first + count):
        null = with_nulls and row % 3 == 0
        values: dict[str, Any] = {
            "i": row % 7 - 3,
            "l": row * 10,
            "x": row / 4,
            "s": str(row % 5),
            "by": bytes([row % 4]),
            "t": row * 1000,
            "b": row % 2 == 0,
            "m": [row % 4, row % 3],
        }
        key = None if row % 11 == 5 else "nulls" if null else "abc"[row % 3]
        rows.append({"id": row, "k": key} | (dict.fromkeys(values) if null else values))
    return rows


PARTS = (_rows(0, 30, True), _rows(100, 20, False), _rows(300, 1, True))
ROWS = [row for part in PARTS for row in part]


class Table(NamedTuple):
    segments: Sequence[Any]
    pool: WorkPool

    def answer(self, sql: str) -> Answer:
        bound = bind(parse_query(sql), SCHEMA)
        results = [execute(bound, [one], self.pool, Deadline.after_ms(60_000, SYSTEM_CLOCK)) for one in self.segments]
        return reduce(bound, results)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        table = self.answer(sql).table
        assert table is not None
        return table.rows()


@pytest.fixture(scope="module", params=["dictionary", "raw", "indexed"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Three segments, of 30 rows with nulls, 20 without, and 1 row that is null."""
    names = tuple(field.name for field in FIELDS)
    indexing = {
        "dictionary": IndexingConfig(),
        "raw": IndexingConfig(no_dictionary_columns=names),
        "indexed": IndexingConfig(inverted_index_columns=names, range_index_columns=("i", "l", "x")),
    }[request.param]
    stored = Schema("n", FIELDS, enable_column_based_null_handling=True)
    folder: Path = tmp_path_factory.mktemp("nulls")
    segments = []
    for number, part in enumerate(PARTS):
        arrays = [pa.array([row[f.name] for row in part], arrow_type(f.data_type, f.single_value)) for f in FIELDS]
        builder = SegmentBuilder(stored, TableConfig.offline("n", indexing=indexing), f"n_{number}", folder)
        builder.append(pa.RecordBatch.from_arrays(arrays, names=list(names)))
        segments.append(open_segment(builder.build()))
    with WorkPool(1) as pool:
        yield Table(segments, pool)


def _shown(rows: Sequence[tuple[Any, ...]]) -> list[str]:
    return [repr(row) for row in rows]


_PLAIN = ("i", "s", "i, 50", "i, l", "i, t, 'INT'", "i, 'INT'", "s, ','", "m", "m, 50", "i, 0, 10, 5", "by")
_FUNNELS = tuple(f"t, 5000, 2, b, l > 3{more}" for more in ("", ", 'durationFunctions=avg'", ", 1, s"))
_ARGUMENTS = (*_PLAIN, *_FUNNELS, "steps(b, l > 3), correlateby(i)")


@pytest.mark.parametrize("name", sorted(name for name in function_names() if is_aggregate(name)))
def test_every_aggregate_passes_over_null_rows(table: Table, name: str) -> None:
    """The result with null handling is that without it over the rows that are not null."""
    for arguments in _ARGUMENTS:
        call = f"{name}({arguments})"
        try:
            expected = table.rows(f"SELECT {call} FROM n WHERE i IS NOT NULL")
        except QueryError:
            continue
        break
    else:
        pytest.skip("takes arguments that this table does not have")
    assert _shown(table.rows(f"{ON}SELECT {call} FROM n")) == _shown(expected)
    by_key = "GROUP BY k ORDER BY k LIMIT 100"
    groups = table.rows(f"{ON}SELECT k, {call} FROM n {by_key}")
    there = table.rows(f"{ON}SELECT k, {call} FROM n WHERE i IS NOT NULL {by_key}")
    assert _shown([row for row in groups if row[0] != "nulls"]) == _shown(there)
    (nothing,) = (row[1] for row in groups if row[0] == "nulls")
    assert repr(nothing) == repr(table.rows(f"{ON}SELECT {call} FROM n WHERE i IS NULL")[0][0])
    counts = "count" in name.lower() or name.lower() in ("fasthll", "fasthllmv", "$sum0", "idset")
    assert (nothing is None) is not counts


@pytest.mark.parametrize(
    ("sql", "name", "value"),
    [
        ("SELECT count(i) FROM n", "count(*)", 51),
        (f"{ON}SELECT count(i) FROM n", "count(i)", 40),
        (f"{ON}SELECT count(m) FROM n", "count(m)", 40),
        (f"{ON}SELECT count(*) FROM n", "count(*)", 51),
        (f"{ON}SELECT count(1) FROM n", "count(*)", 51),
        (f"{ON}SELECT count(NULL) FROM n", "count('null')", 0),
        (f"{ON}SELECT count(i + 1) AS c FROM n", "c", 40),
        ("SELECT count(i) + 1 FROM n", "plus(count(*),'1')", 52),
        (f"{ON}SELECT count(i) FROM n WHERE id < 0", "count(i)", 0),
        (f"{ON}SELECT sum(i) FROM n WHERE id < 0", "sum(i)", None),
        (f"{ON}SELECT min(x) FROM n", "min(x)", 0.25),
        (f"{ON}SELECT min(i) FROM n WHERE i IS NULL", "min(i)", None),
        ("SELECT min(i) FROM n WHERE i IS NULL", "min(i)", -(2.0**31)),
        (f"{ON}SELECT distinctcount(i) FROM n", "distinctcount(i)", 7),
        ("SELECT distinctcount(i) FROM n", "distinctcount(i)", 8),
    ],
)
def test_names_and_values(table: Table, sql: str, name: str, value: Any) -> None:
    answer = table.answer(sql).table
    assert answer is not None
    assert (answer.names, answer.rows()) == ((name,), [(value,)])


def test_metadata_answers_only_where_nothing_is_null(table: Table) -> None:
    """COUNT(x) is known from the null vector; MIN and MAX where a segment has no nulls."""
    assert table.answer(f"{ON}SELECT count(i) FROM n").stats.num_entries_scanned_post_filter == 0
    stats = table.answer(f"{ON}SELECT max(l) FROM n").stats
    assert stats.num_entries_scanned_post_filter == 31
    assert table.answer("SELECT max(l) FROM n").stats.num_entries_scanned_post_filter == 0


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("i, id", [(-3, 7), (-3, 14), (-3, 28)]),
        ("i DESC, id", [(None, 0), (None, 3), (None, 6)]),
        ("i NULLS FIRST, id", [(None, 0), (None, 3), (None, 6)]),
        ("i DESC NULLS LAST, id", [(3, 13), (3, 20), (3, 104)]),
    ],
)
def test_order_of_nulls(table: Table, order: str, expected: Any) -> None:
    assert table.rows(f"{ON}SELECT i, id FROM n ORDER BY {order} LIMIT 3") == expected


def test_lists_without_values_are_nothing(table: Table) -> None:
    shown = "min(valueIn(m, 77)), sum(valueIn(m, 77)), mode(valueIn(m, 77)), arrayAgg(valueIn(m, 77), 'INT')"
    counts = "countMV(valueIn(m, 77)), distinctCount(valueIn(m, 77)), count(*)"
    assert table.rows(f"{ON}SELECT {shown}, {counts} FROM n") == [(None, None, None, None, 0, 0, 51)]
    groups = table.rows(f"{ON}SELECT id, max(valueIn(m, 2)), count(m) FROM n WHERE id IN (1, 5) GROUP BY id ORDER BY id")
    assert groups == [(1, None, 1), (5, 2.0, 1)]  # of the lists [1, 1] and [1, 2]


def test_all_nulls_are_one_group_and_one_distinct_value(table: Table) -> None:
    assert table.rows(f"{ON}SELECT b, count(*) FROM n GROUP BY b ORDER BY b") == [(False, 20), (True, 20), (None, 11)]
    assert table.rows(f"{ON}SELECT DISTINCT b FROM n ORDER BY b") == [(False,), (True,), (None,)]
    values = Counter(value for row in ROWS for value in row["m"] or [None])
    assert dict(table.rows(f"{ON}SELECT m, count(*) FROM n GROUP BY m")) == values
    found = table.rows(f"{ON}SELECT nullif(i, 3), count(*) FROM n GROUP BY nullif(i, 3)")
    assert dict(found) == Counter(None if row["i"] == 3 else row["i"] for row in ROWS)


def test_a_list_of_a_null_is_one_null_in_groups(table: Table) -> None:
    """valueIn makes an empty list of what stands at the place of a null, split more than one piece."""
    listed = Counter({None: 11, 2: sum(row["m"].count(2) for row in ROWS if row["m"])})
    assert dict(table.rows(f"{ON}SELECT valueIn(m, 2), count(*) FROM n GROUP BY valueIn(m, 2)")) == listed
    assert table.rows(f"{ON}SELECT split(s, 'u'), count(*) FROM n WHERE s IS NULL GROUP BY split(s, 'u')") == [(None, 11)]
    assert table.rows(f"{ON}SELECT DISTINCT valueIn(m, 9) FROM n") == [(None,)]


def test_columns_that_a_segment_lacks_are_null(table: Table) -> None:
    assert table.rows(f"{ON}SELECT count(later), max(later) FROM n") == [(0, None)]
    assert table.rows("SELECT count(later), max(later) FROM n") == [(51, 7.0)]
    assert table.rows(f"{ON}SELECT DISTINCT later FROM n") == [(None,)]
    assert table.rows(f"{ON}SELECT id FROM n WHERE later = 7") == []
    for sql in ("SELECT count(*) FROM n WHERE later IS NULL", f"{ON}SELECT count(*) FROM n WHERE later IS NULL"):
        assert table.rows(sql) == [(51,)]


def test_what_stands_at_the_place_of_a_null_is_not_computed(table: Table) -> None:
    """The default of a text is `null`, which is no number; that of an INT has no positive twin."""
    with pytest.raises(QueryError) as caught:
        table.rows("SELECT count(*) FROM n WHERE CAST(s AS INT) > 2")
    assert caught.value.code is ErrorCode.QUERY_EXECUTION
    assert table.rows(f"{ON}SELECT count(*) FROM n WHERE CAST(s AS INT) > 2") == [(16,)]
    assert table.rows(f"{ON}SELECT count(*) FROM n WHERE NOT CAST(s AS INT) > 2") == [(24,)]
    known = [row for row in ROWS if row["i"] is not None]
    sums = [(sum(int(row["s"]) for row in known), -sum(row["i"] for row in known))]
    assert table.rows(f"{ON}SELECT sum(CAST(s AS INT)), sum(-i) FROM n") == sums
    assert table.rows(f"{ON}SELECT CAST(s AS INT) FROM n WHERE id < 3") == [(None,), (1,), (2,)]
    assert table.rows(f"{ON}SELECT CAST(s AS INT), count(*) FROM n GROUP BY CAST(s AS INT) ORDER BY 1 LIMIT 2") == [
        (0, 8), (1, 8),
    ]  # fmt: skip


Row = dict[str, Any]


@pytest.mark.parametrize(
    ("condition", "known", "null"),
    [
        ("i = 1", lambda r: r["i"] == 1, False),
        ("NOT i = 1", lambda r: r["i"] != 1, False),
        ("i = 1.5", lambda r: False, False),
        ("NOT i = 1.5", lambda r: True, False),
        ("i < 3000000000", lambda r: True, False),
        ("NOT i < 3000000000", lambda r: False, False),
        ("i = 1 OR TRUE", lambda r: True, True),
        ("NOT (i = 1 AND NULL)", lambda r: r["i"] != 1, False),
        ("i = 1 OR NULL", lambda r: r["i"] == 1, False),
        ("NOT (i = 1 OR i = 2)", lambda r: r["i"] not in (1, 2), False),
        ("i = 1 OR i = 2 OR i IS NULL", lambda r: r["i"] in (1, 2), True),
        ("(i = 1) IS NOT TRUE", lambda r: r["i"] != 1, True),
        ("NOT ((i = 1) IS NOT TRUE)", lambda r: r["i"] == 1, False),
        ("(i = 1) IS FALSE", lambda r: r["i"] != 1, False),
        ("(i = 1) IS NOT FALSE", lambda r: r["i"] == 1, True),
        ("coalesce(i, 99) = 99", lambda r: False, True),
        ("NOT coalesce(i, 99) = 99", lambda r: True, False),
        ("i IS DISTINCT FROM 1", lambda r: r["i"] != 1, True),
        ("NOT (i IS DISTINCT FROM 1)", lambda r: r["i"] == 1, False),
        ("nullif(i, 1) IS NULL", lambda r: r["i"] == 1, True),
        ("CASE WHEN i = 1 THEN TRUE END", lambda r: r["i"] == 1, False),
        ("NOT CASE WHEN i = 1 THEN TRUE END", lambda r: False, False),
        ("m <> 1", lambda r: 1 not in r["m"], False),
        ("NOT m = 1", lambda r: 1 not in r["m"], False),
        ("NOT m IN (0, 1, 2, 3)", lambda r: False, False),
        ("i < l", lambda r: r["i"] < r["l"], False),
        ("NOT i < l", lambda r: r["i"] >= r["l"], False),
        ("b", lambda r: r["b"], False),
        ("NOT b", lambda r: not r["b"], False),
        ("s LIKE '%'", lambda r: True, False),
        ("NOT s LIKE '3'", lambda r: r["s"] != "3", False),
    ],
)
def test_conditions_that_are_unknown(table: Table, condition: str, known: Callable[[Row], bool], null: bool) -> None:
    """known: the condition's value in rows without nulls; null: whether it holds in the others."""
    count = sum(null if row["i"] is None else bool(known(row)) for row in ROWS)
    assert table.rows(f"{ON}SELECT count(*) FROM n WHERE {condition}") == [(count,)]
    assert table.rows(f"{ON}SELECT count(*) FILTER (WHERE {condition}) FROM n") == [(count,)]


def test_negated_indexes_stay_indexes(table: Table) -> None:
    """NOT is pushed to the leaves, where an index answers it: no row is read."""
    answer = table.answer(f"{ON}SELECT count(*) FROM n WHERE NOT (k = 'a' OR id IS NULL) AND NOT (i = 1 AND l = 10)")
    if table.segments[0].column("i").index(INVERTED) is not None:
        assert answer.stats.num_entries_scanned_in_filter == 0
    assert answer.table is not None
    assert answer.table.rows()[0][0] > 0


def test_without_null_handling_a_missing_value_is_the_placeholder_of_its_type(table: Table) -> None:
    assert table.rows("SELECT CASE WHEN id = 1 THEN id END, nullif(k, 'b') FROM n WHERE id < 3") == [
        (0, "nulls"), (1, ""), (0, "c"),
    ]  # fmt: skip
    assert table.rows("SELECT sum(CASE WHEN id = 1 THEN 5 END), count(*) FROM n") == [(5.0, 51)]
    groups = "SELECT CASE WHEN id = 1 THEN id END, count(*) FROM n GROUP BY CASE WHEN id = 1 THEN id END ORDER BY 1"
    assert table.rows(groups) == [(0, 50), (1, 1)]


def test_counted_column_must_exist(table: Table) -> None:
    with pytest.raises(QueryError) as caught:
        table.rows("SELECT count(nosuch) FROM n")
    assert caught.value.code is ErrorCode.UNKNOWN_COLUMN


# -- the wrapper by itself


def _nullable(values: Sequence[int | None]) -> Vector:
    nulls = np.array([value is None for value in values], np.bool_)
    return Vector(D.LONG, np.array([value or 0 for value in values], np.int64), None, nulls if nulls.any() else None)


GROUPED = st.lists(st.tuples(st.integers(0, 4), st.none() | st.integers(-100, 100)), max_size=60)


@pytest.mark.parametrize("name", ["sum", "min", "count", "distinctcount", "percentile"])
@given(rows=GROUPED, cut=st.integers(0, 60))
def test_nulls_are_skipped_however_rows_are_divided(name: str, rows: list[tuple[int, int | None]], cut: int) -> None:
    inner = bind_aggregate(Call(name, (Column("x"),)) if name != "percentile" else _percentile(), [(D.LONG, False)])
    aggregate = NullSkipping(inner, of_nothing_is_null="count" not in name)
    everything = [(group, value) for group, value in rows if value is not None]
    partials = []
    for part in (rows[:cut], rows[cut:]):
        state = aggregate.grow(aggregate.allocate(2), 5)
        groups = np.array([group for group, _ in part], np.uint8)
        aggregate.update(state, groups, [_nullable([value for _, value in part])], len(part))
        partials.append(aggregate.decode(aggregate.encode(aggregate.seal(state))))
    merged = aggregate.merge(partials, [np.arange(5, dtype=np.int32)] * 2, 5)
    found = aggregate.finish(aggregate.select(merged, np.arange(5)[::-1].astype(np.int64)))
    for place in range(5):
        values = sorted(value for group, value in everything if group == 4 - place)
        expected: Any = _EXPECTED[name](values) if values or "count" in name else None
        is_null = found.nulls is not None and bool(found.nulls[place])
        assert (None if is_null else found.values[place]) == expected


def _percentile() -> Call:
    return Call("percentile", (Column("x"), Literal(50, D.INT)))


_EXPECTED: dict[str, Callable[[list[int]], Any]] = {
    "sum": sum,
    "min": min,
    "count": len,
    "distinctcount": lambda values: len(set(values)),
    "percentile": lambda values: values[len(values) // 2],
}


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT jsonExtractScalar(s, '$.a', 'STRING', 'null') FROM n LIMIT 1", [(None,)]),
        ("SELECT jsonExtractScalar(s, '$.a', 'INT', 'null'), count(*) FROM n GROUP BY 1", [(None, 51)]),
        ("SELECT count(*) FROM n WHERE jsonExtractScalar(s, '$.a', 'INT', 'null') IS NULL", [(51,)]),
        ("SELECT jsonExtractScalar(s, '$.a', 'STRING', 'nil') FROM n WHERE id = 1", [("nil",)]),
    ],
)
def test_the_text_null_as_a_default_of_json_is_null(table: Table, sql: str, rows: list[Any]) -> None:
    assert table.rows(ON + sql) == rows


def test_the_text_null_as_a_default_of_json_is_a_text_without_null_handling(table: Table) -> None:
    assert table.rows("SELECT jsonExtractScalar('{}', '$.a', 'STRING', 'null') FROM n LIMIT 1") == [("null",)]
