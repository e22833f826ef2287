"""One generated table of every type, as segments with and without indexes, and the same rows in DuckDB."""

import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from gamay.base.clock import SYSTEM_CLOCK
from gamay.functions.arrow import arrow_type
from gamay.model.index.indexing import IndexingConfig
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType, FieldRole
from gamay.query.bind.binder import bind
from gamay.query.execute.executor import execute
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import Answer, reduce
from gamay.segment.mutable import MutableSegment
from gamay.segment.read.reader import open_segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.sql.parser import parse_query

D = DataType
FIELDS = (
    FieldSpec("id", D.LONG),
    FieldSpec("i", D.INT, default_null_value=-1000),
    FieldSpec("l", D.LONG, default_null_value=-77),
    FieldSpec("big", D.LONG),
    FieldSpec("f", D.FLOAT, FieldRole.METRIC),
    FieldSpec("x", D.DOUBLE, FieldRole.METRIC),
    FieldSpec("dec", D.BIG_DECIMAL),
    FieldSpec("b", D.BOOLEAN),
    FieldSpec("t", D.TIMESTAMP, FieldRole.DATE_TIME),
    FieldSpec("s", D.STRING),
    FieldSpec("w", D.STRING),
    FieldSpec("j", D.JSON),
    FieldSpec("by", D.BYTES),
    FieldSpec("u", D.UUID),
    FieldSpec("mi", D.INT, single_value=False),
    FieldSpec("ms", D.STRING, single_value=False),
)
SCHEMA = Schema("t1", FIELDS, enable_column_based_null_handling=True)
NAMES = tuple(field.name for field in FIELDS)
SEGMENT_ROWS = (1, 700, 1300, 900)
EPOCH_MS = 1_700_000_000_000
WORDS = (
    "Oslo",
    "Lima",
    "Zürich",
    "São Paulo",
    "東京",
    "a%b",
    "a_b",
    "A.B",
    "",
    "null",
    "x'y",
    "oslo",
    "😀",
    "\ufffd",
    "New York",
)

_DUCK_TYPES = {
    D.INT: "INTEGER",
    D.LONG: "BIGINT",
    D.FLOAT: "FLOAT",
    D.DOUBLE: "DOUBLE",
    D.BIG_DECIMAL: "DECIMAL(18,3)",
    D.BOOLEAN: "BOOLEAN",
    D.TIMESTAMP: "TIMESTAMP_MS",
    D.STRING: "VARCHAR",
    D.JSON: "VARCHAR",
    D.BYTES: "BLOB",
    D.UUID: "BLOB",
}


def _row(rng: random.Random, row: int) -> dict[str, Any]:
    values: dict[str, Any] = {
        "id": row,
        "i": rng.randrange(-8, 12),
        # sums of products of l, f and x are exact in doubles, so that the order of addition does not show; big is not added
        "l": rng.randrange(-(10**6), 10**6) if rng.random() < 0.5 else rng.randrange(50),
        "big": rng.choice((rng.randrange(-(10**12), 10**12), 2**63 - 1, 2**53 + 1, 2**53, -(2**63))),
        "f": rng.randrange(-400, 400) / 8,
        "x": rng.randrange(-(10**6), 10**6) / 16 if rng.random() < 0.5 else float(rng.randrange(-4, 5)),
        "dec": Decimal(rng.randrange(-5000, 5000)) / 8,
        "b": rng.random() < 0.4,
        "t": EPOCH_MS + row * 60_000 + rng.randrange(3) * 250,
        "s": rng.choice(WORDS),
        "w": f"user_{rng.randrange(2500):04d}",
        "j": rng.choice(('{"a":1}', '{"a":2,"b":[1,2]}', "[]", "null")),
        "by": bytes(rng.randrange(256) for _ in range(rng.randrange(3))),
        "u": uuid.UUID(int=rng.randrange(1 << 6) << 90).bytes,
        "mi": [rng.randrange(10) for _ in range(rng.randrange(4))],
        "ms": [rng.choice(WORDS[:7]) for _ in range(rng.randrange(1, 4))],
    }
    for name in NAMES[1:]:
        if name != "t" and rng.random() < 0.06:
            values[name] = None
    return values


