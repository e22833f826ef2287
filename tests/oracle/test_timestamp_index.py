"""Tables with and without a timestamp index give the same answers: generated queries of times, in every form of storage."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.seeds import chunks, count_of

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import QueryError
from gamay.functions.arrow import conformed_schema
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.query.answer.values import python_values
from gamay.query.bind.binder import bind
from gamay.query.execute.executor import execute
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import reduce
from gamay.segment.mutable import MutableSegment
from gamay.segment.read.reader import open_segment
from gamay.segment.spi import Segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.sql.parser import parse_query

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "enableColumnBasedNullHandling": True,
        "dimensionFieldSpecs": [{"name": "g", "dataType": "INT"}, {"name": "city", "dataType": "STRING"}],
        "metricFieldSpecs": [{"name": "v", "dataType": "LONG"}],
        "dateTimeFieldSpecs": [
            {"name": "ts", "dataType": "TIMESTAMP", "format": "TIMESTAMP", "granularity": "1:MILLISECONDS"},
            {"name": "at", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"},
        ],
    }
).value
GRANULARITIES = ("MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
FIELDS = ("year", "quarter", "month", "week", "yearOfWeek", "dayOfYear", "dow", "hour", "minute")
DAY_MS = 86_400_000


def config(granularities: Sequence[str], *, raw: bool = False, sort: str | None = None) -> TableConfig:
    declared = [
        {
            "name": name,
            "encodingType": "RAW" if raw else "DICTIONARY",
            "indexTypes": ["TIMESTAMP"],
            "timestampConfig": {"granularities": list(granularities)},
        }
        for name in ("ts", "at")
    ]
    return TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": {},
            "tenants": {},
            "metadata": {},
            "tableIndexConfig": {"nullHandlingEnabled": True, **({"sortedColumn": [sort]} if sort else {})},
            "fieldConfigList": declared if granularities else [],
        }
    ).value


def batch(rng: random.Random, rows: int, first_ms: int, last_ms: int) -> pa.RecordBatch:
    """Return rows with times between two moments, few of them null."""

    def time() -> int | None:
        return None if rng.random() < 0.04 else rng.choice([rng.randrange(first_ms, last_ms), first_ms, last_ms - 1])

    columns = {
        "g": [rng.randrange(4) for _ in range(rows)],
        "city": [rng.choice(["Oslo", "Lima", None]) for _ in range(rows)],
        "v": [rng.randrange(1000) for _ in range(rows)],
        "ts": [time() for _ in range(rows)],
        "at": [time() for _ in range(rows)],
    }
    target = conformed_schema(SCHEMA)
    arrays = [pa.array(columns[name], pa.int64()).cast(target.field(name).type) if name in ("ts", "at")
              else pa.array(columns[name], target.field(name).type) for name in target.names]  # fmt: skip
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def built(made: pa.RecordBatch, name: str, how: TableConfig, folder: Path) -> Segment:
    builder = SegmentBuilder(SCHEMA, how, name, folder)
    builder.append(made)
    return open_segment(builder.build())


def consumed(made: pa.RecordBatch, name: str, how: TableConfig, folder: Path) -> MutableSegment:
    segment = MutableSegment(name, SCHEMA, how, folder)
    segment.append(made)
    return segment


@dataclass(frozen=True)
class Tables:
    """The same rows without the index, and with it in several forms."""

    plain: list[Segment]
    forms: dict[str, list[Segment]]
    pool: WorkPool

    def ask(self, sql: str, segments: Sequence[Segment]) -> Any:
        """Return names, types and rows of an answer, or the kind of error that it is."""
        try:
            bound = bind(parse_query(sql), SCHEMA)
            answer = reduce(bound, [execute(bound, segments, self.pool, Deadline.after_ms(60_000, SYSTEM_CLOCK))])
        except QueryError as error:
            return error.code
        table = answer.table
        return table.names, table.types, list(zip(*map(python_values, table.columns), strict=True))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    rng, folder = random.Random(5), tmp_path_factory.mktemp("tables")
    spans = [(-40 * DAY_MS, 40 * DAY_MS), (19_000 * DAY_MS, 19_800 * DAY_MS), (19_500 * DAY_MS, 19_503 * DAY_MS)]
    parts = [batch(rng, 250, *span) for span in spans]
    without, every = config(()), config(GRANULARITIES)
    some = [config(rng.sample(GRANULARITIES, 3), raw=True) for _ in parts]

    def segments(form: str, hows: Sequence[TableConfig]) -> list[Segment]:
        return [built(part, f"t{i}", hows[i], folder / form) for i, part in enumerate(parts)]

    plain = segments("plain", [without] * 3)
    forms = {
        "all": segments("all", [every] * 3),
        "raw": segments("raw", [config(GRANULARITIES, raw=True)] * 3),
        "some": segments("some", some),
        "mixed": [plain[0], *segments("mixed", [every] * 3)[1:]],
        "days": segments("days", [config(("DAY",))] * 3),
    }
    consuming = [consumed(part, f"t{i}", every, folder / "consuming") for i, part in enumerate(parts)]
    forms["consuming"] = [one.view() for one in consuming]
    forms["sealed"] = [open_segment(one.seal(folder / "sealed")) for one in consuming]
    with WorkPool(2) as pool:
        yield Tables(plain, forms, pool)


def times(rng: random.Random, column: str | None = None) -> str:
    """Return an expression of a time."""
    column = column or rng.choice(["ts", "ts", "at"])
    unit = rng.choice(GRANULARITIES)
    millis = rng.choice(["TIMESTAMP", "1:MILLISECONDS:EPOCH"])
    zone = rng.choice(["", "", ", 'UTC'", ", 'America/New_York'"])
    size = rng.choice(["1:DAYS", "1:HOURS", "2:DAYS", "90:MINUTES", "30:MINUTES", "1:SECONDS", "7:DAYS", "250:MILLISECONDS"])
    target = rng.choice([millis, "1:DAYS:EPOCH", "1:HOURS:EPOCH"])
    counted = rng.choice(["Days", "Hours", "Minutes"])
    return rng.choice(
        [
            f"dateTrunc('{unit}', {column})",
            f"dateTrunc('{unit}', {column})",
            f'"${column}${unit}"',
            f'"${column}${unit.lower()}"',
            f"dateTrunc('{unit.lower()}', {column}, 'MILLISECONDS'{zone})",
            f"dateTrunc('{unit}', {column}, 'MILLISECONDS', 'UTC', '{rng.choice(['MILLISECONDS', 'DAYS'])}')",
            f"dateTrunc('{unit}', {column}, 'SECONDS')",
            f"{rng.choice(FIELDS)}({column}{zone})",
            f"EXTRACT({rng.choice(['YEAR', 'DOW', 'DAY', 'WEEK', 'HOUR'])} FROM {column})",
            f"toEpoch{counted}({column})",
            f"toEpoch{counted}{rng.choice(['Rounded', 'Bucket'])}({column}, {rng.choice([1, 7])})",
            f"timeConvert({column}, 'MILLISECONDS', '{rng.choice(['DAYS', 'WEEKS', 'MONTHS', 'YEARS', 'HOURS'])}')",
            f"dateTimeConvert({column}, '{millis}', '{target}', '{size}'{zone})",
            f"dateTimeConvert({column}, '{millis}', '1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd HH:mm"
            f"{rng.choice(['', ' tz(America/New_York)'])}', '{size}'{zone})",
            f"toDateTime({column}, '{rng.choice(['yyyy-MM-dd', 'yyyy', 'HH', 'yyyy-MM-dd HH:mm:ss'])}'{zone})",
        ]
    )


def moment(rng: random.Random) -> int:
    days = rng.choice([rng.randrange(-40, 40), rng.randrange(19_000, 19_800), rng.randrange(19_500, 19_503)])
    return days * DAY_MS + rng.choice([0, 0, 0, 3_600_000, 1])


def condition(rng: random.Random, depth: int = 2) -> str:
    if depth and rng.random() < 0.35:
        inner = [condition(rng, depth - 1) for _ in range(2)]
        return f"({rng.choice([' AND ', ' OR ']).join(inner)})"
    if rng.random() < 0.15:
        return f"NOT ({condition(rng, 0)})"
    if rng.random() < 0.2:
        column = rng.choice(["ts", "at"])
        null = rng.choice(["IS NULL", "IS NOT NULL"])
        return rng.choice([f'"${column}$DAY" {null}', f"{column} {null}", f"dateTrunc('DAY', {column}) {null}", "g = 1"])
    unit, column = rng.choice(GRANULARITIES), rng.choice(["ts", "at"])
    cut = rng.choice([f"dateTrunc('{unit}', {column})", f'"${column}${unit}"', f"dateTrunc('DAY', {column})"])
    sign = rng.choice(["=", "<>", "<", "<=", ">", ">="])
    literal = rng.choice([str(moment(rng)), str(moment(rng)), f"{moment(rng)}.5", f"'{moment(rng)}'"])
    return rng.choice(
        [
            f"{cut} {sign} {literal}",
            f"{literal} {sign} {cut}",
            f"{cut} BETWEEN {moment(rng)} AND {moment(rng) + 20 * DAY_MS}",
            f"{cut} {rng.choice(['IN', 'NOT IN'])} ({moment(rng)}, {moment(rng)}, {moment(rng)})",
            f"\"${column}$MONTH\" {sign} '2022-0{rng.randrange(1, 9)}-01 00:00:00'",
            f"{cut} {sign} {column}",
            f"{times(rng)} = {times(rng)}",
            f"year({column}) = {rng.choice([1969, 1970, 2022, 2023])}",
            f"hour({column}) {sign} 12 AND dow({column}) {sign} 3",
            f"{cut} + {DAY_MS} {sign} {literal}",
        ]
    )


def query(rng: random.Random) -> str:
    where = f" WHERE {condition(rng)}" if rng.random() < 0.6 else ""
    nulls = f" OPTION(enableNullHandling={rng.choice(['true', 'false'])})"
    keys = [times(rng) for _ in range(rng.choice([1, 1, 2]))]
    if rng.random() < 0.2:
        keys.append(rng.choice(["g", "city"]))
    kind = rng.random()
    if kind < 0.3:
        order = ", ".join([*(f"{key}{rng.choice(['', ' DESC'])}" for key in keys), "ts, at, v, g, city"])
        return f"SELECT {', '.join(keys)}, ts, v FROM t{where} ORDER BY {order} LIMIT {rng.choice([5, 3000])}{nulls}"
    if kind < 0.4:
        return f"SELECT DISTINCT {', '.join(keys)} FROM t{where} LIMIT 10000{nulls}"
    clause = f" FILTER (WHERE {condition(rng, 0)})" if rng.random() < 0.3 else ""
    aggregates = [
        rng.choice(["count(*)", "sum(v)", f"max({times(rng, 'ts')})", f"min({keys[0]})", f"count({keys[0]})",
                    f"distinctCount({times(rng)})"]) + clause for _ in range(2)
    ]  # fmt: skip
    if kind < 0.5:
        return f"SELECT {', '.join(aggregates)} FROM t{where}{nulls}"
    having = f" HAVING count(*) > 2 AND max(v) > {rng.randrange(900)}" if rng.random() < 0.2 else ""
    if kind < 0.6:
        sets = rng.choice([f"ROLLUP({', '.join(keys)})", f"GROUPING SETS (({', '.join(keys)}), ({keys[0]}), ())"])
        return f"SELECT {', '.join([*keys, *aggregates])} FROM t{where} GROUP BY {sets}{having} LIMIT 10000{nulls}"
    listed = ", ".join(keys)
    order = f" ORDER BY {listed}" if rng.random() < 0.5 else ""
    return f"SELECT {listed}, {', '.join(aggregates)} FROM t{where} GROUP BY {listed}{having}{order} LIMIT 10000{nulls}"


QUERIES = count_of("GAMAY_TIMESTAMP_QUERIES", 60)


def comparable(answer: Any, sql: str) -> Any:
    """Return an answer with its rows sorted, unless the query has an order."""
    if isinstance(answer, tuple) and "SELECT DISTINCT" not in sql and " ORDER BY " in sql:
        return answer
    return (*answer[:2], sorted(answer[2], key=repr)) if isinstance(answer, tuple) else answer


@pytest.mark.parametrize("seeds", chunks(QUERIES, 30), ids=lambda part: str(part.start))
def test_answers_do_not_depend_on_the_index(tables: Tables, seeds: range) -> None:
    answered = 0
    for seed in seeds:
        sql = query(random.Random(seed))
        expected = comparable(tables.ask(sql, tables.plain), sql)
        answered += isinstance(expected, tuple)
        for form, segments in tables.forms.items():
            found = comparable(tables.ask(sql, segments), sql)
            assert repr(found) == repr(expected), f"seed {seed}, {form}: {sql}"
    assert answered > len(seeds) * 0.8
