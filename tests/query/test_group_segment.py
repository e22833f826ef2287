"""Grouping and aggregation of random segments, against naive twins: every type, storage, kind of matches and merge."""

import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gamay.functions.aggregate_spi import Aggregate
from gamay.functions.expression import Call, Column, Expression, Literal, Star
from gamay.functions.registry import aggregate_arguments, bind_aggregate
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector, numpy_dtype, take
from gamay.model.types import DataType
from gamay.query.groupby import segment as segment_module
from gamay.query.groupby.merge import merge_group_tables, merge_partials
from gamay.query.groupby.segment import GroupOptions, aggregate_segment, group_segment
from gamay.query.groupby.table import GroupTable, key_values, select_groups
from gamay.query.pool import WorkPool
from gamay.query.view.matches import AllDocs, Block, DocList, DocMask, DocScan, Matches

_spec = importlib.util.spec_from_file_location("naive_aggregates", Path(__file__).parents[1] / "naive" / "aggregates.py")
assert _spec is not None
assert _spec.loader is not None
naive = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(naive)


@pytest.fixture(scope="module")
def pool() -> Any:
    with WorkPool(2) as pool:
        yield pool


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a hundred rows be several blocks and be worth two threads."""
    sizes = {"BLOCK_ROWS": 17, "_FIRST_ROWS": 11, "_ROWS_PER_THREAD": 40}
    for name, rows in sizes.items():
        monkeypatch.setattr(segment_module, name, rows)
    monkeypatch.setattr(segment_module, "max_block_rows", lambda: 24)


# -- segments made of Python values


def storage(data_type: DataType, values: Sequence[Any]) -> Any:
    if data_type.is_text or data_type.is_binary:
        return pa.array(values, pa.string() if data_type.is_text else pa.binary())
    return np.array(values, numpy_dtype(data_type))


@dataclass
class Col:
    """One column: `rows` are values, or lists of values when it is multi-value."""

    type: DataType
    rows: list[Any]
    encoded: bool
    multi_value: bool = False

    def __post_init__(self) -> None:
        flat = [v for row in self.rows for v in row] if self.multi_value else self.rows
        lengths = [len(row) for row in self.rows] if self.multi_value else []
        self.offsets = np.cumsum([0, *lengths]).astype(np.int32) if self.multi_value else None
        self.flat = storage(self.type, flat)
        if self.encoded:
            values = self.flat.to_numpy(zero_copy_only=False) if isinstance(self.flat, pa.Array) else self.flat
            distinct = sorted(set(values.tolist())) if values.dtype == object else np.unique(values)
            places = {v: i for i, v in enumerate(distinct)} if values.dtype == object else None
            ids = [places[v] for v in values] if places is not None else np.searchsorted(distinct, values)
            self.dictionary = Vector(self.type, storage(self.type, list(distinct)))
            self.ids = np.array(ids, np.uint8)

    def at(self, docs: Any, dense: bool) -> Operand:
        offsets = None
        places = docs
        if self.offsets is not None:
            lengths = np.diff(self.offsets)[docs]
            offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            places = np.concatenate(
                [np.arange(self.offsets[d], self.offsets[d + 1]) for d in docs] or [np.empty(0, np.int64)]
            )
        if self.encoded and (dense or not self.multi_value):
            return EncodedVector(self.ids[places], self.dictionary, offsets)
        return Vector(self.type, take(self.flat, places.astype(np.int64)), offsets)


def reader_of(columns: dict[str, Col]) -> Any:
    def reader(block: Block) -> Any:
        docs = np.arange(block.start, block.stop) if isinstance(block, AllDocs) else block.docs()

        def operand(expression: Expression) -> Operand:
            if isinstance(expression, Literal):
                return Scalar(expression.value, expression.type)
            if isinstance(expression, Call):  # any call stands for its argument, computed
                column = expression.args[0]
                assert isinstance(column, Column)
                result = columns[column.name].at(docs, True)
                return result.decode() if isinstance(result, EncodedVector) else result
            assert isinstance(expression, Column)
            return columns[expression.name].at(docs, not isinstance(block, DocList))

        return operand

    return reader


@dataclass
class Bound:
    aggregate: Aggregate
    arguments: tuple[Expression, ...]
    filter: Column | None = None


def bound(columns: dict[str, Col], name: str, *args: Expression) -> Bound:
    call = Call(name, args or (Star(),))
    arguments = aggregate_arguments(call)
    types = []
    for argument in arguments:
        column = argument.args[0] if isinstance(argument, Call) else argument
        if isinstance(column, Literal):
            types.append((column.type, False))
        else:
            assert isinstance(column, Column)
            types.append((columns[column.name].type, columns[column.name].multi_value))
    return Bound(bind_aggregate(call, types), arguments)


def python(vector: Vector) -> list[Any]:
    return list(vector.values.to_pylist() if isinstance(vector.values, pa.Array) else vector.values.tolist())


# -- random ones

_DOUBLES = st.sampled_from([0.0, -0.0, 1.5, -2.25, 1e300, -1e300, math.nan, math.inf, -math.inf, 3.0])
_PLAIN_DOUBLES = st.sampled_from([0.0, 1.5, -2.25, 1e10, 3.0, -7.125])
_VALUES: dict[DataType, st.SearchStrategy[Any]] = {
    DataType.INT: st.sampled_from([0, 1, -1, 7, 2**31 - 1, -(2**31), 100]),
    DataType.LONG: st.sampled_from([0, 1, -5, 2**62, -(2**62), 2**63 - 1, -(2**63), 10**15]),
    DataType.FLOAT: _DOUBLES.map(lambda v: float(np.float32(v)) if abs(v) < 1e38 or not math.isfinite(v) else 9.0),
    DataType.DOUBLE: _DOUBLES,
    DataType.BOOLEAN: st.booleans(),
    DataType.TIMESTAMP: st.integers(0, 5).map(lambda day: day * 86_400_000),
    DataType.STRING: st.sampled_from(["", "a", "é", "日本語", "😀", "a" * 40, "null"]),
    DataType.BYTES: st.sampled_from([b"", b"\x00", b"\xff\xff"]),
    DataType.BIG_DECIMAL: st.sampled_from([Decimal("1.0"), Decimal("1.00"), Decimal("-7"), Decimal("1E+3")]),
}
_NUMBERS = (DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.BOOLEAN, DataType.TIMESTAMP)


@st.composite
def columns_of(draw: Any, num_docs: int, types: Sequence[DataType], multi_value: bool | None = None) -> Col:
    data_type = draw(st.sampled_from(types))
    values = _VALUES[data_type]
    encoded = draw(st.booleans()) if data_type is not DataType.BIG_DECIMAL else False
    if draw(st.booleans()) if multi_value is None else multi_value:
        return Col(
            data_type,
            draw(st.lists(st.lists(values, min_size=1, max_size=3), min_size=num_docs, max_size=num_docs)),
            encoded,
            True,
        )
    return Col(data_type, draw(st.lists(values, min_size=num_docs, max_size=num_docs)), encoded)


@st.composite
def matches_of(draw: Any, num_docs: int) -> Matches:
    kind = draw(st.sampled_from(["range", "list", "mask", "scan"]))
    if kind == "range":
        start, stop = sorted([draw(st.integers(0, num_docs)), draw(st.integers(0, num_docs))])
        return AllDocs(start, stop)
    share = draw(st.sampled_from([0, 3, 50, 100]))
    flags = np.random.default_rng(draw(st.integers(0, 9))).integers(0, 100, num_docs) < share
    if kind == "list":
        return DocList(np.flatnonzero(flags).astype(np.int32))
    return DocMask(0, flags) if kind == "mask" else DocScan(0, num_docs, lambda first, last: flags[first:last])


@st.composite
def segments(draw: Any, key_types: Sequence[DataType], value_types: Sequence[DataType]) -> Any:
    """One to three segments with the same columns k0, k1, … and v, and the rows of each that match."""
    num_keys = draw(st.integers(1, 3))
    shapes: list[tuple[DataType, bool]] | None = None
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        num_docs = draw(st.sampled_from([0, 1, 2, 30, 130]))
        if shapes is None:
            columns = {f"k{i}": draw(columns_of(num_docs, key_types)) for i in range(num_keys)}
            columns["v"] = draw(columns_of(num_docs, value_types))
            shapes = [(column.type, column.multi_value) for column in columns.values()]
        else:
            names = [*(f"k{i}" for i in range(num_keys)), "v"]
            columns = {n: draw(columns_of(num_docs, [t], mv)) for n, (t, mv) in zip(names, shapes, strict=True)}
        parts.append((columns, draw(matches_of(num_docs))))
    return num_keys, parts


def exploded(num_keys: int, parts: Any) -> tuple[list[tuple[Any, ...]], list[Any]]:
    """Return the key and the value of each matching row; multi-value keys give a row for each combination."""
    keys: list[tuple[Any, ...]] = []
    values: list[Any] = []
    for columns, matches in parts:
        for doc in matches.docs().tolist():
            combinations: list[tuple[Any, ...]] = [()]
            for i in range(num_keys):
                column = columns[f"k{i}"]
                of_row = column.rows[doc] if column.multi_value else [column.rows[doc]]
                combinations = [(*c, v) for c in combinations for v in of_row]
            keys += combinations
            values += [columns["v"].rows[doc]] * len(combinations)
    return keys, values


def key_of(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(str(naive._key(v)) if isinstance(v, Decimal) else naive._key(v) for v in row)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right)) or math.isclose(left, right, rel_tol=1e-9)
    return bool(left == right)


_SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

_CHECKED: dict[str, Any] = {
    "sum": lambda values, grouped: naive.total(values),
    "min": naive.low,
    "max": naive.high,
    "avg": lambda values, grouped: naive.average(values),
    "minmaxrange": naive.spread,
    "distinctcount": lambda values, grouped: naive.distinct_count(values),
    "percentile90": lambda values, grouped: naive.percentile(values, 90),
    "percentile100": lambda values, grouped: naive.percentile(values, 100),
    "countmv": lambda values, grouped: len(values),
}


def through_the_wire(table: GroupTable, calls: Sequence[Bound]) -> GroupTable:
    partials = tuple(c.aggregate.decode(c.aggregate.encode(p)) for c, p in zip(calls, table.partials, strict=True))
    return GroupTable(table.keys, partials, table.num_groups, table.limit_reached)


@_SETTINGS
@given(made=segments(list(_VALUES), _NUMBERS), wire=st.booleans())
def test_groups_agree_with_naive(made: Any, wire: bool, pool: WorkPool) -> None:
    num_keys, parts = made
    keys = [Column(f"k{i}") for i in range(num_keys)]
    tables = []
    calls: list[Bound] = []
    for columns, matches in parts:
        calls = [bound(columns, "count"), *(bound(columns, name, Column("v")) for name in _CHECKED)]
        table = group_segment(keys, calls, matches, reader_of(columns), pool)
        tables.append(through_the_wire(table, calls) if wire else table)
    merged = merge_group_tables(tables, calls)
    rows, values = exploded(num_keys, parts)
    expected = naive.groups([key_of(row) for row in rows], values)
    got_keys = list(zip(*[python(key) for key in key_values(merged)], strict=True)) if keys else [()] * merged.num_groups
    assert sorted(map(repr, map(key_of, got_keys))) == sorted(map(repr, expected))
    results = [python(call.aggregate.finish(partial)) for call, partial in zip(calls, merged.partials, strict=True)]
    multi_value = parts[0][0]["v"].multi_value
    for group, key in enumerate(got_keys):
        of_group = expected[key_of(key)]
        assert results[0][group] == len(of_group)
        flat = [v for row in of_group for v in row] if multi_value else of_group
        for name, result in zip(_CHECKED, results[1:], strict=True):
            wanted = _CHECKED[name](flat, True)
            if name in ("sum", "avg") and overflows(flat):
                continue
            assert same(result[group], wanted), (name, flat, result[group], wanted)


def overflows(values: Sequence[Any]) -> bool:
    """Whether the order of additions decides the sum: huge doubles, or integers that are summed as doubles."""
    return any(isinstance(v, float) and abs(v) > 1e200 for v in values) or any(
        isinstance(v, int) and abs(v) >= 2**62 for v in values
    )


@_SETTINGS
@given(made=segments([DataType.INT], _NUMBERS), wire=st.booleans())
def test_totals_agree_with_naive(made: Any, wire: bool, pool: WorkPool) -> None:
    _, parts = made
    per_segment = []
    calls: list[Bound] = []
    for columns, matches in parts:
        calls = [bound(columns, "count"), *(bound(columns, name, Column("v")) for name in _CHECKED)]
        partials = aggregate_segment(calls, matches, reader_of(columns), pool)
        table = GroupTable((), partials, 1)
        per_segment.append(through_the_wire(table, calls).partials if wire else partials)
    merged = merge_partials(per_segment, calls)
    _, values = exploded(0, parts)
    results = [python(call.aggregate.finish(partial)) for call, partial in zip(calls, merged, strict=True)]
    flat = [v for row in values for v in row] if parts[0][0]["v"].multi_value else values
    assert results[0] == [len(values)]
    for name, result in zip(_CHECKED, results[1:], strict=True):
        if not (name in ("sum", "avg") and overflows(flat)):
            assert same(result[0], _CHECKED[name](flat, False)), (name, flat, result)


@_SETTINGS
@given(made=segments([DataType.INT, DataType.STRING], [DataType.STRING, DataType.BYTES, DataType.BIG_DECIMAL]))
def test_distinct_values_that_are_not_numbers(made: Any, pool: WorkPool) -> None:
    num_keys, parts = made
    keys = [Call("computed", (Column(f"k{i}"),)) for i in range(num_keys)]
    tables = []
    calls: list[Bound] = []
    for columns, matches in parts:
        calls = [
            bound(columns, "distinctcount", Column("v")),
            bound(columns, "distinctcount", Call("computed", (Column("v"),))),
        ]
        tables.append(through_the_wire(group_segment(keys, calls, matches, reader_of(columns), pool), calls))
    merged = merge_group_tables(tables, calls)
    rows, values = exploded(num_keys, parts)
    expected = naive.groups([key_of(row) for row in rows], values)
    got_keys = list(zip(*[python(key) for key in key_values(merged)], strict=True)) if keys else [()] * merged.num_groups
    for call, partial in zip(calls, merged.partials, strict=True):
        for key, result in zip(got_keys, python(call.aggregate.finish(partial)), strict=True):
            of_group = expected[key_of(key)]
            flat = [v for row in of_group for v in row] if parts[0][0]["v"].multi_value else of_group
            assert result == len({str(v) for v in flat})


# -- single cases


def plain(**columns: Any) -> dict[str, Col]:
    return {name: Col(t, rows, encoded) for name, (t, rows, encoded) in columns.items()}


def result(calls: Sequence[Bound], partials: Sequence[Any]) -> list[Any]:
    return [python(call.aggregate.finish(partial)) for call, partial in zip(calls, partials, strict=True)]


@pytest.mark.parametrize("encoded", [True, False])
def test_integer_sums_are_exact_beyond_doubles(encoded: bool, pool: WorkPool) -> None:
    values = [2**53, 1, 1, 1, -(2**53)] * 20
    columns = plain(v=(DataType.LONG, values, encoded), k=(DataType.INT, [0] * 100, encoded))
    calls = [bound(columns, "sum", Column("v"))]
    assert result(calls, aggregate_segment(calls, AllDocs(0, 100), reader_of(columns), pool)) == [[60.0]]
    table = group_segment([Column("k")], calls, AllDocs(0, 100), reader_of(columns), pool)
    assert result(calls, table.partials) == [[60.0]]
    halves = [aggregate_segment(calls, AllDocs(*part), reader_of(columns), pool) for part in ((0, 1), (1, 2), (4, 5))]
    assert result(calls, merge_partials(halves, calls)) == [[1.0]]


@pytest.mark.parametrize("encoded", [True, False])
@pytest.mark.parametrize("grouped", [True, False])
def test_sums_beyond_64_bits_go_on_as_doubles(encoded: bool, grouped: bool, pool: WorkPool) -> None:
    columns = plain(v=(DataType.LONG, [2**63 - 1] * 100, encoded), k=(DataType.INT, [0] * 100, encoded))
    calls = [bound(columns, "sum", Column("v")), bound(columns, "avg", Column("v"))]
    reader = reader_of(columns)
    partials = (
        group_segment([Column("k")], calls, AllDocs(0, 100), reader, pool).partials
        if grouped
        else aggregate_segment(calls, AllDocs(0, 100), reader, pool)
    )
    assert result(calls, partials) == [[100 * 2.0**63], [2.0**63]]


@pytest.mark.parametrize(("limit", "kept"), [(7, 7), (50, 50), (1000, 50)])
@pytest.mark.parametrize("encoded", [True, False])
def test_group_limit_is_flagged(encoded: bool, limit: int, kept: int, pool: WorkPool) -> None:
    columns = plain(k=(DataType.INT, list(range(50)) * 2, encoded), v=(DataType.INT, [1] * 100, encoded))
    calls = [bound(columns, "count"), bound(columns, "distinctcount", Column("v"))]
    with WorkPool(1) as alone:
        table = group_segment([Column("k")], calls, AllDocs(0, 100), reader_of(columns), alone, GroupOptions(limit))
    assert (table.num_groups, table.limit_reached) == (kept, limit < 50)
    assert result(calls, table.partials) == [[2] * kept, [1] * kept]


def test_many_wide_keys_do_not_fit_one_word(pool: WorkPool) -> None:
    rng = np.random.default_rng(1)
    columns = {f"k{i}": Col(DataType.LONG, rng.integers(0, 3, 100).tolist(), i % 2 == 0) for i in range(9)}
    calls = [bound(columns, "count")]
    keys = [Call("computed", (Column(f"k{i}"),)) for i in range(9)]
    table = group_segment(keys, calls, AllDocs(0, 100), reader_of(columns), pool)
    rows = list(zip(*[columns[f"k{i}"].rows for i in range(9)], strict=True))
    got = dict(zip(zip(*map(python, key_values(table)), strict=True), result(calls, table.partials)[0], strict=True))
    assert got == {key: len(group) for key, group in naive.groups(rows, rows).items()}


def test_constant_keys_and_arguments(pool: WorkPool) -> None:
    columns = plain(v=(DataType.INT, [1, 2, 3], True))
    one = Literal(1, DataType.INT)
    calls = [bound(columns, "sum", one), bound(columns, "distinctcount", Literal("x", DataType.STRING))]
    table = group_segment([Literal("a", DataType.STRING), one], calls, AllDocs(0, 3), reader_of(columns), pool)
    assert [python(key) for key in key_values(table)] == [["a"], [1]]
    assert result(calls, table.partials) == [[3.0], [1]]
    assert result(calls, aggregate_segment(calls, AllDocs(0, 3), reader_of(columns), pool)) == [[3.0], [1]]


def test_selected_groups_keep_their_partials(pool: WorkPool) -> None:
    columns = plain(k=(DataType.STRING, ["b", "a", "c", "a"], True), v=(DataType.DOUBLE, [1.0, 2.0, 3.0, 5.0], False))
    names = ["sum", "distinctcount", "percentile50", "percentiletdigest50", "distinctcounthll", "mode", "distinctsum"]
    calls = [bound(columns, name, Column("v")) for name in names]
    table = group_segment([Column("k")], calls, AllDocs(0, 4), reader_of(columns), pool)
    order = [python(key_values(table)[0]).index(k) for k in ("c", "a")]
    chosen = select_groups(table, calls, np.array(order))
    assert python(key_values(chosen)[0]) == ["c", "a"]
    assert result(calls, chosen.partials) == [[3.0, 7.0], [1, 2], [3.0, 5.0], [3.0, 5.0], [1, 2], [3.0, 2.0], [3.0, 7.0]]


def test_check_is_called_for_each_block(pool: WorkPool) -> None:
    columns = plain(k=(DataType.INT, [1] * 100, True), v=(DataType.INT, [1] * 100, True))

    class StopError(Exception):
        pass

    def stop() -> None:
        raise StopError

    calls = [bound(columns, "sum", Column("v"))]
    for run in (
        lambda: aggregate_segment(calls, AllDocs(0, 100), reader_of(columns), pool, GroupOptions(check=stop)),
        lambda: group_segment([Column("k")], calls, AllDocs(0, 100), reader_of(columns), pool, GroupOptions(check=stop)),
    ):
        with pytest.raises(StopError):
            run()