def _conformed(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    arrays = []
    for spec in FIELDS:
        values = [row[spec.name] for row in rows]
        if spec.data_type is D.BIG_DECIMAL:
            values = [None if value is None else format(value, "f") for value in values]
        arrays.append(pa.array(values, arrow_type(spec.data_type, spec.single_value)))
    return pa.RecordBatch.from_arrays(arrays, names=list(NAMES))


def _config(variant: str) -> TableConfig:
    scalar = tuple(field.name for field in FIELDS if field.single_value)
    ranged = tuple(field.name for field in FIELDS if field.single_value and field.data_type.is_numeric)
    if variant == "indexed":
        bloom = tuple(name for name in scalar if name not in ("b",))
        indexing = IndexingConfig(
            inverted_index_columns=NAMES, range_index_columns=ranged, bloom_filter_columns=bloom, null_handling_enabled=True
        )
    elif variant == "raw":
        indexing = IndexingConfig(no_dictionary_columns=NAMES, null_handling_enabled=True)
    else:
        indexing = IndexingConfig(null_handling_enabled=True)
    return TableConfig.offline("t1", indexing=indexing)


def _load_duckdb(rows: Sequence[dict[str, Any]]) -> duckdb.DuckDBPyConnection:
    """Hold the rows with nulls replaced by the defaults and `<column>__null` flags beside them, and as t1n with nulls."""
    arrays, names, columns, nullable = [], [], [], []
    for spec in FIELDS:
        default = spec.default_null_value
        values = [row[spec.name] for row in rows]
        nulls = [value is None or value == [] for value in values]
        filled = [
            (default if spec.single_value else [default]) if null else value
            for value, null in zip(values, nulls, strict=True)
        ]
        kind = pa.decimal128(18, 3) if spec.data_type is D.BIG_DECIMAL else arrow_type(spec.data_type, spec.single_value)
        kept = [None if null else value for null, value in zip(nulls, values, strict=True)]
        arrays += [pa.array(filled, kind), pa.array(nulls), pa.array(kept, kind)]
        names += [spec.name, f"{spec.name}__null", f"{spec.name}__kept"]
        duck_type = _DUCK_TYPES[spec.data_type] + ("" if spec.single_value else "[]")
        columns.append(f'CAST("{spec.name}" AS {duck_type}) AS "{spec.name}", "{spec.name}__null"')
        nullable.append(f'CAST("{spec.name}__kept" AS {duck_type}) AS "{spec.name}"')
    connection = duckdb.connect(config={"threads": 1})
    connection.register("arrow_rows", pa.table(arrays, names=names))
    connection.execute(f"CREATE TABLE t1 AS SELECT {', '.join(columns)} FROM arrow_rows")
    connection.execute(f"CREATE TABLE t1n AS SELECT {', '.join(nullable)} FROM arrow_rows")
    connection.unregister("arrow_rows")
    return connection


@dataclass
class Oracle:
    """The table in all its forms."""

    variants: dict[str, list[Any]]
    duck: duckdb.DuckDBPyConnection
    pool: WorkPool

    def answer(self, sql: str, variant: str = "plain") -> Answer:
        """Run a query on one form of the table."""
        bound = bind(parse_query(sql), SCHEMA)
        deadline = Deadline.after_ms(60_000, SYSTEM_CLOCK)
        # two servers, so that merging is part of every query
        segments = self.variants[variant]
        results = [execute(bound, part, self.pool, deadline, "host-1") for part in (segments[:2], segments[2:])]
        return reduce(bound, results)

    def rows(self, sql: str, variant: str = "plain") -> list[tuple[Any, ...]]:
        """Return the rows of a query on one form of the table, comparable with `duck_rows`."""
        table = self.answer(sql, variant).table
        assert table is not None
        return [tuple(comparable(value) for value in row) for row in table.rows()]

    def duck_rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a DuckDB query."""
        return [tuple(comparable(value) for value in row) for row in self.duck.execute(sql).fetchall()]


def comparable(value: Any) -> Any:
    """Return a value in the one form in which both engines' values are compared: numbers to 12 digits, -0.0 as 0.0."""
    if isinstance(value, bool):
        return value
    if isinstance(value, Decimal):
        return ("decimal", value.normalize() + 0)
    if isinstance(value, float):
        return "NaN" if value != value else float(f"{value:.12g}") + 0.0
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, list):
        return tuple(comparable(one) for one in value)
    return value


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """The generated table: four segments (one of a single row) as plain, indexed, raw and consuming, and DuckDB."""
    rng = random.Random(20131)
    rows = [_row(rng, row) for row in range(sum(SEGMENT_ROWS))]
    variants: dict[str, list[Any]] = {}
    for variant in ("plain", "indexed", "raw", "consuming"):
        folder: Path = tmp_path_factory.mktemp(variant)
        segments, start = [], 0
        for number, size in enumerate(SEGMENT_ROWS):
            batch = _conformed(rows[start : start + size])
            start += size
            if variant == "consuming":
                segment = MutableSegment(f"t1_{number}", SCHEMA, _config("indexed"), folder)
                for first in range(0, size, 29):
                    segment.append(batch.slice(first, 29))
                segments.append(segment.view())
                segment.close()
                continue
            builder = SegmentBuilder(SCHEMA, _config(variant), f"t1_{number}", folder)
            builder.append(batch)
            segments.append(open_segment(builder.build()))
        variants[variant] = segments
    with WorkPool(2) as pool:
        yield Oracle(variants, _load_duckdb(rows), pool)
