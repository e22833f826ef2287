"""Segments built from others: the same rows as DuckDB computes from them."""

import base64
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from gamay.base.clock import ManualClock
from gamay.base.errors import InvalidConfigError
from gamay.functions.aggregate_spi import Aggregate
from gamay.functions.expression import Call, Column, Literal
from gamay.functions.registry import bind_aggregate
from gamay.functions.vector import Vector
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.table.merging import MergeFunction, MergeType, MetricMerge
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType, FieldRole
from gamay.segment.process.metrics import MetricRows, merged
from gamay.segment.process.output import every_row, process
from gamay.segment.process.spec import ProcessSpec, Slice
from gamay.segment.read.reader import ImmutableSegment, open_segment
from gamay.segment.write.builder import SegmentBuilder

HOUR = 3_600_000
T0 = 472_222 * HOUR
NUMBERS = ("INT", "LONG", "FLOAT", "DOUBLE", "BIG_DECIMAL")
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "city", "dataType": "STRING"},
            {"name": "user", "dataType": "LONG"},
            {"name": "tags", "dataType": "STRING", "singleValueField": False},
        ],
        "metricFieldSpecs": [
            *({"name": f"x_{kind}", "dataType": kind} for kind in NUMBERS),
            {"name": "sketch", "dataType": "BYTES"},
        ],
        "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
    }
).value


def table_config(**indexing: Any) -> TableConfig:
    document = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
        "tenants": {},
        "tableIndexConfig": {"nullHandlingEnabled": True, "noDictionaryColumns": ["x_LONG", "user", "sketch"], **indexing},
    }
    return TableConfig.from_json(document).value


def sketches(function: str, values: list[int], *arguments: Any) -> list[bytes]:
    """Return a serialised sketch of each value."""
    call = Call(function, (Column("x"), *(Literal(a, DataType.INT) for a in arguments)))
    made: Aggregate = bind_aggregate(call, [(DataType.LONG, False)])
    state = made.allocate(len(values))
    made.update(state, np.arange(len(values), dtype=np.int32), [Vector(DataType.LONG, np.array(values))], len(values))
    texts = made.finish(made.seal(state)).values.to_pylist()
    return [base64.b64decode(t) if "hll" not in function and "digest" not in function else bytes.fromhex(t) for t in texts]


def rows(count: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)

    def maybe(values: list[Any]) -> list[Any]:
        return [None if rng.random() < 0.15 else value for value in values]

    small = [int(x) for x in rng.integers(-4, 4, count)]
    users = [int(x) for x in rng.integers(0, 50, count)]
    return pa.table(
        {
            "city": maybe([f"ü{abs(x)}" for x in small]),
            "user": pa.array(maybe([u % 3 for u in users]), pa.int64()),
            "tags": pa.array(maybe([["a", "b", "a"][: u % 3] for u in users]), pa.list_(pa.string())),
            "x_INT": pa.array(maybe(small), pa.int32()),
            "x_LONG": pa.array(maybe([x << 50 for x in small]), pa.int64()),
            "x_FLOAT": pa.array(maybe([x / 4 for x in small]), pa.float32()),
            "x_DOUBLE": maybe([x / 8 for x in small]),
            "x_BIG_DECIMAL": maybe([f"{x}.{abs(x)}5" for x in small]),
            "sketch": pa.array(maybe(sketches("distinctcountrawhll", users)), pa.binary()),
            "ts": pa.array([T0 + int(x) for x in rng.integers(0, 3 * HOUR, count)], pa.int64()),
        }
    )


def build(table: pa.Table, name: str, folder: Path, config: TableConfig | None = None) -> ImmutableSegment:
    config = config or table_config()
    builder = SegmentBuilder(SCHEMA, config, name, folder, clock=ManualClock(T0))
    pipeline = Pipeline(SCHEMA, config)
    for batch in table.to_batches():
        builder.append(pipeline.apply(batch))
    return open_segment(builder.build())


