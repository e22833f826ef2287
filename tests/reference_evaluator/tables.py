"""The two tables of the generated queries, as rows and as segments in several forms."""

import json
import random
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.data import flights
from tests.reference_evaluator.tree import Row

from gamay.functions.arrow import arrow_type
from gamay.model.index.indexing import GRANULARITIES, FieldConfig, IndexingConfig, TimestampConfig
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType, FieldRole
from gamay.segment.mutable import MutableSegment, SegmentView
from gamay.segment.read.reader import open_segment
from gamay.segment.write.builder import SegmentBuilder

D = DataType
VARIANTS = ("plain", "indexed", "raw", "sorted", "mixed", "consuming", "hybrid")
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
    " pad ",
    "New York",
)

KEYS = ("a", "b c", 'é"\\')
"""The keys of maps; each is missing in some."""


def _map_field(name: str, value: FieldSpec) -> FieldSpec:
    return FieldSpec(name, D.MAP, FieldRole.COMPLEX, child_fields={"key": FieldSpec("key", D.STRING), "value": value})


FIELDS = (
    FieldSpec("id", D.LONG),
    FieldSpec("i", D.INT, default_null_value=-1000),
    FieldSpec("k", D.INT, FieldRole.METRIC),
    FieldSpec("l", D.LONG, default_null_value=-77),
    FieldSpec("big", D.LONG),
    FieldSpec("f", D.FLOAT, FieldRole.METRIC),
    FieldSpec("x", D.DOUBLE, FieldRole.METRIC),
    FieldSpec("odd", D.DOUBLE),
    FieldSpec("dec", D.BIG_DECIMAL),
    FieldSpec("b", D.BOOLEAN),
    FieldSpec("t", D.TIMESTAMP, FieldRole.DATE_TIME),
    FieldSpec("t2", D.TIMESTAMP, FieldRole.DATE_TIME),
    FieldSpec("s", D.STRING),
    FieldSpec("w", D.STRING),
    FieldSpec("digits", D.STRING, default_null_value="0"),
    FieldSpec("j", D.JSON),
    FieldSpec("by", D.BYTES),
    FieldSpec("u", D.UUID),
    _map_field("pl", FieldSpec("value", D.LONG, default_null_value=-9)),
    _map_field("ps", FieldSpec("value", D.STRING)),
    FieldSpec("mi", D.INT, single_value=False),
    FieldSpec("ml", D.LONG, single_value=False, default_null_value=-3),
    FieldSpec("mx", D.DOUBLE, single_value=False, default_null_value=0.5),
    FieldSpec("ms", D.STRING, single_value=False),
)
FLIGHT_FIELDS = (
    FieldSpec("id", D.LONG),
    *(FieldSpec(name, D.INT) for name in ("month", "day", "sched_dep_time", "hour", "minute", "flight")),
    FieldSpec("dep_time", D.INT, default_null_value=-1),
    FieldSpec("dep_delay", D.INT, FieldRole.METRIC),
    FieldSpec("arr_delay", D.LONG, default_null_value=-1000),
    FieldSpec("air_time", D.FLOAT, FieldRole.METRIC),
    FieldSpec("distance", D.DOUBLE, FieldRole.METRIC),
    FieldSpec("carrier", D.STRING),
    FieldSpec("tailnum", D.STRING),
    FieldSpec("origin", D.STRING),
    FieldSpec("dest", D.STRING),
    FieldSpec("time_hour", D.TIMESTAMP, FieldRole.DATE_TIME),
    FieldSpec("airports", D.STRING, single_value=False),
    FieldSpec("delays", D.INT, single_value=False, default_null_value=0),
)
FLIGHTS_TAKEN = 600


@dataclass(frozen=True, slots=True)
class Roles:
    """Which columns the generator uses for what. numbers: sums of products of two of them are exact in doubles."""

    numbers: tuple[str, ...]
    more_numbers: tuple[str, ...]
    texts: tuple[str, ...]
    times: tuple[str, ...]
    keys: tuple[str, ...]
    sortable: tuple[str, ...]
    number_lists: tuple[str, ...]
    text_lists: tuple[str, ...]
    flags: tuple[str, ...] = ()
    decimals: tuple[str, ...] = ()
    bytes: tuple[str, ...] = ()
    uuids: tuple[str, ...] = ()
    json: tuple[str, ...] = ()
    maps: tuple[str, ...] = ()
    digits: tuple[str, ...] = ()


