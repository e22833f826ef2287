"""Random queries on all flights of 2013 against DuckDB: large segments, which several threads read in blocks.

The reference evaluator covers the whole language on a few of these flights; here the volume matters.
"""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from benchmarks.data import flights
from tests.reference_evaluator.comparison import compare_rows
from tests.reference_evaluator.tables import comparable
from tests.seeds import by_first, chunks, count_of

from gamay.base.clock import SYSTEM_CLOCK
from gamay.functions.arrow import arrow_type
from gamay.model.index.indexing import IndexingConfig
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType as D
from gamay.model.types import FieldRole
from gamay.query.bind.binder import bind
from gamay.query.execute.executor import execute
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import reduce
from gamay.segment.mutable import MutableSegment
from gamay.segment.read.reader import open_segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.sql.parser import parse_query

# few of them, as each reads a third of a million rows
QUERIES = max(24, count_of("GAMAY_GENERATED_QUERIES", 0) // 20)
CHUNK = 12
SEGMENTS = (150_000, 150_000, 36_776)
NUMBERS = {"month": 0, "day": 0, "dep_delay": 0, "arr_delay": -1000, "air_time": 0, "distance": 0, "hour": 0, "flight": 0}
TEXTS = ("carrier", "tailnum", "origin", "dest")
KEYS = ("month", "day", "carrier", "tailnum", "origin", "dest", "hour", "arr_delay", "flight")
FIELDS = (
    *(FieldSpec(name, D.INT, default_null_value=default) for name, default in NUMBERS.items()),
    *(FieldSpec(name, D.STRING) for name in TEXTS),
    FieldSpec("time_hour", D.TIMESTAMP, FieldRole.DATE_TIME),
    FieldSpec("airports", D.STRING, single_value=False),
)
SCHEMA = Schema("flights", FIELDS, enable_column_based_null_handling=True)
_NAMES = [field.name for field in FIELDS]
CONFIGS = {
    "plain": IndexingConfig(null_handling_enabled=True),
    "indexed": IndexingConfig(
        null_handling_enabled=True,
        inverted_index_columns=(*TEXTS, "month", "airports"),
        range_index_columns=("distance",),
        no_dictionary_columns=("dep_delay", "arr_delay", "flight"),
    ),
}
CONFIGS["consuming"] = CONFIGS["indexed"]
_EMPTY = {"sum": "0", "min": "'Infinity'", "max": "'-Infinity'", "avg": "'-Infinity'"}


@dataclass
class Flights:
    """The flights as segments and in DuckDB: `flights` with nulls, `filled` with defaults and flags."""

    variants: dict[str, list[Any]]
    duck: duckdb.DuckDBPyConnection
    pool: WorkPool

    def rows(self, sql: str, variant: str) -> list[tuple[Any, ...]]:
        bound = bind(parse_query(sql), SCHEMA)
        result = execute(bound, self.variants[variant], self.pool, Deadline.after_ms(120_000, SYSTEM_CLOCK))
        table = reduce(bound, [result]).table
        assert table is not None
        return [tuple(map(comparable, row)) for row in table.rows()]


@pytest.fixture(scope="module")
def all_flights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flights]:
    found = pq.read_table(flights()[0])
    pairs = pa.chunked_array([pc.binary_join_element_wise(found["origin"], found["dest"], "|")]).combine_chunks()
    columns = {name: found[name] for name in _NAMES if name != "airports"} | {"airports": pc.split_pattern(pairs, "|")}
    table = pa.table({spec.name: columns[spec.name].cast(arrow_type(spec.data_type, spec.single_value)) for spec in FIELDS})
    duck = duckdb.connect(config={"threads": 1})
    duck.register("arrow_flights", table)
    duck.execute("CREATE TABLE flights AS SELECT * REPLACE (epoch_ms(time_hour) AS time_hour) FROM arrow_flights")
    filled = [f"coalesce({name}, {default}) AS {name}, {name} IS NULL AS {name}__null" for name, default in NUMBERS.items()]
    filled += [f"coalesce({name}, 'null') AS {name}, {name} IS NULL AS {name}__null" for name in TEXTS]
    duck.execute(f"CREATE TABLE filled AS SELECT {', '.join(filled)}, time_hour, airports FROM flights")
    with ExitStack() as stack:
        variants = {}
        for variant, indexing in CONFIGS.items():
            segments, start = [], 0
            for number, size in enumerate(SEGMENTS):
                folder = tmp_path_factory.mktemp(variant)
                config = TableConfig.offline("flights", indexing=indexing)
                batches = table.slice(start, size).combine_chunks().to_batches(max_chunksize=50_000)
                start += size
                if variant == "consuming":
                    segment = MutableSegment(f"flights_{number}", SCHEMA, config, folder)
                    for batch in batches:
                        segment.append(batch)
                    segments.append(segment.view())
                    segment.close()
                    continue
                builder = SegmentBuilder(SCHEMA, config, f"flights_{number}", folder)
                for batch in batches:
                    builder.append(batch)
                segments.append(open_segment(builder.build()))
            variants[variant] = segments
        yield Flights(variants, duck, stack.enter_context(WorkPool(2)))


