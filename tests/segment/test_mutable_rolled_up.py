"""Sketches and decimals updated during consumption, against those built from all values at once."""

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gamay.base.clock import ManualClock
from gamay.base.errors import InvalidConfigError, RecordError
from gamay.functions.sketch.hll import HllKind
from gamay.functions.sketch.hllplus import HllPlusKind
from gamay.functions.sketch.registers import sketch_of
from gamay.functions.vector import Vector
from gamay.ingest.transform.pipeline import Pipeline
from gamay.kernels.group.rollup import merge_packed
from gamay.model.types import DataType, FieldRole
from gamay.segment.mutable import MutableSegment
from gamay.segment.read.reader import open_segment

SETTINGS = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
OTHER_SKETCH = HllKind(8).serialize(np.zeros(256, np.uint8))
EXACT = Context(200, Emax=MAX_EMAX, Emin=MIN_EMIN)


def table(kit, metrics, extra=()):
    """metrics: name -> (function, type). Returns a schema and the config of a REALTIME table."""
    fields = [kit.field("s", DataType.STRING), *extra]
    schema = kit.schema(*fields, *(kit.field(n, kind, role=FieldRole.METRIC) for n, (_, kind) in metrics.items()))
    document = kit.config(noDictionaryColumns=list(metrics)).to_json() | {"tableName": "t", "tableType": "REALTIME"}
    document["ingestionConfig"]["aggregationConfigs"] = [
        {"columnName": name, "aggregationFunction": function} for name, (function, _) in metrics.items()
    ]
    return schema, type(kit.config()).from_json(document).value


@pytest.fixture
def consume(kit, tmp_path_factory):
    def make(schema, config, columns, batch_rows=7):
        segment = MutableSegment("s", schema, config, tmp_path_factory.mktemp("c"), clock=ManualClock())
        pipeline = Pipeline(schema, config)
        rows = pa.RecordBatch.from_pydict(columns)
        for start in range(0, rows.num_rows, batch_rows):
            segment.append(pipeline.apply(rows.slice(start, batch_rows)))
        return segment

    return make


def values_of(segment, name):
    """Return s -> the value of a column."""
    view = segment.view()
    read = [view.column(column).values(0, view.num_docs).values for column in ("s", name)]
    return dict(zip(*(v.tolist() if isinstance(v, np.ndarray) else v.to_pylist() for v in read), strict=True))


def vector_of(values):
    present = [value for value in values if value is not None]
    if not present:
        return Vector(DataType.STRING, pa.array([], pa.string()))
    kind = {int: DataType.LONG, str: DataType.STRING, float: DataType.DOUBLE}[type(present[0])]
    array = pa.array(present)
    return Vector(kind, array if kind is DataType.STRING else array.to_numpy())


@SETTINGS
@given(data=st.data())
def test_a_sketch_is_that_of_all_values(kit, consume, tmp_path_factory, data):
    text, kind = data.draw(
        st.sampled_from([
            ("DISTINCTCOUNTHLL(x)", HllKind()), ("DISTINCTCOUNTHLL(x, 5)", HllKind(5)),
            ("DISTINCTCOUNTHLL(x, '2')", HllKind(2)),
            ("DISTINCTCOUNTHLLPLUS(x, 4)", HllPlusKind(4)), ("DISTINCT_COUNT_HLL_PLUS(x, 5, 9)", HllPlusKind(5, 9)),
        ])
    )  # fmt: skip
    values = data.draw(st.sampled_from([st.integers(-(2**63), 2**63 - 1), st.text(max_size=4), st.floats(allow_nan=False)]))
    rows = data.draw(st.lists(st.tuples(st.sampled_from("abc"), st.none() | values), max_size=40))
    schema, config = table(kit, {"m": (text, DataType.BYTES)})
    given_values = [value + 0.0 if isinstance(value, float) else value for _, value in rows]
    columns = {"s": [s for s, _ in rows], "x": pa.array(given_values)}
    segment = consume(schema, config, columns, data.draw(st.integers(1, 41)))
    groups = {s: [v for (t, _), v in zip(rows, given_values, strict=True) if t == s] for s, _ in rows}
    expected = {s: kind.serialize(sketch_of(kind, vector_of(group))) for s, group in groups.items()}
    assert values_of(segment, "m") == expected
    sealed = open_segment(segment.seal(tmp_path_factory.mktemp("sealed")))
    assert sealed.column("m").values(0, sealed.num_docs).values.to_pylist() == list(expected.values())
    assert sealed.column("m").null_docs is None
    # sketches of one table are values of another, whatever their form: all groups in one
    columns = {"s": ["all"] * len(expected), "x": pa.array(list(expected.values()), pa.binary())}
    again = consume(schema, config, columns)
    if expected:
        assert values_of(again, "m") == {"all": kind.serialize(sketch_of(kind, vector_of(given_values)))}