GENERATED_ROLES = Roles(
    numbers=("i", "l", "f", "x"),
    more_numbers=("k", "big", "odd", "id"),
    texts=("s", "w"),
    times=("t", "t2"),
    keys=("i", "b", "s", "f", "dec", "by", "u", "j", "pl", "odd", "k", "big"),
    sortable=("id", "i", "l", "big", "f", "x", "odd", "dec", "b", "t", "t2", "s", "w", "by", "u"),
    number_lists=("mi", "ml", "mx"),
    text_lists=("ms",),
    flags=("b",),
    decimals=("dec",),
    bytes=("by",),
    uuids=("u",),
    json=("j",),
    maps=("pl", "ps"),
    digits=("digits",),
)
FLIGHT_ROLES = Roles(
    numbers=("dep_delay", "arr_delay", "air_time", "distance", "hour", "minute"),
    more_numbers=("id", "dep_time", "sched_dep_time", "flight"),
    texts=("carrier", "tailnum", "origin", "dest"),
    times=("time_hour",),
    keys=("month", "day", "carrier", "origin", "dest", "hour", "time_hour"),
    sortable=(
        "id",
        "month",
        "day",
        "dep_delay",
        "arr_delay",
        "air_time",
        "distance",
        "carrier",
        "tailnum",
        "dest",
        "time_hour",
    ),
    number_lists=("delays",),
    text_lists=("airports",),
)


def _document(rng: random.Random) -> str:
    document: dict[str, Any] = {"a": rng.randrange(-5, 40), "c": {"d": rng.choice(WORDS)}}
    if rng.random() < 0.7:
        document["b"] = [rng.randrange(10) for _ in range(rng.randrange(4))]
    if rng.random() < 0.5:
        document["e"] = rng.randrange(-40, 40) / 8
    return rng.choice((json.dumps(document, ensure_ascii=False), json.dumps(document), '{"a":1}', "[]"))


def map_text(values: dict[str, Any]) -> str:
    """Return the one text of a map."""
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _generated_row(rng: random.Random, row: int) -> Row:
    values: Row = {
        "id": row,
        "i": rng.randrange(-8, 12),
        "k": rng.choice((0, 1, 7, 100, 2**31 - 1)),
        "l": rng.randrange(-(10**6), 10**6) if rng.random() < 0.5 else rng.randrange(50),
        "big": rng.choice((rng.randrange(-(10**12), 10**12), 2**63 - 1, 2**53 + 1, 2**53, -(2**63))),
        "f": rng.randrange(-400, 400) / 8,
        "x": rng.randrange(-(10**6), 10**6) / 16 if rng.random() < 0.5 else float(rng.randrange(-4, 5)),
        "odd": rng.choice((float("nan"), float("inf"), -float("inf"), -0.0, 1e300, 5e-324, rng.randrange(-9, 9) / 4)),
        "dec": Decimal(rng.randrange(-500, 500)) / 8,
        "b": rng.random() < 0.4,
        "t": 1_700_000_000_000 + row * 60_000 + rng.randrange(3) * 250,
        "t2": rng.randrange(1_325_376_000_000, 1_735_689_600_000) // rng.choice((1, 250, 60_000, 86_400_000)) * 250,
        "s": rng.choice(WORDS),
        "w": f"user_{rng.randrange(2500):04d}",
        "digits": rng.choice((str(rng.randrange(-99, 100)), str(rng.randrange(10**9)))),
        "j": _document(rng),
        "by": bytes(rng.randrange(256) for _ in range(rng.randrange(3))),
        "u": uuid.UUID(int=rng.randrange(1 << 5) << 90).bytes,
        "pl": map_text({key: rng.randrange(-20, 20) for key in KEYS if rng.random() < 0.6}),
        "ps": map_text({key: rng.choice(WORDS) for key in KEYS if rng.random() < 0.7}),
        "mi": [rng.randrange(10) for _ in range(rng.randrange(4))],
        "ml": [rng.choice((rng.randrange(-20, 20), 10**6)) for _ in range(rng.randrange(1, 3))],
        "mx": [rng.randrange(-16, 16) / 4 for _ in range(rng.randrange(1, 4))],
        "ms": [rng.choice(WORDS[:7]) for _ in range(rng.randrange(1, 4))],
    }
    values["t2"] = min(values["t2"], 1_735_689_600_000)
    return values


