"""Rows merged during consumption, against a dict of the expected rows."""

import threading
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gamay.base.clock import ManualClock
from gamay.base.errors import InvalidConfigError
from gamay.model.types import DataType, FieldRole
from gamay.segment.mutable import MutableSegment
from gamay.segment.read.reader import open_segment

FUNCTIONS = {"sum": "SUM(a)", "min": "MIN(a)", "max": "max(b)", "count": "COUNT(*)"}
METRICS = {
    "sum": DataType.LONG,
    "min": DataType.INT,
    "max": DataType.DOUBLE,
    "count": DataType.LONG,
}
SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def metric(kit, name, data_type, **more):
    return kit.field(name, data_type, role=FieldRole.METRIC, **more)


def config_of(kit, **more):
    aggregations = [{"columnName": name, "aggregationFunction": text} for name, text in FUNCTIONS.items()]
    config = kit.config(noDictionaryColumns=list(METRICS), **more)
    document = config.to_json()
    document["ingestionConfig"]["aggregationConfigs"] = aggregations
    return type(config).from_json(document).value


@pytest.fixture
def consume(kit, tmp_path_factory):
    def make(schema, config, columns=None, batch_rows=7):
        segment = MutableSegment("s", schema, config, tmp_path_factory.mktemp("c"), clock=ManualClock())
        if columns:
            batch = kit.batch(schema, columns)
            for start in range(0, batch.num_rows, batch_rows):
                segment.append(batch.slice(start, batch_rows))
        return segment

    return make


def merged(rows, names, nulls):
    """Rows by dimensions, in order of arrival; without null handling a null is its column's default."""
    found = {}
    for row in rows:
        key = tuple(
            ("null" if name in "st" else -(2**31)) if row[name] is None and not nulls else row[name] for name in names
        )
        into = found.setdefault(key, dict.fromkeys(METRICS) | dict(zip(names, key, strict=True)) | {"count": 0})
        into["count"] += 1
        for name, combine in (("sum", lambda a, b: a + b), ("min", min), ("max", max)):
            if row[name] is not None:
                into[name] = row[name] if into[name] is None else combine(into[name], row[name])
    return list(found.values())


@SETTINGS
@given(data=st.data())
def test_rows_with_equal_dimensions_are_one(kit, consume, tmp_path_factory, data):
    nulls, names = data.draw(st.booleans()), ("s", "i", "t")[: data.draw(st.integers(0, 3))]
    types = {"s": DataType.STRING, "i": DataType.INT, "t": DataType.STRING}
    fields = [kit.field(name, types[name]) for name in names]
    schema = kit.schema(*fields, *(metric(kit, name, kind) for name, kind in METRICS.items()))
    config = config_of(kit, null_handling=nulls, sortedColumn=list(names[:1]))
    values = {"s": st.sampled_from(["a", "b", "é", "null"]), "i": st.integers(0, 2), "t": st.text(max_size=1)}
    values |= {"sum": st.integers(-(2**40), 2**40), "min": st.integers(-9, 9), "max": st.floats(-9, 9), "count": st.none()}
    row = st.fixed_dictionaries({name: st.none() | values[name] for name in (*names, *METRICS)})
    rows = [{name: value + 0.0 if isinstance(value, float) else value for name, value in given.items()}
            for given in data.draw(st.lists(row, max_size=30))]  # fmt: skip
    columns = {name: [given[name] for given in rows] for name in (*names, *METRICS)}
    segment = consume(schema, config, columns, data.draw(st.integers(1, 31)))
    expected = merged(rows, names, nulls)
    view = segment.view()
    assert view.num_docs == segment.num_docs == len(expected)
    assert segment.view() is view
    defaults = {"sum": 0, "min": 0, "max": 0.0, "count": 0, "s": "null", "t": "null", "i": -(2**31)}
    for name in (*names, *METRICS):
        wanted = [defaults[name] if given[name] is None else given[name] for given in expected]
        column = view.column(name)
        assert kit.plain(column.values(0, len(expected))) == wanted
        assert set(column.null_docs or ()) == {i for i, given in enumerate(expected) if given[name] is None and nulls}
        assert column.stats.minimum == (min(wanted, key=kit.sort_key) if wanted else None)
        if name in ("sum", "min", "count"):
            assert column.stats.total == sum(wanted)
    check_sealed(kit, segment, schema, config, expected, names, tmp_path_factory.mktemp("sealed"))


def check_sealed(kit, segment, schema, config, expected, names, folder):
    if names:
        key = names[0]
        default = "null" if key == "s" else 0
        expected = sorted(expected, key=lambda row: kit.sort_key(default if row[key] is None else row[key]))
    columns = {name: [row[name] for row in expected] for name in (*names, *METRICS)}
    built = kit.build(schema, config, columns)
    sealed = segment.seal(folder)
    assert (sealed / "columns.bin").read_bytes() == (built / "columns.bin").read_bytes()
    assert open_segment(sealed).num_docs == len(expected)