@SETTINGS
@given(
    width=st.integers(1, 40),
    rows=st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.integers(0, 39), st.integers(0, 63)), max_size=20),
)
def test_packed_registers_against_plain_ones(width, rows):
    """registers: 6 in each word, the first in the lowest bits."""
    words, header = -(-width // 6), 3
    size = header + 4 * words
    plain = np.zeros((3, words * 6), np.uint8)
    parts = []
    for row, whole, register, value in rows:
        register %= width
        if whole and size > 5:
            given_registers = (np.arange(words * 6) * value + register) % 32
            plain[row] = np.maximum(plain[row], given_registers)
            shifts = np.arange(6) * 5
            packed = (given_registers.reshape(-1, 6).astype(np.int64) << shifts).sum(axis=1).astype(">u4")
            parts.append(b"xyz" + packed.tobytes())
        else:
            plain[row, register] = max(plain[row, register], min(value, 31))
            parts.append(register.to_bytes(4, "little") + bytes([value]))
    offsets = np.cumsum([0, *map(len, parts)]).astype(np.int32)
    out = np.zeros((3, size), np.uint8)
    places = np.array([row for row, *_ in rows], np.uint32)
    merge_packed(places, offsets, np.frombuffer(b"".join(parts) or b"\0", np.uint8), size, header, out)
    found = np.ascontiguousarray(out[:, header:]).view(">u4").astype(np.int64)
    assert (((found[:, :, None] >> (np.arange(6) * 5)) & 31).reshape(3, -1) == plain).all()
    assert not out[:, :header].any()


DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=None, min_value=-(10**20), max_value=10**20)


@SETTINGS
@given(
    rows=st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(-99, 99) | DECIMALS), max_size=40),
    batch_rows=st.integers(1, 41),
    as_bytes=st.booleans(),
)
def test_a_sum_of_decimals_has_all_digits(kit, consume, rows, batch_rows, as_bytes):
    kind = DataType.BYTES if as_bytes else DataType.BIG_DECIMAL
    schema, config = table(kit, {"m": ("SUMPRECISION(x, 150)", kind)})
    texts = [None if value is None else format(Decimal(value), "f") for _, value in rows]
    segment = consume(schema, config, {"s": [s for s, _ in rows], "x": pa.array(texts, pa.string())}, batch_rows)
    expected: dict = {}
    with localcontext(EXACT):
        for (s, _), text in zip(rows, texts, strict=True):
            expected.setdefault(s, None)
            if text is not None:
                expected[s] = (expected[s] or 0) + Decimal(text)
    found = values_of(segment, "m")
    if as_bytes:
        with localcontext(EXACT):
            found = {
                s: Decimal(int.from_bytes(v[2:], "big", signed=True)).scaleb(-int.from_bytes(v[:2], "big", signed=True))
                for s, v in found.items()
                if v
            }
        assert found == {s: total for s, total in expected.items() if total is not None}
    else:
        assert found == {s: 0 if total is None else total for s, total in expected.items()}
    nulls = segment.view().column("m").null_docs
    assert len(nulls or ()) == sum(total is None for total in expected.values())