@dataclass(frozen=True)
class Both:
    """A text in both dialects."""

    gamay: str
    duck: str


def same(text: str) -> Both:
    return Both(text, text)


class Generator:
    """Makes random queries; `duck` has all rows, in order, the keys of ORDER BY first."""

    def __init__(self, seed: int, nulls: bool) -> None:
        self.rng = random.Random(f"flights {seed}")
        self.nulls = nulls

    def number(self) -> Both:
        name = self.rng.choice(tuple(NUMBERS))
        if self.rng.random() < 0.6:
            return same(name)
        operator, other = self.rng.choice("+-*"), self.rng.choice((*NUMBERS, "3", "7"))
        return Both(f"({name} {operator} {other})", f"(CAST({name} AS DOUBLE) {operator} CAST({other} AS DOUBLE))")

    def condition(self, depth: int = 2) -> Both:
        rng = self.rng
        if depth and rng.random() < 0.5:
            parts = [self.condition(depth - 1) for _ in range(2)]
            word = rng.choice((" AND ", " OR "))
            made = Both(word.join(f"({p.gamay})" for p in parts), word.join(f"({p.duck})" for p in parts))
            return Both(f"NOT ({made.gamay})", f"NOT ({made.duck})") if rng.random() < 0.2 else made
        kind = rng.randrange(8)
        operator = rng.choice(("=", "<>", "<", "<=", ">", ">="))
        if kind == 0:
            return same(f"{rng.choice(tuple(NUMBERS))} {operator} {rng.randrange(-20, 60)}")
        if kind == 1:
            low = rng.randrange(-100, 2000)
            return same(f"{rng.choice(('distance', 'dep_delay', 'flight'))} BETWEEN {low} AND {low + rng.randrange(900)}")
        if kind == 2:
            listed = ", ".join(
                f"'{word}'" for word in rng.sample(("UA", "AA", "B6", "JFK", "EWR", "LAX", "ATL", "N725MQ"), 4)
            )
            return same(f"{rng.choice(TEXTS)} {rng.choice(('IN', 'NOT IN'))} ({listed})")
        if kind == 3:
            name, pattern = rng.choice(TEXTS), rng.choice(("%a%", "n7%", "_A%", "%mq", "JFK"))
            return Both(f"{name} LIKE '{pattern}'", f"{name} ILIKE '{pattern}'")
        if kind == 4:
            name, negated = rng.choice((*NUMBERS, "tailnum")), rng.choice(("", "NOT "))
            flag = f"{name} IS {negated}NULL" if self.nulls else f"{negated}{name}__null"
            return Both(f"{name} IS {negated}NULL", flag)
        if kind == 5:
            number, value = self.number(), rng.randrange(-50, 3000)
            return Both(f"{number.gamay} {operator} {value}", f"{number.duck} {operator} {value}")
        if kind == 6:
            ms = 1_357_000_000_000 + rng.randrange(365) * 86_400_000
            return same(f"time_hour {operator} {ms}")
        word = rng.choice(("JFK", "LAX", "ORD", "LGA"))
        return Both(f"airports = '{word}'", f"list_contains(airports, '{word}')")

    def aggregate(self) -> Both:
        rng = self.rng
        where = duck_where = ""
        if rng.random() < 0.25:
            condition = Both(*(f"({text})" for text in astuple(self.condition(1))))
            where, duck_where = f" FILTER (WHERE {condition.gamay})", f" FILTER (WHERE {condition.duck})"
        kind = rng.randrange(8)
        if kind == 0:
            return Both(f"COUNT(*){where}", f"count(*){duck_where}")
        if kind == 1:
            name = rng.choice(KEYS)
            return Both(f"DISTINCTCOUNT({name}){where}", f"count(DISTINCT {name}){duck_where}")
        number = self.number()
        double = f"CAST({number.duck} AS DOUBLE)"
        if kind == 2:
            percent = rng.choice((10, 50, 90, 99))
            nothing = "NULL" if self.nulls else "'-Infinity'::DOUBLE"
            known = f"{number.duck} IS NOT NULL" + (f" AND {condition.duck}" if where else "")
            values = f"list_sort(list({double}) FILTER (WHERE {known}))"
            place = f"CAST(floor(len({values}) * {percent} / 100.0) AS INT) + 1"
            return Both(f"PERCENTILE{percent}({number.gamay}){where}", f"coalesce({values}[{place}], {nothing})")
        name = rng.choice(tuple(_EMPTY))
        duck = f"{name}({double}){duck_where}"
        return Both(f"{name}({number.gamay}){where}", duck if self.nulls else f"coalesce({duck}, {_EMPTY[name]}::DOUBLE)")

    def query(self) -> tuple[str, str, int, tuple[bool, ...]]:
        """Return both texts, the limit, and which keys of the order fall."""
        rng = self.rng
        where = duck_where = ""
        if rng.random() < 0.85:
            condition = self.condition()
            where, duck_where = f" WHERE {condition.gamay}", f" WHERE {condition.duck}"
        source = "flights" if self.nulls else "filled"
        prefix = "SET numGroupsLimit = 10000000; " + ("SET enableNullHandling = true; " if self.nulls else "")
        keys = [same(name) for name in rng.sample(KEYS, rng.randrange(1, 4))]
        limit = rng.choice((5, 50, 1_000_000))
        descending = tuple(rng.random() < 0.5 for _ in keys)
        pairs = list(zip(keys, descending, strict=True))
        order = ", ".join(f"{key.gamay} {'DESC' if down else 'ASC'}" for key, down in pairs)
        duck_order = ", ".join(f"{key.duck} {'DESC NULLS FIRST' if down else 'ASC NULLS LAST'}" for key, down in pairs)
        kind = rng.randrange(5)
        if kind == 0:
            items = [self.aggregate() for _ in range(3)]
            gamay, duck = ", ".join(item.gamay for item in items), ", ".join(item.duck for item in items)
            return f"{prefix}SELECT {gamay} FROM flights{where}", f"SELECT {duck} FROM {source}{duck_where}", 10, ()
        listed = ", ".join(key.gamay for key in keys)
        if kind == 1:
            return (
                f"{prefix}SELECT {listed}, dest, time_hour FROM flights{where} ORDER BY {order} LIMIT {min(limit, 50)}",
                f"SELECT {listed}, dest, time_hour FROM {source}{duck_where} ORDER BY {duck_order}",
                min(limit, 50),
                descending,
            )
        items = [self.aggregate() for _ in range(rng.randrange(1, 4))]
        if kind == 2:
            source = f"(SELECT *, unnest(airports) AS airport FROM {source}{duck_where})"
            keys, duck_where = [*keys, Both("airports", "airport")], ""
        names, duck_names = ", ".join(key.gamay for key in keys), ", ".join(key.duck for key in keys)
        gamay, duck = ", ".join(item.gamay for item in items), ", ".join(item.duck for item in items)
        return (
            f"{prefix}SELECT {names}, {gamay} FROM flights{where} GROUP BY {names} ORDER BY {order} LIMIT {limit}",
            f"SELECT {duck_names}, {duck} FROM {source}{duck_where} GROUP BY {duck_names} ORDER BY {duck_order}",
            limit,
            descending,
        )


