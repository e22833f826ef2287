"""A consuming segment against the immutable one of the same rows: what a view shows, and what sealing writes."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gamay.base.clock import ManualClock
from gamay.base.errors import ConflictError, DiskFullError, InvalidConfigError
from gamay.model.types import DataType
from gamay.segment.mutable import MutableSegment, Sizing
from gamay.segment.mutable.buffers import BufferFolder, GrowingArray
from gamay.segment.reader import open_segment

ENCODINGS = {
    "dictionary": {},
    "packed": {"properties": {"forwardIndexBitPacked": "true"}},
    "inverted": {"indexes": {"inverted": {}, "range": {}, "bloom": {}}},
    "raw": {"encodingType": "RAW", "compressionCodec": "LZ4"},
    "plain": {"encodingType": "RAW", "compressionCodec": "PASS_THROUGH"},
}
SETTINGS = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture
def consume(kit, tmp_path_factory):
    """Make a consuming segment and append columns, given as lists, in batches."""

    def make(schema, config, columns, batch_rows=None, sizing=None):
        segment = MutableSegment("s", schema, config, tmp_path_factory.mktemp("c"), sizing, ManualClock())
        batch = kit.batch(schema, columns)
        for start in range(0, batch.num_rows, batch_rows or max(1, batch.num_rows)):
            segment.append(batch.slice(start, batch_rows))
        return segment

    return make


def draw_columns(kit, data, fields, max_rows=12):
    n = data.draw(st.integers(0, max_rows))
    columns = {}
    for spec in fields:
        value = st.none() | kit.few(spec.data_type) | kit.VALUES[spec.data_type]
        row = value if spec.single_value else st.none() | st.lists(value, max_size=4)
        columns[spec.name] = data.draw(st.lists(row, min_size=n, max_size=n))
    return columns


def all_fields(kit, single_value):
    types = [t for t in kit.STORED_TYPES if single_value or t is not DataType.JSON]
    return [kit.field(t.value, t, single_value) for t in types]


def check_view(kit, view, sealed):
    """Compare everything that a view shows with the immutable segment of the same rows."""
    n = sealed.num_docs
    assert view.num_docs == n
    assert view.column_names == sealed.column_names
    for name in sealed.column_names:
        column, expected = view.column(name), sealed.column(name)
        assert kit.plain(column.values(0, n)) == kit.plain(expected.values(0, n))
        start, stop = n // 3, n - n // 4
        assert kit.plain(column.values(start, stop)) == kit.plain(expected.values(start, stop))
        docs = np.arange(start, n, 2, dtype=np.int32)
        for rows in (docs, docs[:0]):
            assert kit.plain(column.values_at(rows)) == kit.plain(expected.values_at(rows))
        if not column.single_value:
            assert column.offsets(start, stop).tolist() == expected.offsets(start, stop).tolist()
        assert (column.null_docs or set()) == (expected.null_docs or set())
        check_stats(column.stats, expected.stats)
        if column.dictionary is not None:
            check_dictionary(kit, column, expected)


def check_stats(stats, expected):
    assert (stats.num_values, stats.num_nulls) == (expected.num_values, expected.num_nulls)
    assert stats.max_values_per_row == expected.max_values_per_row
    assert stats.cardinality in (None, expected.cardinality)
    assert stats.minimum in (None, expected.minimum)
    assert stats.maximum in (None, expected.maximum)
    assert stats.total in (None, expected.total)
    assert expected.is_sorted or not stats.is_sorted


def check_dictionary(kit, column, expected):
    dictionary, n = column.dictionary, column.num_docs
    values = kit.plain(dictionary.values)
    known = kit.plain(expected.dictionary.values)
    assert sorted(values, key=kit.sort_key) == known
    assert len(dictionary) == len(known) == column.stats.cardinality
    assert (column.stats.minimum, column.stats.maximum) == (expected.stats.minimum, expected.stats.maximum)
    ids = column.ids(0, n)
    assert ids.dtype == expected.ids(0, n).dtype
    assert [values[i] for i in ids.tolist()] == [known[i] for i in expected.ids(0, n).tolist()]
    assert [dictionary.id_of(value) for value in values] == list(range(len(values)))
    assert dictionary.ids_of(values[1::2] * 20).tolist() == list(range(1, len(values), 2))
    if column.single_value:
        docs = np.arange(0, n, 2, dtype=np.int32)
        assert column.ids_at(docs).tolist() == ids[::2].tolist()


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("single_value", [True, False], ids=["single", "multi"])
@SETTINGS
@given(data=st.data())
def test_view_shows_and_seal_writes_what_the_builder_makes(kit, consume, tmp_path_factory, encoding, single_value, data):
    fields = all_fields(kit, single_value)
    unindexed = () if encoding != "inverted" else ("BOOLEAN",)
    configs = [{"name": spec.name, **ENCODINGS[encoding]} for spec in fields if spec.name not in unindexed]
    schema, config = kit.schema(*fields), kit.config(configs, null_handling=data.draw(st.booleans()))
    columns = draw_columns(kit, data, fields)
    built = kit.build(schema, config, columns)
    segment = consume(schema, config, columns, batch_rows=data.draw(st.integers(1, 13)))
    check_view(kit, segment.view(), open_segment(built))
    folder = segment.seal(tmp_path_factory.mktemp("sealed"))
    assert [path.name for path in sorted(folder.iterdir())] == [path.name for path in sorted(built.iterdir())]
    for path in built.iterdir():
        assert (folder / path.name).read_bytes() == path.read_bytes()
    segment.close()


@SETTINGS
@given(data=st.data())
def test_seal_orders_rows_by_the_sorted_column_and_keeps_ties_in_order_of_arrival(kit, consume, tmp_path_factory, data):
    fields = [*all_fields(kit, True), *(kit.field(f"m{t.value}", t, False) for t in (DataType.INT, DataType.STRING))]
    columns = draw_columns(kit, data, fields)
    by = data.draw(st.sampled_from([spec for spec in fields if spec.single_value]))
    raw = data.draw(st.booleans())
    schema = kit.schema(*fields)
    config = kit.config([{"name": by.name, "encodingType": "RAW"}] if raw else [], sortedColumn=[by.name])
    keys = [kit.sort_key(kit.stored_row(row, by)) for row in columns[by.name]]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    built = kit.build(schema, config, {name: [rows[i] for i in order] for name, rows in columns.items()})
    folder = consume(schema, config, columns, batch_rows=5).seal(tmp_path_factory.mktemp("sealed"))
    for path in built.iterdir():
        assert (folder / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("data_type", [DataType.INT, DataType.STRING], ids=["numbers", "texts"])
@pytest.mark.parametrize("batch_rows", [777, 200_000])
def test_ids_widen_and_older_views_stay(kit, consume, data_type, batch_rows):
    rng = np.random.default_rng(5)
    values = np.concatenate((np.arange(300), rng.integers(0, 70_000, 150_000))).astype(np.int32).tolist()
    rows = values if data_type is DataType.INT else [f"value {v}" for v in values]
    schema = kit.schema(kit.field("x", data_type))
    segment = consume(schema, kit.config(), {"x": []})
    batch, views = kit.batch(schema, {"x": rows}), []
    for start in range(0, len(rows), batch_rows):
        segment.append(batch.slice(start, batch_rows))
        views.append(segment.view())
    segment.close()
    for view in (views[0], views[len(views) // 2], views[-1]):
        column = view.column("x")
        assert kit.plain(column.values(0, view.num_docs)) == rows[: view.num_docs]
        assert len(column.dictionary) == len(set(rows[: view.num_docs]))
        width = 1 if len(column.dictionary) <= 256 else 2 if len(column.dictionary) <= 65_536 else 4
        assert column.ids(0, 1).dtype.itemsize == width
        for value in rows[:: view.num_docs // 50]:
            known = column.dictionary.id_of(value)
            assert (known >= 0) == (value in rows[: view.num_docs])
    assert segment.num_docs == len(rows)


def test_view_is_the_same_object_until_rows_come(kit, consume):
    schema = kit.schema(kit.field("x", DataType.INT))
    segment = consume(schema, kit.config(), {"x": [1, 2]})
    view = segment.view()
    assert segment.view() is view
    assert view.column("x") is view.column("x")
    segment.append(kit.batch(schema, {"x": []}))
    assert segment.view() is view
    segment.append(kit.batch(schema, {"x": [3]}))
    assert (view.num_docs, segment.view().num_docs) == (2, 3)
    with pytest.raises(KeyError, match="segment 's' has no column 'y'"):
        view.column("y")


def test_arrays_of_a_view_are_read_only(kit, consume):
    schema = kit.schema(kit.field("x", DataType.INT), kit.field("r", DataType.LONG))
    view = consume(schema, kit.config([{"name": "r", "encodingType": "RAW"}]), {"x": [1, 2], "r": [5, 6]}).view()
    for array in (
        view.column("x").ids(0, 2),
        view.column("x").dictionary.values.values,
        view.column("r").values(0, 2).values,
    ):
        assert not array.flags.writeable


def test_other_batches_are_refused_and_change_nothing(kit, consume):
    schema, other = kit.schema(kit.field("x", DataType.INT)), kit.schema(kit.field("y", DataType.INT))
    segment = consume(schema, kit.config(), {"x": [1]})
    with pytest.raises(ValueError, match="the batch is not conformed"):
        segment.append(kit.batch(other, {"y": [2]}))
    segment.append(kit.batch(schema, {"x": [3]}))
    assert kit.plain(segment.view().column("x").values(0, 2)) == [1, 3]


def test_an_append_that_fails_shows_nothing_and_leaves_the_rows_before(kit, consume, tmp_path, monkeypatch):
    schema = kit.schema(kit.field("x", DataType.INT), kit.field("y", DataType.LONG))
    columns = {"x": [1, 2, None], "y": [5, 5, 6]}
    segment = consume(schema, kit.config(), columns)

    def full(self, elements):
        raise DiskFullError("no room")

    batch = kit.batch(schema, {"x": list(range(50_000)), "y": list(range(50_000))})
    with monkeypatch.context() as patch:
        patch.setattr(GrowingArray, "reserve", full)
        with pytest.raises(DiskFullError, match="no room"):
            segment.append(batch)
    with pytest.raises(DiskFullError, match="no room"):
        segment.append(batch)
    assert segment.num_docs == 3
    folder = segment.seal(tmp_path)
    assert (folder / "columns.bin").read_bytes() == (kit.build(schema, kit.config(), columns) / "columns.bin").read_bytes()


def test_seal_leaves_nothing_half(kit, consume, tmp_path, monkeypatch):
    schema = kit.schema(kit.field("x", DataType.INT), kit.field("y", DataType.LONG))
    segment = consume(schema, kit.config(), {"x": [1, 2], "y": [5, 5]})
    with monkeypatch.context() as patch:
        patch.setattr("gamay.segment.folder_writer.publish_folder", _broken)
        with pytest.raises(OSError, match="broken"):
            segment.seal(tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    folder = segment.seal(tmp_path / "out")
    with pytest.raises(ConflictError, match="exists already"):
        segment.seal(tmp_path / "out")
    assert open_segment(folder).num_docs == 2


def _broken(*_):
    raise OSError("broken")


def test_files_of_a_crashed_process_are_removed_and_none_stay_after_close(kit, tmp_path):
    schema = kit.schema(kit.field("x", DataType.STRING))
    first = MutableSegment("s", schema, kit.config(), tmp_path, Sizing(), ManualClock())
    first.append(kit.batch(schema, {"x": ["a", "b"]}))
    view = first.view()
    second = MutableSegment("s", schema, kit.config(), tmp_path, Sizing(), ManualClock())
    second.append(kit.batch(schema, {"x": ["c"]}))
    assert kit.plain(view.column("x").values(0, 2)) == ["a", "b"]
    second.close()
    assert list(tmp_path.iterdir()) == []


def test_values_that_do_not_fit_are_refused(kit, consume, monkeypatch):
    schema = kit.schema(kit.field("d", DataType.STRING), kit.field("r", DataType.STRING))
    config = kit.config([{"name": "r", "encodingType": "RAW"}])
    for module, column in (("dictionary._TEXT_BYTES_MAX", "distinct values"), ("column._VALUES_MAX", "bytes of values")):
        segment = consume(schema, config, {"d": ["abc"], "r": ["abc"]})
        long = kit.batch(schema, {"d": ["x" * 80_000], "r": ["y" * 80_000]})
        with monkeypatch.context() as patch:
            patch.setattr(f"gamay.segment.mutable.{module}", 40_000)
            with pytest.raises(InvalidConfigError, match=f"{column}.*make segments smaller"):
                segment.append(long)
        assert segment.num_docs == 1


def test_memory_is_told_by_column_and_part(kit, consume):
    fields = [kit.field("x", DataType.INT), kit.field("r", DataType.STRING), kit.field("m", DataType.LONG, False)]
    config = kit.config([{"name": "r", "encodingType": "RAW"}])
    columns = {"x": [1, 2, None] * 1000, "r": ["abc"] * 3000, "m": [[1, 2], [], [3]] * 1000}
    memory = consume(kit.schema(*fields), config, columns).memory()
    assert {name: sorted(parts) for name, parts in memory.items()} == {
        "x": ["dictionary", "forward", "null"],
        "r": ["forward"],
        "m": ["dictionary", "forward", "null"],
    }
    assert memory["x"]["forward"].used == 3000
    assert memory["r"]["forward"].used == 3 * 3000 + 4 * 3001
    assert memory["m"]["forward"].used == 4000 + 4 * 3001
    assert memory["x"]["null"].used == 375
    assert all(use.used <= use.reserved for parts in memory.values() for use in parts.values())


def test_an_array_keeps_what_it_has_when_it_grows(tmp_path):
    array = BufferFolder(tmp_path).array(np.int64)
    views, expected = [], []
    for size in (0, 1, 4096, 4097, 100_000):
        array.append(np.arange(size))
        expected += range(size)
        views.append((array.readable[: array.used], len(expected)))
    array.remove()
    for view, length in views:
        assert view.tolist() == expected[:length]