def made_of(
    tables: list[pa.Table], folder: Path, spec: ProcessSpec, config: TableConfig | None = None
) -> list[ImmutableSegment]:
    config = config or table_config()
    inputs = [build(table, f"s{number}", folder / "in", config) for number, table in enumerate(tables)]
    out = folder / f"out{spec.part.number}"
    written = list(process([every_row(s) for s in inputs], SCHEMA, config, spec, "o{}".format, out, T0))
    opened = [open_segment(one.folder) for one in written]
    assert [segment.num_docs for segment in opened] == [one.num_rows for one in written]
    if spec.window is None and spec.part.count == 1:
        assert sum(one.rows_before for one in written) == sum(segment.num_docs for segment in inputs)
    return opened


def back(segments: list[ImmutableSegment]) -> pa.Table:
    """Return the rows of segments as Arrow."""
    parts = []
    for segment in segments:
        columns = {}
        for spec in SCHEMA.stored_fields:
            column = segment.column(spec.name)
            vector = column.values(0, segment.num_docs)
            values: Any = vector.values.tolist() if isinstance(vector.values, np.ndarray) else vector.values.to_pylist()
            if vector.offsets is not None:
                bounds = vector.offsets.tolist()
                values = [values[a:b] for a, b in pairwise(bounds)]
            elif spec.data_type is DataType.BIG_DECIMAL:
                values = [str(value) for value in values]
            nulls = column.null_docs or ()
            columns[spec.name] = [None if doc in nulls else value for doc, value in enumerate(values)]
        parts.append(pa.table(columns, schema=rows(9, 0).schema))
    return pa.concat_tables(parts) if parts else rows(9, 0)[:0]


ALL = 'city, "user", tags, ts, x_INT, x_LONG, x_FLOAT, x_DOUBLE, x_BIG_DECIMAL, sketch'


def answer(sql: str, data: pa.Table) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.register("data", data)
        return connection.sql(sql).fetchall()


def in_any_order(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(found, key=repr)


def test_rows_of_a_window_stay_with_their_nulls_and_are_cut(tmp_path: Path) -> None:
    tables = [rows(300, seed) for seed in range(2)]
    spec = ProcessSpec(window=(T0 + HOUR, T0 + 2 * HOUR), rows_max=60)
    segments = made_of(tables, tmp_path, spec)
    expected = answer(f"SELECT {ALL} FROM data WHERE ts >= {T0 + HOUR} AND ts < {T0 + 2 * HOUR}", shown(tables))
    assert in_any_order(answer(f"SELECT {ALL} FROM data", back(segments))) == in_any_order(expected)
    assert [s.num_docs for s in segments[:-1]] == [60] * (len(segments) - 1)


def shown(tables: list[pa.Table]) -> pa.Table:
    """Rows as segments have them: an empty list is null."""
    whole = pa.concat_tables(tables)
    tags = [value or None for value in whole["tags"].to_pylist()]
    return whole.set_column(whole.schema.get_field_index("tags"), "tags", pa.array(tags, pa.list_(pa.string())))


@pytest.mark.parametrize(("function", "sql"), [("SUM", "sum"), ("MIN", "min"), ("MAX", "max"), ("AVG", "avg")])
@pytest.mark.parametrize("parts", [1, 3])
def test_roll_up_is_a_group_by(tmp_path: Path, function: str, sql: str, parts: int) -> None:
    tables = [rows(400, seed) for seed in range(3)]
    names = [f"x_{kind}" for kind in NUMBERS if function != "AVG" or kind == "DOUBLE"]
    metrics = {name: MetricMerge.parse(function, {}) for name in names} | {
        name: MetricMerge.parse("LASTWITHTIME", {}) for name in (f"x_{k}" for k in NUMBERS) if name not in names
    }
    metrics["sketch"] = MetricMerge(MergeFunction.HLL)
    segments = []
    for number in range(parts):
        spec = ProcessSpec(MergeType.ROLLUP, None, HOUR, metrics, (), 50, part=Slice(number, parts))
        segments += made_of(tables, tmp_path / str(number), spec)
    kept = back(segments)

    def cast(name: str) -> str:
        return f"{name}::DECIMAL(30, 4)" if "DECIMAL" in name else name

    keys = f'city, "user", tags, ts // {HOUR} * {HOUR}'
    calls = ", ".join(f"{sql}({cast(name)})::DOUBLE" for name in names)
    expected = answer(f"SELECT {keys}, {calls} FROM data GROUP BY ALL", shown(tables))
    values = ", ".join(f"{cast(name)}::DOUBLE" for name in names)
    assert in_any_order(answer(f'SELECT city, "user", tags, ts, {values} FROM data', kept)) == in_any_order(expected)
    assert kept.num_rows < sum(table.num_rows for table in tables)
    if parts == 1:
        assert [s.num_docs for s in segments[:-1]] == [50] * (len(segments) - 1)
    assert hll_of(kept) == hll_of(pa.concat_tables(tables))


def hll_of(table: pa.Table) -> int:
    made: Aggregate = bind_aggregate(Call("distinctcounthll", (Column("x"),)), [(DataType.BYTES, False)])
    state, values = made.allocate(1), table["sketch"].combine_chunks().drop_null()
    made.update(state, None, [Vector(DataType.BYTES, values)], len(values))
    return int(made.finish(made.seal(state)).values[0])


def test_first_and_last_go_by_the_time_before_rounding(tmp_path: Path) -> None:
    times = [5, 3, 9, 3, 9]
    table = rows(5, 1)
    for name, values in {"city": ["a"] * 5, "user": [1] * 5, "tags": [["q"]] * 5, "x_INT": [0, 1, 2, 3, 4]}.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pa.array(values, table.schema.field(name).type))
    table = table.set_column(table.schema.get_field_index("ts"), "ts", pa.array([T0 + t for t in times], pa.int64()))
    for function, expected in (("FIRST_WITH_TIME", 1), ("lastWithTime", 4)):
        metrics = {name: MetricMerge.parse(function, {}) for name in (*(f"x_{k}" for k in NUMBERS), "sketch")}
        spec = ProcessSpec(MergeType.ROLLUP, None, HOUR, metrics)
        (segment,) = made_of([table], tmp_path / function, spec)
        assert back([segment])["x_INT"].to_pylist() == [expected]