def test_a_sum_with_too_many_digits_is_an_error_and_changes_nothing(kit, consume, tmp_path):
    metrics = {
        "h": ("DISTINCTCOUNTHLL(x, 4)", DataType.BYTES),
        "m": ("SUMPRECISION(x, 3)", DataType.BIG_DECIMAL),
        "n": ("SUM(n)", DataType.LONG),
    }
    schema, config = table(kit, metrics)
    segment = consume(schema, config, {"s": ["a", "a", "b"], "x": ["99.5", "0.50", "7"], "n": [1, 2, 3]})
    before = {name: values_of(segment, name) for name in metrics}
    assert before["m"] == {"a": Decimal(100), "b": Decimal(7)}
    batch = pa.RecordBatch.from_pydict({"s": ["b", "c", "a"], "x": ["1", "1", "0.01"], "n": [5, 5, 5]})
    with pytest.raises(InvalidConfigError, match="sum of the metric 'm' has more than 3 digits"):
        segment.append(Pipeline(schema, config).apply(batch))
    assert {name: values_of(segment, name) for name in metrics} == before
    assert open_segment(segment.seal(tmp_path)).num_docs == 2


@pytest.mark.parametrize(
    ("function", "kind", "value", "message"),
    [
        ("DISTINCTCOUNTHLL(x)", DataType.BYTES, pa.array([b"no sketch"]), "metric 'm': b'no sketch' of 'x' is not a value"),
        ("DISTINCTCOUNTHLL(x, 9)", DataType.BYTES, pa.array([OTHER_SKETCH]), "not a value or sketch"),
        ("DISTINCTCOUNTHLLPLUS(x)", DataType.BYTES, pa.array([[1, 2]]), "is not a value or sketch for DISTINCTCOUNTHLLPLUS"),
        ("SUMPRECISION(x, 9)", DataType.BIG_DECIMAL, pa.array(["much"]), "metric 'm': 'much' of 'x' is not a number"),
        ("SUMPRECISION(x, 9)", DataType.BYTES, pa.array([b"\0"]), "is not a number"),
        ("SUMPRECISION(x, 9)", DataType.BYTES, pa.array([f"0.{'0' * 40_000}1"]), "is not a number"),
    ],
)  # fmt: skip
def test_rows_with_what_cannot_be_taken_in_are_reported(kit, function, kind, value, message):
    schema, config = table(kit, {"m": (function, kind)})
    rows = pa.RecordBatch.from_arrays([pa.array(["a"]), value], ["s", "x"])
    with pytest.raises(RecordError, match=message):
        Pipeline(schema, config).apply(rows)


def test_values_of_several_types_each_count_as_their_own(kit, consume):
    """As in JSON, where fields have no declared type."""
    schema, config = table(kit, {"m": ("DISTINCTCOUNTHLL(x, 10)", DataType.BYTES)})
    texts = ['"a"', "1", "1.5", None, "true", "123456789012345678901", "1"]
    column = pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts, pa.string()))
    kind, expected = HllKind(10), np.zeros(1 << 10, np.uint8)
    for data_type, values in (
        (DataType.STRING, pa.array(["a", "123456789012345678901"])), (DataType.LONG, np.array([1])),
        (DataType.DOUBLE, np.array([1.5])), (DataType.BOOLEAN, np.array([True])),
    ):  # fmt: skip
        expected = np.maximum(expected, sketch_of(kind, Vector(data_type, values)))
    segment = consume(schema, config, {"s": ["a"] * len(texts), "x": column})
    assert values_of(segment, "m") == {"a": kind.serialize(expected)}


def test_a_column_of_the_schema_counts_in_its_type(kit, consume):
    extra = [kit.field("x", DataType.INT), kit.field("y", DataType.FLOAT)]
    schema, config = table(
        kit, {"m": ("DISTINCTCOUNTHLL(x)", DataType.BYTES), "n": ("DISTINCTCOUNTHLL(y)", DataType.BYTES)}, extra
    )
    segment = consume(schema, config, {"s": ["a"], "x": ["12"], "y": [0.5]})
    for name, vector in (
        ("m", Vector(DataType.INT, np.array([12], np.int32))),
        ("n", Vector(DataType.FLOAT, np.array([0.5], np.float32))),
    ):
        assert values_of(segment, name) == {"a": HllKind().serialize(sketch_of(HllKind(), vector))}
