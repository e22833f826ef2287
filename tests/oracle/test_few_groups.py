"""Groups of few rows, and few rows in order: the short path, the ordinary path, and DuckDB agree on random queries.

Each seed makes a schema of random types and encodings, a few small segments, some of them consuming, some with values of
their own, and queries whose filters indexes answer. Numbers are multiples of an eighth, so that sums are exact.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.oracle.conftest import _DUCK_TYPES, WORDS, comparable
from tests.seeds import count_of, seeds

from gamay.base.clock import SYSTEM_CLOCK
from gamay.functions.arrow import arrow_type
from gamay.model.index.indexing import IndexingConfig
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.query.bind.binder import bind
from gamay.query.execute.executor import execute
from gamay.query.few.groups import FewGroups
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import reduce
from gamay.segment.mutable import MutableSegment
from gamay.segment.read.reader import open_segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.sql.parser import parse_query

D = DataType
TYPES = (D.INT, D.LONG, D.FLOAT, D.DOUBLE, D.BOOLEAN, D.TIMESTAMP, D.STRING, D.BYTES)
NUMBERS = (D.INT, D.LONG, D.FLOAT, D.DOUBLE)
AGGREGATES = ("SUM({})", "MIN({})", "MAX({})", "AVG({})", "COUNT({})")
SCHEMAS = count_of("GAMAY_FEW_GROUPS", 12)
QUERIES = 20


def _value(rng: random.Random, data_type: DataType, wide: bool, shift: int) -> Any:
    """Return a value; wide: out of many. shift: values that differ by it are in different segments."""
    number = rng.randrange(shift, shift + (5000 if wide else 4))
    if data_type is D.BOOLEAN:
        return number % 2 == 0
    if data_type in (D.FLOAT, D.DOUBLE):
        return rng.choice((number / 8, -0.0, 0.0)) if number % 3 == 0 else number / 8
    if data_type is D.STRING:
        return f"{WORDS[number % len(WORDS)]}{number if wide else ''}"
    if data_type is D.BYTES:
        return bytes([number % 256, number // 256 % 256][: 1 + wide])
    return number + (1 << 40 if data_type is D.LONG and wide else 0)


@dataclass
class Made:
    """A table in segments and in DuckDB: `t` with defaults for nulls, `n` with nulls."""

    schema: Schema
    segments: Sequence[Any]
    duck: duckdb.DuckDBPyConnection


def _make(rng: random.Random, folder: Path) -> Made:
    keys = [FieldSpec(f"k{i}", rng.choice(TYPES)) for i in range(3)]
    metrics = [FieldSpec(f"m{i}", rng.choice(NUMBERS)) for i in range(2)]
    fields = [FieldSpec("f", D.INT), FieldSpec("g", D.STRING), FieldSpec("mv", D.INT, single_value=False), *keys, *metrics]
    schema = Schema("t", tuple(fields), enable_column_based_null_handling=True)
    wide = {field.name: field.name[0] in "km" and rng.random() < 0.4 for field in fields}
    raw = tuple(field.name for field in (*keys, *metrics) if rng.random() < 0.2)
    nulls = {field.name: rng.choice((0, 0, 0, 0, 0.1)) for field in fields}
    sorted_by = ("f",) if rng.random() < 0.3 else ()
    inverted = tuple(name for name in ("f", "g", "mv") if name not in sorted_by)
    config = TableConfig.offline(
        "t",
        indexing=IndexingConfig(
            inverted_index_columns=inverted,
            sorted_columns=sorted_by,
            no_dictionary_columns=raw,
            null_handling_enabled=True,
        ),
    )
    segments: list[Any] = []
    batches: list[pa.RecordBatch] = []
    for number in range(rng.choice((1, 2, 3, 5))):
        shift = rng.choice((0, 0, 2 * number))
        columns: dict[str, list[Any]] = {}
        size = rng.choice((1, 20, 300))
        for field in fields:
            values: list[Any] = []
            for _ in range(size):
                if rng.random() < nulls[field.name]:
                    values.append(None)
                elif field.single_value:
                    values.append(_value(rng, field.data_type, wide[field.name], shift))
                else:
                    values.append([_value(rng, D.INT, False, shift) for _ in range(rng.randrange(1, 4))])
            columns[field.name] = values
        if sorted_by:
            columns["f"] = sorted(0 if value is None else value for value in columns["f"])
        batch = pa.RecordBatch.from_arrays(
            [pa.array(columns[field.name], arrow_type(field.data_type, field.single_value)) for field in fields],
            names=[field.name for field in fields],
        )
        batches.append(batch)
        if rng.random() < 0.15:
            mutable = MutableSegment(f"t_{number}", schema, config, folder)
            mutable.append(batch)
            segments.append(mutable.view())
            mutable.close()
        else:
            builder = SegmentBuilder(schema, config, f"t_{number}", folder)
            builder.append(batch)
            segments.append(open_segment(builder.build()))
    return Made(schema, segments, _load(schema, pa.Table.from_batches(batches)))


def _load(schema: Schema, rows: pa.Table) -> duckdb.DuckDBPyConnection:
    duck = duckdb.connect(config={"threads": 1})
    duck.register("arrow_rows", rows)
    kept, filled = [], []
    for field in schema.fields:
        name, kind = field.name, _DUCK_TYPES[field.data_type] + ("" if field.single_value else "[]")
        kept.append(f"CAST({name} AS {kind}) AS {name}")
        default = field.default_null_value if field.single_value else [field.default_null_value]
        array = pa.array([default], arrow_type(field.data_type, field.single_value))
        duck.register(f"default_{name}", pa.table({"value": array}))
        filled.append(f"CAST(COALESCE({name}, (SELECT value FROM default_{name})) AS {kind}) AS {name}")
    duck.execute(f"CREATE TABLE n AS SELECT {', '.join(kept)} FROM arrow_rows")
    duck.execute(f"CREATE TABLE t AS SELECT {', '.join(filled)} FROM arrow_rows")
    return duck


def _condition(rng: random.Random) -> tuple[str, str]:
    """Return a condition for Gamay and for DuckDB."""
    number, other = rng.randrange(-1, 10), rng.randrange(0, 10)
    words = "'" + rng.choice(WORDS[:6]).replace("'", "''") + "'", "'Oslo'"
    kind = rng.randrange(6)
    if kind == 0:
        return (f"f = {number}",) * 2
    if kind == 1:
        return (f"f IN ({number}, {other})",) * 2
    if kind == 2:
        return (f"f >= {number} AND f < {number + other}",) * 2
    if kind == 3:
        return (f"g IN ({', '.join(words)})",) * 2
    if kind == 4:
        return f"mv = {number}", f"list_contains(mv, {number})"
    return (f"g <> {words[0]}",) * 2


def _query(rng: random.Random, made: Made, nulls: bool) -> tuple[str, str]:
    """Return a query for Gamay and for DuckDB; the order that selects rows of the answer is total."""
    keys = rng.sample(["k0", "k1", "k2", "f", "g"], rng.randrange(1, 4))
    calls = [rng.choice(AGGREGATES).format(rng.choice(("m0", "m1"))) for _ in range(rng.randrange(1, 4))] + ["COUNT(*)"]
    calls = rng.sample(calls, len(calls))
    parts = [_condition(rng) for _ in range(rng.choice((1, 1, 2)))]
    joint = rng.choice((" AND ", " OR "))
    having = rng.choice(("", "", f" HAVING COUNT(*) > {rng.randrange(1, 4)}", " HAVING MAX(m0) >= MIN(m1)"))
    by = [f"{key}{rng.choice(('', ' DESC'))}" for key in keys]
    if rng.random() < 0.3:
        by = ["COUNT(*) DESC", *by]
    limits = [" LIMIT 100000", " LIMIT 100000"] if nulls else [f" LIMIT {rng.choice((1, 3, 100000))}"] * 2
    order = f" ORDER BY {', '.join(by)}" if limits[0] != " LIMIT 100000" or rng.random() < 0.5 else ""
    tail = f" GROUP BY {', '.join(keys)}{having}{order}"
    heads = [", ".join([*keys, *calls]), ", ".join([*keys, *map(_in_duckdb, calls)])]
    texts = [
        f"SELECT {head} FROM {table} WHERE {joint.join(f'({part[place]})' for part in parts)}{tail}{limits[place]}"
        for place, (head, table) in enumerate(zip(heads, ("t", "n" if nulls else "t"), strict=True))
    ]
    return ("SET enableNullHandling=true; " if nulls else "") + texts[0], texts[1]


def _in_duckdb(call: str) -> str:
    """Return an aggregate whose result is a double, as all but COUNT are."""
    return call if call.startswith("COUNT") else f"CAST({call} AS DOUBLE)"


def _rows(made: Made, pool: WorkPool, sql: str) -> list[tuple[Any, ...]]:
    bound = bind(parse_query(sql), made.schema)
    result = execute(bound, made.segments, pool, Deadline.after_ms(60_000, SYSTEM_CLOCK), "host-1")
    table = reduce(bound, [result]).table
    assert table is not None
    return [tuple(map(comparable, row)) for row in table.rows()]


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkPool]:
    with WorkPool(1) as made:
        yield made


@pytest.mark.parametrize("part", range(4))
def test_few_rows_make_the_groups_of_the_long_way_and_of_duckdb(
    part: int, tmp_path: Path, pool: WorkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways: list[bool] = []
    table = FewGroups.table

    def noted(*arguments: Any) -> Any:
        made = table(*arguments)
        ways.append(made is not None)
        return made

    monkeypatch.setattr(FewGroups, "table", noted)
    for seed in seeds(SCHEMAS, part, 4):
        rng = random.Random(seed)
        made = _make(rng, tmp_path / str(seed))
        for number in range(QUERIES):
            nulls = rng.random() < 0.5
            sql, duck = _query(rng, made, nulls)
            found = _rows(made, pool, sql)
            with monkeypatch.context() as context:
                context.setattr(FewGroups, "of", lambda bound: None)
                long = _rows(made, pool, sql)
            told = f"seed {seed}, query {number}: {sql}"
            assert sorted(found, key=repr) == sorted(long, key=repr), told
            expected = [tuple(map(comparable, row)) for row in made.duck.execute(duck).fetchall()]
            assert sorted(found, key=repr) == sorted(expected, key=repr), told
    assert ways.count(True) > 5  # the others find nulls, rows in all of a segment, or none


@pytest.mark.parametrize("nulls_first", [False, True])
def test_nulls_of_one_segment_alone_are_nulls(nulls_first: bool, tmp_path: Path, pool: WorkPool) -> None:
    fields = (FieldSpec("f", D.INT), FieldSpec("g", D.STRING), FieldSpec("m", D.DOUBLE))
    schema = Schema("t", fields, enable_column_based_null_handling=True)
    indexing = IndexingConfig(inverted_index_columns=("f",), null_handling_enabled=True)
    kinds = [arrow_type(field.data_type, True) for field in fields]
    parts = [([1, 2], ["a", "b"], [1.5, 2.5]), ([1, 1, 2], [None, "a", "b"], [None, 4.0, None])]
    segments = []
    for number, part in enumerate(reversed(parts) if nulls_first else parts):
        builder = SegmentBuilder(schema, TableConfig.offline("t", indexing=indexing), f"t_{number}", tmp_path)
        builder.append(pa.RecordBatch.from_arrays(list(map(pa.array, part, kinds)), names=["f", "g", "m"]))
        segments.append(open_segment(builder.build()))
    made = Made(schema, segments, duckdb.connect())
    where = "FROM t WHERE f = 1"
    for sql, expected in (
        (f"SELECT COUNT(g), COUNT(m), AVG(m), MIN(m), COUNT(*) {where}", [(2, 2, 2.75, 1.5, 3)]),
        (f"SELECT g, COUNT(m), COUNT(*) {where} GROUP BY g ORDER BY g", [("a", 2, 2), (None, 0, 1)]),
        (f"SELECT upper(g), SUM(m + 1) {where} GROUP BY upper(g) ORDER BY 1", [("A", 7.5), (None, None)]),
    ):
        assert _rows(made, pool, f"SET enableNullHandling=true; {sql}") == expected, sql


def test_few_rows_are_put_in_the_order_that_duckdb_puts_them_in(tmp_path: Path, pool: WorkPool) -> None:
    for seed in seeds(SCHEMAS):
        rng = random.Random(seed)
        made = _make(rng, tmp_path / str(seed))
        for _ in range(QUERIES):
            nulls = rng.random() < 0.5
            columns = rng.sample(["k0", "k1", "k2", "f", "g", "m0", "m1"], rng.randrange(1, 5))
            where, in_duckdb = _condition(rng)
            keys = ", ".join(f"{name}{rng.choice(('', ' DESC'))} NULLS LAST" for name in rng.sample(columns, len(columns)))
            head, tail = (
                ", ".join(columns),
                f"ORDER BY {keys} LIMIT {rng.choice((1, 3, 10, 1000))} OFFSET {rng.choice((0, 2))}",
            )
            option, table = ("SET enableNullHandling=true; ", "n") if nulls else ("", "t")
            sql = f"{option}SELECT {head} FROM t WHERE {where} {tail}"
            expected = made.duck.execute(f"SELECT {head} FROM {table} WHERE {in_duckdb} {tail}").fetchall()
            assert _rows(made, pool, sql) == [tuple(map(comparable, row)) for row in expected], f"seed {seed}: {sql}"