def test_dedup_leaves_one_of_equal_rows(tmp_path: Path) -> None:
    tables = [rows(200, 1), rows(200, 2), rows(200, 1)]
    kept = back(made_of(tables, tmp_path, ProcessSpec(MergeType.DEDUP)))
    expected = answer(f"SELECT DISTINCT {ALL} FROM data", shown(tables))
    assert in_any_order(answer(f"SELECT {ALL} FROM data", kept)) == in_any_order(expected)


def test_erased_dimensions_are_null_and_part_no_rows(tmp_path: Path) -> None:
    tables = [rows(300, 1)]
    metrics = {"sketch": MetricMerge(MergeFunction.HLL)}
    kept = back(made_of(tables, tmp_path, ProcessSpec(MergeType.ROLLUP, None, HOUR, metrics, ("user", "tags"))))
    assert (kept["user"].null_count, kept["tags"].null_count) == (kept.num_rows, kept.num_rows)
    expected = answer(f"SELECT city, ts // {HOUR} * {HOUR}, sum(x_DOUBLE) FROM data GROUP BY ALL", tables[0])
    assert in_any_order(answer("SELECT city, ts, x_DOUBLE FROM data", kept)) == in_any_order(expected)
    with pytest.raises(InvalidConfigError, match="'x_INT' cannot be erased"):
        made_of(tables, tmp_path / "wrong", ProcessSpec(erased=("x_INT",)))