def _generated_rows() -> list[list[Row]]:
    """Return the rows of each segment: one of a single row, one without nulls, one in which much is missing."""
    rng = random.Random(20131)
    parts, row = [], 0
    for size, missing in ((1, 0.0), (100, 0.0), (0, 0.0), (480, 0.07), (60, 0.3)):
        part = []
        for _ in range(size):
            values = _generated_row(rng, row)
            for name in values:
                if name not in ("id", "t") and rng.random() < missing:
                    values[name] = None
            part.append(values)
            row += 1
        parts.append(part)
    return parts


def _flight_rows() -> list[list[Row]]:
    table = pq.read_table(flights()[0])
    taken = table.take(list(range(0, table.num_rows, table.num_rows // FLIGHTS_TAKEN)))
    rows: list[Row] = []
    for number, found in enumerate(taken.to_pylist()):
        delays = [found["dep_delay"], found["arr_delay"]]
        row = {spec.name: found.get(spec.name) for spec in FLIGHT_FIELDS}
        row |= {
            "id": number,
            "air_time": None if found["air_time"] is None else float(found["air_time"]),
            "distance": float(found["distance"]),
            "time_hour": int(found["time_hour"].timestamp() * 1000),
            "airports": [found["origin"], found["dest"]],
            "delays": [delay for delay in delays if delay is not None],
        }
        rows.append(row)
    return [rows[:100], rows[100:101], rows[101:]]


def _config(name: str, fields: Sequence[FieldSpec], variant: str) -> TableConfig:
    indexed = [field for field in fields if field.data_type is not D.MAP]
    single = tuple(field.name for field in indexed if field.single_value)
    every = tuple(field.name for field in indexed)
    ranged = tuple(field.name for field in indexed if field.single_value and field.data_type.is_numeric)
    bloom = tuple(field.name for field in indexed if field.single_value and field.data_type is not D.BOOLEAN)
    settings: dict[str, dict[str, Any]] = {
        "plain": {},
        "indexed": {"inverted_index_columns": every, "range_index_columns": ranged, "bloom_filter_columns": bloom},
        "raw": {"no_dictionary_columns": every},
        "sorted": {},
        "mixed": {
            "no_dictionary_columns": single[::3],
            "range_index_columns": ranged[::2],
            "inverted_index_columns": single[1::3],
        },
    }
    settings |= {"consuming": settings["indexed"], "hybrid": settings["mixed"]}
    times = [field.name for field in indexed if field.single_value and field.data_type is D.TIMESTAMP]
    granularities = {"indexed": GRANULARITIES, "consuming": GRANULARITIES, "mixed": ("DAY", "YEAR"), "hybrid": ("HOUR",)}
    cut = TimestampConfig(granularities.get(variant, ()))
    return TableConfig.offline(
        name,
        indexing=IndexingConfig(null_handling_enabled=True, **settings[variant]),
        field_configs=tuple(FieldConfig(column, timestamp=cut) for column in times),
    )


def _batch(fields: Sequence[FieldSpec], rows: Sequence[Row]) -> pa.RecordBatch:
    arrays = []
    for spec in fields:
        values = [row[spec.name] for row in rows]
        if spec.data_type is D.BIG_DECIMAL:
            values = [None if value is None else format(value, "f") for value in values]
        arrays.append(pa.array(values, arrow_type(spec.data_type, spec.single_value)))
    return pa.RecordBatch.from_arrays(arrays, names=[spec.name for spec in fields])


@dataclass(frozen=True, slots=True)
class Table:
    """A table: `rows` with nulls and `filled` without, each with the flags `?name`; segments by variant."""

    name: str
    schema: Schema
    roles: Roles
    types: dict[str, tuple[str, bool]]
    rows: list[Row]
    filled: list[Row]
    variants: dict[str, list[Any]]
    samples: dict[str, list[Any]]


def build_table(
    name: str, fields: Sequence[FieldSpec], roles: Roles, parts: Sequence[list[Row]], sort_by: str, folder: Path
) -> Table:
    """Return a table of these rows, with a segment for each part in each variant."""
    schema = Schema(name, tuple(fields), enable_column_based_null_handling=True)
    variants: dict[str, list[Any]] = {}
    for variant in VARIANTS:
        segments = []
        for number, part in enumerate(parts):
            ordered = part
            if variant == "sorted":
                default = next(field for field in fields if field.name == sort_by).default_null_value
                ordered = sorted(part, key=lambda row: default if row[sort_by] is None else row[sort_by])
            config, batch = _config(name, fields, variant), _batch(fields, ordered)
            if variant == "consuming" or (variant == "hybrid" and number % 2):
                segments.append(_consuming(schema, config, f"{name}_{number}", folder / variant, batch))
                continue
            builder = SegmentBuilder(schema, config, f"{name}_{number}", folder / variant)
            builder.append(batch)
            segments.append(open_segment(builder.build()))
        variants[variant] = segments
    rows, filled = [], []
    for number, part in enumerate(parts):
        for given in part:
            row = {name: _stored(value) for name, value in given.items()}
            flags: Row = {f"?{spec.name}": row[spec.name] is None or row[spec.name] == [] for spec in fields}
            shared = flags | {"$segmentName": f"{name}_{number}", "$totalDocs": len(part)}
            rows.append(shared | {spec.name: None if flags[f"?{spec.name}"] else row[spec.name] for spec in fields})
            filled.append(shared | {spec.name: _filled(spec, row[spec.name]) for spec in fields})
    rng = random.Random(7)
    samples = {}
    for spec in fields:
        lists = [row[spec.name] if not spec.single_value else [row[spec.name]] for row in rng.sample(filled, 60)]
        samples[spec.name] = [value for values in lists for value in values]
    types = {spec.name: (spec.data_type.value, not spec.single_value) for spec in fields}
    return Table(name, schema, roles, types, rows, filled, variants, samples)


def _consuming(schema: Schema, config: TableConfig, name: str, folder: Path, batch: pa.RecordBatch) -> SegmentView:
    """Return the view of rows that came in batches, and after which others have come."""
    segment = MutableSegment(name, schema, config, folder)
    for start in range(0, batch.num_rows, 37):
        segment.append(batch.slice(start, 37))
    view = segment.view()
    segment.append(batch.slice(0, 50))
    segment.close()
    return view


def _filled(spec: FieldSpec, value: Any) -> Any:
    if value is None or value == []:
        default = _plain(spec.default_null_value)
        return default if spec.single_value else [default]
    return value


def _stored(value: Any) -> Any:
    """Return what is kept of a value: NaN is no value, and there is one zero."""
    if isinstance(value, list):
        return [_stored(one) for one in value]
    return (None if value != value else value + 0.0) if isinstance(value, float) else value


def _plain(value: Any) -> Any:
    return value.value if hasattr(value, "value") else value


def generated_table(folder: Path) -> Table:
    """Return the table of every type."""
    return build_table("events", FIELDS, GENERATED_ROLES, _generated_rows(), "i", folder)


def flights_table(folder: Path) -> Table:
    """Return every nth flight."""
    return build_table("flights", FLIGHT_FIELDS, FLIGHT_ROLES, _flight_rows(), "month", folder)


TABLES: dict[str, Callable[[Path], Table]] = {"events": generated_table, "flights": flights_table}


def comparable(value: Any) -> Any:
    """Return a value of the engine in the form that rows have here."""
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, list):
        return [comparable(one) for one in value]
    return map_text(value) if isinstance(value, dict) else value