def test_aggregate_metrics_sums_all_metrics(kit, consume):
    schema = kit.schema(kit.field("s", DataType.STRING), *(metric(kit, n, DataType.DOUBLE) for n in "xy"))
    config = kit.config(aggregateMetrics=True, noDictionaryColumns=["x", "y"])
    columns = {"s": ["a", "b", "a", "a"], "x": [1.0, 2.0, 0.5, None], "y": [1.0, None, 1.0, 1.0]}
    view = consume(schema, config, columns, 2).view()
    assert {name: kit.plain(view.column(name).values(0, 2)) for name in "sxy"} == {
        "s": ["a", "b"],
        "x": [1.5, 2.0],
        "y": [3.0, 0.0],
    }
    assert list(view.column("y").null_docs) == [1]
    assert view.column("x").null_docs is None


@pytest.mark.parametrize("data_type", [DataType.INT, DataType.LONG], ids=str)
def test_a_sum_that_does_not_fit_is_an_error_and_changes_nothing(kit, consume, data_type, tmp_path):
    most = 2**31 - 1 if data_type is DataType.INT else 2**63 - 1
    schema = kit.schema(kit.field("s", DataType.STRING), metric(kit, "z", DataType.LONG), metric(kit, "x", data_type))
    config = kit.config(aggregateMetrics=True, noDictionaryColumns=["x", "z"])
    segment = consume(schema, config, {"s": ["a", "b"], "x": [most, -most], "z": [1, 2]})
    for change in (1, -2):
        with pytest.raises(InvalidConfigError, match=f"sum of the metric 'x' is too large for {data_type.value}"):
            segment.append(kit.batch(schema, {"s": ["c", "a", "b"], "x": [5, max(change, 0), min(change, 0)], "z": [1] * 3}))
    view = segment.view()
    assert view.num_docs == 2
    assert {n: kit.plain(view.column(n).values(0, 2)) for n in "sxz"} == {"s": ["a", "b"], "x": [most, -most], "z": [1, 2]}
    assert open_segment(segment.seal(tmp_path)).num_docs == 2


@pytest.mark.parametrize(
    ("fields", "raw", "message"),
    [
        ((("s", DataType.STRING, True), ("x", DataType.LONG, True)), [], "the metric 'x' .* must be in noDictionaryColumns"),
        ((("s", DataType.STRING, True), ("x", DataType.LONG, True)), ["s", "x"], "the column 's' must have a dictionary"),
        ((("s", DataType.STRING, False), ("x", DataType.LONG, True)), ["x"], "beside the multi-value column 's'"),
        ((("s", DataType.STRING, True), ("x", DataType.BIG_DECIMAL, True)), ["x"], "'x' .* must be one of INT, LONG"),
    ],
)
def test_what_cannot_be_merged_is_refused(kit, consume, fields, raw, message):
    made = [kit.field(n, t, single, FieldRole.METRIC if n == "x" else FieldRole.DIMENSION) for n, t, single in fields]
    with pytest.raises(InvalidConfigError, match=message):
        consume(kit.schema(*made), kit.config(aggregateMetrics=True, noDictionaryColumns=raw))


def test_many_rows(kit, consume):
    """More combinations than the first hash table has room for, in batches."""
    rng = np.random.default_rng(8)
    i, j, x = (rng.integers(0, size, 60_000) for size in (300, 400, 1000))
    schema = kit.schema(kit.field("i", DataType.INT), kit.field("j", DataType.LONG), metric(kit, "x", DataType.LONG))
    config = kit.config(aggregateMetrics=True, noDictionaryColumns=["x"])
    segment = consume(schema, config, {"i": i.tolist(), "j": j.tolist(), "x": x.tolist()}, 5000)
    view = segment.view()
    n = view.num_docs
    assert n == len(set(zip(i.tolist(), j.tolist(), strict=True)))
    found = dict(
        zip(
            zip(*(kit.plain(view.column(name).values(0, n)) for name in "ij"), strict=True),
            kit.plain(view.column("x").values(0, n)),
            strict=True,
        )
    )
    expected = {}
    for a, b, c in zip(i.tolist(), j.tolist(), x.tolist(), strict=True):
        expected[a, b] = expected.get((a, b), 0) + c
    assert found == expected
    assert segment.memory()[""]["keys"].used > 8 * n


def test_a_view_shows_whole_batches_while_metrics_change(kit, consume):
    schema = kit.schema(kit.field("i", DataType.INT), *(metric(kit, n, DataType.LONG) for n in "xy"))
    config = kit.config(aggregateMetrics=True, noDictionaryColumns=["x", "y"])
    segment, size, batches = consume(schema, config), 50, 600
    rng = np.random.default_rng(1)
    wrong, seen, done = [], [], threading.Event()

    def read():
        mine = [0]
        while not (done.is_set() and mine[-1] == size * batches):
            view = segment.view()
            x, y = (view.column(name).values(0, view.num_docs).values for name in "xy")
            total = int(x.sum())
            if total != view.column("x").stats.total or not np.array_equal(2 * x, y) or total % size:
                wrong.append((view.num_docs, total))
            mine.append(total)
        wrong.extend(pair for pair in pairwise(mine) if pair[0] > pair[1])
        seen.append(mine)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(batches):
        segment.append(kit.batch(schema, {"i": rng.integers(0, 2000, size).tolist(), "x": [1] * size, "y": [2] * size}))
    done.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    assert len(seen) == 2