def test_rows_of_different_partitions_come_apart_and_in_the_order_of_the_table(tmp_path: Path) -> None:
    columns = {
        "user": {"functionName": "Modulo", "numPartitions": 3},
        "city": {"functionName": "Murmur", "numPartitions": 2},
    }
    config = table_config(segmentPartitionConfig={"columnPartitionMap": columns}, sortedColumn=["city"])
    tables = [rows(300, 1), rows(300, 2)]
    segments = made_of(tables, tmp_path, ProcessSpec(), config)
    found = []
    for segment in segments:
        infos = [segment.info.columns[name].stats.partition for name in columns]
        found.append(tuple(one.partitions for one in infos if one))
    assert sorted(found) == sorted({((user,), (city,)) for user in range(3) for city in range(2)})
    assert all(segment.info.columns["city"].stats.is_sorted for segment in segments)
    assert sum(segment.num_docs for segment in segments) == 600


@pytest.mark.parametrize(
    ("function", "maker", "counts", "arguments", "parameters"),
    [
        ("DISTINCTCOUNTHLLPLUS", "distinctcountrawhllplus", "distinctcounthllplus", (), {}),
        ("DISTINCTCOUNTULL", "distinctcountrawull", "distinctcountull", (), {}),
        ("DISTINCTCOUNTRAWTHETASKETCH", "distinctcountrawthetasketch", "distinctcountthetasketch", (), {}),
        ("DISTINCTCOUNTCPCSKETCH", "distinctcountrawcpcsketch", "distinctcountcpcsketch", (), {"lgK": "12"}),
        ("PERCENTILEKLL", "percentilerawkll", "percentilekll", (50,), {"K": "200"}),
        ("PERCENTILETDIGEST", "percentilerawtdigest", "percentiletdigest", (50,), {"compressionFactor": "200"}),
    ],
)  # fmt: skip
def test_sketches_are_merged(
    tmp_path: Path, function: str, maker: str, counts: str, arguments: tuple[int, ...], parameters: dict[str, str]
) -> None:
    table = rows(200, 5)
    values = [int(x) for x in np.random.default_rng(1).integers(0, 90, 200)]
    made = pa.array(sketches(maker, values, *arguments), pa.binary())
    table = table.set_column(table.schema.get_field_index("sketch"), "sketch", made)
    metrics = {"sketch": MetricMerge.parse(function, parameters)}
    kept = back(made_of([table], tmp_path, ProcessSpec(MergeType.ROLLUP, None, HOUR, metrics, ("tags",))))
    assert kept.num_rows < 100
    call = Call(counts, (Column("x"), *(Literal(a, DataType.INT) for a in arguments)))
    found = []
    for data, data_type in ((kept["sketch"].combine_chunks(), DataType.BYTES), (np.array(values), DataType.LONG)):
        aggregate: Aggregate = bind_aggregate(call, [(data_type, False)])
        state = aggregate.allocate(1)
        aggregate.update(state, None, [Vector(data_type, data)], len(data))
        found.append(float(aggregate.finish(aggregate.seal(state)).values[0]))
    assert found[0] == pytest.approx(found[1], rel=0.03)


def test_what_cannot_be_aggregated_is_refused(tmp_path: Path) -> None:
    table = rows(50, 1)
    with pytest.raises(InvalidConfigError, match=r"the metric 'sketch' is BYTES.*set sketch.aggregationType"):
        made_of([table], tmp_path / "a", ProcessSpec(MergeType.ROLLUP, None, HOUR))
    large = table.set_column(table.schema.get_field_index("x_INT"), "x_INT", pa.array([2**31 - 1] * 50, pa.int32()))
    with pytest.raises(InvalidConfigError, match="a sum of the metric 'x_INT' is too large for INT"):
        made_of(
            [large], tmp_path / "b", ProcessSpec(MergeType.ROLLUP, None, HOUR, {"sketch": MetricMerge(MergeFunction.HLL)})
        )
    for name, parameters, problem in (
        ("SUMS", {}, "'SUMS' is no function.*Did you mean"),
        ("CPC_SKETCH", {}, "is no function"),
        ("DISTINCTCOUNTCPCSKETCH", {"lgk": "1"}, "has the parameters lgK, not 'lgk'"),
        ("SUM", {"lgK": "1"}, "SUM has no parameters"),
        ("DISTINCTCOUNTCPCSKETCH", {"lgK": "x"}, "lgK is a number"),
    ):
        with pytest.raises(InvalidConfigError, match=problem):
            MetricMerge.parse(name, parameters)


