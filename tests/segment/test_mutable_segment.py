"""A consuming segment against the immutable one of the same rows: the contents of a view, and the result of a commit."""

import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gamay.base.clock import ManualClock
from gamay.base.errors import ConflictError, DiskFullError, InvalidConfigError
from gamay.functions.arrow import conformed_schema
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.table.tier_overwrites import overwritten
from gamay.model.types import DataType, FieldRole
from gamay.segment.mutable import MutableSegment, Sizing
from gamay.segment.mutable.buffers import BufferFolder, GrowingArray
from gamay.segment.read.reader import open_segment
from gamay.segment.spi import INVERTED, SORTED
from gamay.segment.write import forms
from gamay.segment.zones import ZONE_ROWS

ENCODINGS = {
    "dictionary": {},
    "packed": {"properties": {"forwardIndexBitPacked": "true"}},
    "inverted": {"indexes": {"inverted": {}, "range": {}, "bloom": {}}},
    "raw": {"encodingType": "RAW", "compressionCodec": "LZ4"},
    "plain": {"encodingType": "RAW", "compressionCodec": "PASS_THROUGH"},
    "zones": {"encodingType": "RAW", "indexes": {"range": {}}},
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


CONSUMED_AS = [
    ({}, {"noDictionaryColumns": ["c", "n", "tags"]}),
    ({"noDictionaryConfig": {"c": "GZIP", "n": "LZ4", "tags": "SNAPPY"}}, {"noDictionaryConfig": None}),
    ({}, {"invertedIndexColumns": ["c", "tags"], "rangeIndexColumns": ["n"]}),
    ({"invertedIndexColumns": ["c", "tags"], "sortedColumn": ["c"]}, {"invertedIndexColumns": [], "sortedColumn": []}),
]


@pytest.mark.parametrize(("plain", "overwrites"), CONSUMED_AS)
def test_overwrites_hold_until_the_segment_is_sealed(kit, tmp_path_factory, plain, overwrites):
    schema = kit.schema(
        kit.field("c", DataType.STRING), kit.field("n", DataType.INT), kit.field("tags", DataType.STRING, False)
    )
    rows = {
        "c": [f"v{i % 4}" for i in range(50)], "n": [i * 7 % 11 for i in range(50)],
        "tags": [[f"t{i % 3}", "x"][: i % 3] for i in range(50)],
    }  # fmt: skip
    plain_config = kit.config(**plain)
    config = kit.config(**plain, tierOverwrites={"consuming": overwrites})
    segment = MutableSegment(
        "s", schema, config, tmp_path_factory.mktemp("c"), None, ManualClock(), consuming=overwritten(config, "consuming")
    )
    segment.append(kit.batch(schema, rows))
    wanted = kit.config(**{**plain, **overwrites}).column_index(schema, "c")
    column = segment.view().column("c")
    assert (column.dictionary is not None, column.index(INVERTED) is not None) == (wanted.dictionary, wanted.inverted)
    expected = MutableSegment("s", schema, plain_config, tmp_path_factory.mktemp("c"), None, ManualClock())
    expected.append(kit.batch(schema, rows))
    kept = np.arange(0, 50, 3)
    for docs in (None, kept):
        sealed = [one.seal(tmp_path_factory.mktemp("sealed"), docs) / "columns.bin" for one in (segment, expected)]
        assert sealed[0].read_bytes() == sealed[1].read_bytes()


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
    """Compare all contents of a view with the immutable segment of the same rows."""
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
        check_indexes(kit, column, expected)
        if column.dictionary is not None:
            check_dictionary(kit, column, expected)


def check_indexes(kit, column, expected):
    n = column.num_docs
    rows = kit.plain(expected.values(0, n))
    if column.index(INVERTED) is not None:
        values = kit.plain(column.dictionary.values)
        holds = [{i for i, row in enumerate(rows) if value == row or value in (row if isinstance(row, list) else ())}
                 for value in values]  # fmt: skip
        assert [set(column.index(INVERTED).docs(i)) for i in range(len(values))] == holds
        some = np.arange(0, len(values), 2, dtype=np.int32)
        assert set(column.index(INVERTED).docs_of_any(some)) == set().union(*holds[::2])


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
    if encoding == "zones":
        fields = [spec for spec in fields if spec.data_type.is_fixed_width]
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
        patch.setattr("gamay.segment.write.folder_writer.publish_folder", _broken)
        with pytest.raises(OSError, match="broken"):
            segment.seal(tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    folder = segment.seal(tmp_path / "out")
    with pytest.raises(ConflictError, match="exists already"):
        segment.seal(tmp_path / "out")
    assert open_segment(folder).num_docs == 2


def _broken(*_, **__):
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
        assert not segment.is_nearly_full
        long = kit.batch(schema, {"d": ["x" * 80_000], "r": ["y" * 80_000]})
        with monkeypatch.context() as patch:
            patch.setattr(f"gamay.segment.mutable.{module}", 40_000)
            with pytest.raises(InvalidConfigError, match=f"{column}.*make segments smaller"):
                segment.append(long)
        assert segment.num_docs == 1
        segment = consume(schema, config, {"d": ["x" * 30_000], "r": ["y" * 33_000]})
        with monkeypatch.context() as patch:
            patch.setattr("gamay.segment.mutable.column._VALUES_MAX", 40_000)
            assert segment.is_nearly_full


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


@pytest.mark.parametrize("single_value", [True, False], ids=["single", "multi"])
def test_inverted_index_of_many_rows_while_more_come(kit, consume, single_value):
    """Rare ids are looked up, frequent ones scanned; a view finds only its own rows."""
    rng = np.random.default_rng(3)
    values = (3000 * rng.random(60_000) ** 4).astype(np.int32).tolist()
    rows = values if single_value else [[a, b] for a, b in zip(values[::2], values[1::2], strict=True)]
    schema = kit.schema(kit.field("x", DataType.INT, single_value))
    segment = consume(schema, kit.config(invertedIndexColumns=["x"]), {"x": rows[:20_000]}, batch_rows=999)
    view = segment.view()
    segment.append(kit.batch(schema, {"x": rows[20_000:]}))
    for seen in (view, segment.view()):
        column = seen.column("x")
        for value in [0, 1, 5, 100, *sorted(set(values))[-5:]]:
            known = column.dictionary.id_of(value)
            expected = [
                i for i, row in enumerate(rows[: seen.num_docs]) if row == value or (not single_value and value in row)
            ]
            assert (list(column.index(INVERTED).docs(known)) if known >= 0 else []) == expected


def test_the_sort_key_has_an_inverted_index_until_it_is_sealed(kit, consume, tmp_path):
    schema = kit.schema(kit.field("x", DataType.STRING), kit.field("y", DataType.STRING))
    segment = consume(schema, kit.config(sortedColumn=["x"]), {"x": ["b", "a", "b"], "y": ["1", "2", "3"]})
    assert list(segment.view().column("x").index(INVERTED).docs(0)) == [0, 2]
    assert segment.view().column("y").index(INVERTED) is None
    sealed = open_segment(segment.seal(tmp_path))
    assert sealed.column("x").index(SORTED) is not None
    assert kit.plain(sealed.column("y").values(0, 3)) == ["2", "1", "3"]


def test_zones_are_those_of_the_rows_while_more_come(kit, consume):
    rng = np.random.default_rng(4)
    times = np.cumsum(rng.integers(-5, 20, 50_000)).astype(np.int64)
    schema = kit.schema(kit.field("t", DataType.LONG))
    config = kit.config(noDictionaryColumns=["t"])
    segment = consume(schema, config, {"t": times[:33_000].tolist()}, batch_rows=1000)
    view = segment.view()
    segment.append(kit.batch(schema, {"t": times[33_000:].tolist()}))
    for seen in (view, segment.view()):
        shown, zones = times[: seen.num_docs], seen.column("t").zones
        parts = np.split(shown, range(ZONE_ROWS, len(shown), ZONE_ROWS))
        assert zones.low.tolist() == [part.min() for part in parts]
        assert zones.high.tolist()[:-1] == [part.max() for part in parts[:-1]]
        assert zones.high[-1] >= parts[-1].max()  # rows that came later may be in it


@pytest.mark.parametrize(
    ("indexing", "role"),
    [({"optimizeDictionary": True}, FieldRole.DIMENSION), ({}, FieldRole.METRIC)],
    ids=["asked", "by cost"],
)
def test_a_dictionary_that_does_not_pay_is_given_up(kit, consume, tmp_path, monkeypatch, indexing, role):
    """Where the sealed segment would have none, the values go over to raw ones; older views keep the dictionary."""
    monkeypatch.setattr(forms, "CACHED_BYTES", 100_000)
    data_type = DataType.DOUBLE if role is FieldRole.METRIC else DataType.LONG
    rows = {"x": [i * 3 for i in range(40_000)], "y": [i % 7 for i in range(40_000)]}
    schema = kit.schema(kit.field("x", data_type, role=role), kit.field("y", data_type, role=role))
    config = kit.config(**indexing)
    segment = consume(schema, config, {name: values[:10_000] for name, values in rows.items()})
    early = segment.view()
    segment.append(kit.batch(schema, {name: values[10_000:] for name, values in rows.items()}))
    late = segment.view()
    assert [late.column(name).dictionary is None for name in "xy"] == [True, False]
    assert len(early.column("x").dictionary) == 10_000
    assert kit.plain(early.column("x").values(0, 10_000)) == rows["x"][:10_000]
    assert kit.plain(late.column("x").values(0, 40_000)) == rows["x"]
    assert late.column("x").sorted_values is not None
    folder = segment.seal(tmp_path)
    assert (folder / "columns.bin").read_bytes() == (kit.build(schema, config, rows) / "columns.bin").read_bytes()
    learnt = Sizing(40_000, segment.sizing().columns)
    again = consume(schema, config, {name: values[:10] for name, values in rows.items()}, sizing=learnt)
    assert [again.view().column(name).dictionary is None for name in "xy"] == [True, False]
    few = {name: [1] * 10 for name in rows}
    folder = consume(schema, config, few, sizing=learnt).seal(tmp_path / "few")
    assert (folder / "columns.bin").read_bytes() == (kit.build(schema, config, few) / "columns.bin").read_bytes()


def test_readers_see_whole_batches_while_the_writer_appends(kit, consume):
    """Each view is a prefix of the rows, cut between batches, with consistent indexes."""
    rng = np.random.default_rng(6)
    n, size = 60_000, 300
    numbers = rng.integers(0, 70_000, n)
    columns = {
        "x": numbers.tolist(),
        "s": [f"v{v % 3000}" if v % 11 else None for v in numbers.tolist()],
        "m": [[v % 5, v % 300] for v in numbers.tolist()],
        "r": (numbers * 3).tolist(),
    }
    fields = [kit.field("x", DataType.INT), kit.field("s", DataType.STRING), kit.field("m", DataType.INT, False)]
    schema = kit.schema(*fields, kit.field("r", DataType.LONG))
    config = kit.config(noDictionaryColumns=["r"], invertedIndexColumns=["s"])
    segment = consume(schema, config, {name: [] for name in columns})
    batch, wrong, done = kit.batch(schema, columns), [], threading.Event()
    is_null = np.array([value is None for value in columns["s"]])
    texts = np.array([value or "null" for value in columns["s"]], object)

    def read():
        last = 0
        while not (done.is_set() and last == n):
            view = segment.view()
            rows, last = view.num_docs, view.num_docs
            x, s, m, r = (view.column(name) for name in "xsmr")
            checks = {
                "whole": rows % size == 0,
                "numbers": np.array_equal(x.values(0, rows).values, numbers[:rows]),
                "raw": np.array_equal(r.values(0, rows).values, 3 * numbers[:rows]),
                "lists": np.array_equal(m.offsets(0, rows), 2 * np.arange(rows + 1)) and m.stats.num_values == 2 * rows,
                "cardinality": len(x.dictionary) == len(set(columns["x"][:rows])),
                "nulls": s.stats.num_nulls == int(is_null[:rows].sum()) == len(s.null_docs or ()),
            }
            for text in ("v7", "null"):
                found = s.dictionary.id_of(text)
                docs = s.index(INVERTED).docs(found) if found >= 0 else []
                checks[text] = np.array_equal(np.array(docs, np.int64), np.flatnonzero(texts[:rows] == text))
            wrong.extend((rows, name) for name, holds in checks.items() if not holds)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for start in range(0, n, size):
        segment.append(batch.slice(start, size))
    done.set()
    for reader in readers:
        reader.join()
    assert wrong == []


def timed_config():
    document = {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "s", "dataType": "STRING"}],
        "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
    }
    segments = {"timeColumnName": "ts", "replication": "1"}
    config = {"tableName": "t", "tableType": "OFFLINE", "segmentsConfig": segments, "tenants": {}, "tableIndexConfig": {}}
    return Schema.from_json(document).value, TableConfig.from_json(config).value


def test_a_segment_that_is_named_later_is_sealed_as_one_that_was_named_first(tmp_path):
    schema, config = timed_config()
    rows = pa.record_batch({"s": ["a", None, "b"], "ts": pa.array([1, 2, 3], pa.int64())}, conformed_schema(schema))
    timeless = pa.record_batch({"s": ["c"], "ts": pa.array([None], pa.int64())}, conformed_schema(schema))
    sealed = []
    for first, then in (("guess", "named"), ("named", None)):
        begun = MutableSegment(first, schema, config, tmp_path / first, clock=ManualClock(1_700_000_000_000 + len(first)))
        begun.append(rows)
        if then is not None:
            assert not begun.holds_creation_time
            begun.become(then, 1_700_000_000_005)
            assert begun.view().name == then
        begun.append(timeless)
        folder = begun.seal(tmp_path / f"out-{first}")
        sealed.append({path.name: path.read_bytes() for path in folder.iterdir()})
        assert begun.holds_creation_time
        with pytest.raises(ValueError, match="time of its creation"):
            begun.become("another", 1)
    assert sealed[0] == sealed[1]