def check(all_flights: Flights, seed: int, nulls: bool) -> str | None:
    """Compare one query; return the difference."""
    gamay, duck, limit, descending = Generator(seed, nulls).query()
    expected = all_flights.duck.execute(duck).fetchall()
    variant = tuple(CONFIGS)[seed % 3]
    found = all_flights.rows(gamay, variant)
    told = f"seed {seed}, nulls {nulls}, {variant}:\n  {gamay}\n  {duck}\n  "
    if len(found) != min(limit, len(expected)):
        return f"{told}{len(found)} rows instead of {min(limit, len(expected))}"
    width, start = len(descending), 0
    while start < len(found):
        stop = start
        while stop < len(expected) and expected[stop][:width] == expected[start][:width]:
            stop += 1
        if not width:
            stop = len(expected)
        wrong = compare_rows(found[start:stop], expected[start:stop])
        if wrong:
            return f"{told}{wrong[:2]} should not be at {start}; one of {expected[start : min(stop, start + 2)]}"
        start = stop
    return None


@pytest.mark.parametrize("nulls", [False, True], ids=["defaults", "nulls"])
@pytest.mark.parametrize("some", chunks(QUERIES // 2, CHUNK), ids=by_first)
def test_generated_queries_on_flights_agree(all_flights: Flights, some: range, nulls: bool) -> None:
    failures = [wrong for seed in some if (wrong := check(all_flights, seed, nulls)) is not None]
    assert not failures, "\n\n".join(failures[:5])