@pytest.mark.parametrize(
    ("data_type", "fmt", "values", "rounded"),
    [
        ("LONG", "1:MILLISECONDS:EPOCH", [T0 + 5, T0 + HOUR, T0 + 2 * HOUR - 1], [T0, T0 + HOUR, T0 + HOUR]),
        ("LONG", "1:HOURS:EPOCH", [472_222, 472_223], [472_222, 472_223]),
        ("INT", "5:MINUTES:EPOCH", [5_666_665, 5_666_676], [5_666_664, 5_666_676]),
        ("TIMESTAMP", "TIMESTAMP", [T0 + 5, T0 + HOUR], [T0, T0 + HOUR]),
        ("STRING", "1:MINUTES:SIMPLE_DATE_FORMAT:yyyy-MM-dd HH:mm", ["2023-11-14 22:13"] * 2, ["2023-11-14 22:00"] * 2),
        ("LONG", "1:MINUTES:SIMPLE_DATE_FORMAT:yyyyMMddHHmm", [202311142213, 202311142359], [202311142200, 202311142300]),
        ("STRING", "1:SECONDS:EPOCH", ["1700000001", "1699999201"], ["1699999200", "1699999200"]),
    ],
)
@pytest.mark.parametrize("encoding", ["RAW", "DICTIONARY"])
def test_rounded_times_are_as_if_they_had_come_so(
    tmp_path: Path, data_type: str, fmt: str, values: list[Any], rounded: list[Any], encoding: str
) -> None:
    times = {"name": "ts", "dataType": data_type, "format": fmt, "granularity": "1:MILLISECONDS"}
    schema = Schema.from_json({"schemaName": "t", "dateTimeFieldSpecs": [times]}).value
    fields = {"name": "ts", "encodingType": encoding}
    if data_type == "TIMESTAMP":
        fields |= {"indexTypes": ["TIMESTAMP"], "timestampConfig": {"granularities": ["DAY"]}}
    document = table_config().to_json() | {"tableIndexConfig": {}, "fieldConfigList": [fields]}
    config = TableConfig.from_json(document).value

    def built(times: list[Any], name: str) -> ImmutableSegment:
        builder = SegmentBuilder(schema, config, name, tmp_path / name, clock=ManualClock(T0))
        for batch in pa.table({"ts": times}).to_batches():
            builder.append(Pipeline(schema, config).apply(batch))
        return open_segment(builder.build())

    segment, expected = built(values, "in"), built(rounded, "o0")
    spec = ProcessSpec(round_ms=HOUR, window=(0, 1 << 50))
    (written,) = process([every_row(segment)], schema, config, spec, "o{}".format, tmp_path / "out", T0)
    assert (written.folder / "columns.bin").read_bytes() == (tmp_path / "o0/o0/columns.bin").read_bytes()
    assert open_segment(written.folder).info == expected.info


def test_means_of_whole_numbers_are_exact() -> None:
    """Also where their sums do not fit 64 bits; they are cut towards zero."""
    rng = np.random.default_rng(3)
    ends = np.array([2**63 - 1, -(2**63), 2**62, -1, 0, 7])
    values = np.concatenate([rng.choice(ends, 300), rng.integers(-9, 9, 300)])
    groups = np.concatenate([rng.integers(0, 90, 300), rng.integers(90, 200, 300)])
    groups = np.unique(groups, return_inverse=True)[1].astype(np.int64)
    count, spec = int(groups.max()) + 1, FieldSpec("m", DataType.LONG, FieldRole.METRIC)
    rows = MetricRows(spec, values, np.zeros(len(values), np.bool_), groups, count, lambda: values)
    expected = []
    for group in range(count):
        of_group = [int(value) for value in values[groups == group]]
        mean = abs(sum(of_group)) // len(of_group)
        expected.append(mean if sum(of_group) >= 0 else -mean)
    dictionary, ids, _ = merged(rows, MetricMerge(MergeFunction.AVG)).encoded()
    assert np.asarray(dictionary)[ids].tolist() == expected
