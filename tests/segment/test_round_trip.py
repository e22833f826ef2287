"""Round trips of every data type, single- and multi-value, in every encoding."""

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gamay.base.clock import ManualClock
from gamay.base.errors import ConflictError, CorruptSegmentError, RecordError
from gamay.model.types import DataType, FieldRole
from gamay.segment.describe import describe
from gamay.segment.encode.metadata import Encoding, read_metadata
from gamay.segment.read.reader import open_segment
from gamay.segment.spi import SORTED
from gamay.segment.write import forms
from gamay.segment.write.builder import SegmentBuilder

ENCODINGS = {
    "dictionary": {},
    "packed": {"properties": {"forwardIndexBitPacked": "true"}},
    **{
        codec: {"encodingType": "RAW", "compressionCodec": codec, "indexes": {"forward": {"targetDocsPerChunk": docs}}}
        for codec, docs in (("LZ4", 1000), ("ZSTANDARD", 3), ("SNAPPY", 7), ("GZIP", 2), ("PASS_THROUGH", 1000))
    },
}


def check_column(kit, column, spec, rows):
    """Compare all ways of reading a column with the rows that should be in it."""
    n = len(rows)
    assert kit.plain(column.values(0, n)) == rows
    start, stop = n // 3, n - n // 4
    assert kit.plain(column.values(start, stop)) == rows[start:stop]
    assert kit.plain(column.values(start, start)) == []
    docs = np.arange(start, n, 2, dtype=np.int32)
    assert kit.plain(column.values_at(docs)) == rows[start::2]
    assert kit.plain(column.values_at(docs[:0])) == []
    flat = rows if spec.single_value else [value for row in rows for value in row]
    stats = column.stats
    assert (stats.minimum, stats.maximum) == ((min(flat), max(flat)) if flat else (None, None))
    assert stats.num_values == len(flat)
    assert stats.max_values_per_row == (max(1 if spec.single_value else len(row) for row in rows) if rows else 0)
    assert stats.is_sorted == (spec.single_value and flat == sorted(flat))
    if spec.data_type in (DataType.INT, DataType.LONG):
        assert stats.total == sum(flat)
        assert isinstance(stats.total, int)
    elif spec.data_type in (DataType.FLOAT, DataType.DOUBLE):
        expected = sum(flat)
        scale = sum(map(abs, flat))
        assert math.isinf(scale) or abs(stats.total - expected) <= 1e-12 * scale
    else:
        assert stats.total is None
    if column.dictionary is not None:
        check_dictionary(kit, column, rows, flat)


def check_dictionary(kit, column, rows, flat):
    distinct = sorted(set(flat), key=kit.sort_key)
    dictionary = column.dictionary
    assert len(dictionary) == column.stats.cardinality == len(distinct)
    assert kit.plain(dictionary.values) == distinct
    ids = column.ids(0, len(rows))
    assert ids.dtype in (np.uint8, np.uint16, np.uint32)
    assert [distinct[i] for i in ids.tolist()] == flat
    for i, value in enumerate(distinct):
        assert dictionary.id_of(value) == i
        assert dictionary.id_range(value, value, True, True) == (i, i + 1)
        assert dictionary.id_range(value, None, False, True) == (i + 1, len(distinct))
        assert dictionary.id_range(None, value, True, False) == (0, i)
    assert dictionary.ids_of(distinct[1::2] * 20).tolist() == list(range(1, len(distinct), 2))
    if column.single_value:
        docs = np.arange(0, len(rows), 2, dtype=np.int32)
        assert column.ids_at(docs).tolist() == ids[::2].tolist()
    starts = column.index(SORTED).starts.tolist() if column.index(SORTED) is not None else None
    if column.stats.is_sorted:
        assert starts == [flat.index(value) for value in distinct] + [len(flat)]
    else:
        assert starts is None


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("single_value", [True, False], ids=["single", "multi"])
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_round_trip(kit, encoding, single_value, data):
    types = [t for t in kit.STORED_TYPES if single_value or t is not DataType.JSON]
    fields = [kit.field(t.value, t, single_value) for t in types]
    n = data.draw(st.integers(0, 12))
    columns = {}
    for spec in fields:
        value = st.none() | kit.few(spec.data_type) | kit.VALUES[spec.data_type]
        row = value if single_value else st.none() | st.lists(value, max_size=4)
        columns[spec.name] = data.draw(st.lists(row, min_size=n, max_size=n))
    schema = kit.schema(*fields)
    config = kit.config([{"name": spec.name, **ENCODINGS[encoding]} for spec in fields])
    segment = kit.open(schema, config, columns, batch_rows=data.draw(st.integers(1, 13)))
    assert segment.num_docs == n
    assert segment.column_names == tuple(spec.name for spec in fields)
    for spec in fields:
        column = segment.column(spec.name)
        expected_encoding = Encoding.DICTIONARY if encoding in ("dictionary", "packed") else Encoding.RAW
        assert column.meta.encoding is expected_encoding
        rows = [kit.stored_row(row, spec) for row in columns[spec.name]]
        check_column(kit, column, spec, rows)
        missing = [i for i, row in enumerate(columns[spec.name]) if kit.is_missing(row)]
        assert list(column.null_docs or []) == missing
        assert column.stats.num_nulls == len(missing)
    segment.close()


@pytest.mark.parametrize("cardinality", [1, 2, 255, 256, 257, 65_536, 65_537])
@pytest.mark.parametrize("packed", [False, True], ids=["aligned", "packed"])
def test_ids_are_as_narrow_as_the_cardinality_allows(kit, cardinality, packed):
    rng = np.random.default_rng(cardinality)
    values = rng.permutation(np.concatenate((np.arange(cardinality), rng.integers(0, cardinality, 1000))))
    spec = kit.field("x", DataType.INT)
    config = kit.config([{"name": "x", **ENCODINGS["packed" if packed else "dictionary"]}])
    column = kit.open(kit.schema(spec), config, {"x": values.tolist()}).column("x")
    width = 1 if cardinality <= 256 else 2 if cardinality <= 65_536 else 4
    assert column.ids(0, len(values)).dtype == f"u{width}"
    assert np.array_equal(column.values(0, len(values)).values, values)
    docs = np.sort(rng.choice(len(values), 100, replace=False)).astype(np.int32)
    assert np.array_equal(column.values_at(docs).values, values[docs])
    if packed:
        assert column.meta.id_bits == max(1, (cardinality - 1).bit_length())


def test_many_chunks_and_batches(kit):
    """More rows than a chunk of the builder, in batches that do not divide it."""
    rng = np.random.default_rng(1)
    n = 200_000
    columns = {"i": rng.integers(0, 1000, n).tolist(), "s": [f"k{x}" for x in rng.integers(0, 100_000, n)]}
    schema = kit.schema(kit.field("i", DataType.INT), kit.field("s", DataType.STRING))
    segment = kit.open(schema, kit.config(), columns, batch_rows=37_337)
    for name, values in columns.items():
        assert kit.plain(segment.column(name).values(0, n)) == values


@pytest.mark.parametrize("codec", ["LZ4", "ZSTANDARD", "SNAPPY", "GZIP", "PASS_THROUGH"])
def test_codecs_of_no_dictionary_config_are_those_of_the_segment(kit, codec):
    schema = kit.schema(kit.field("m", DataType.LONG, role=FieldRole.METRIC), kit.field("text", DataType.STRING))
    columns = {"m": [3, 1, 2] * 400, "text": ["c", "a", "b"] * 400}
    path = kit.build(schema, kit.config(noDictionaryConfig={"m": codec, "text": codec}), columns)
    assert describe(path).count(f"raw {codec}") == 2
    segment = open_segment(path)
    for name, values in columns.items():
        assert kit.plain(segment.column(name).values(0, 1200)) == values


def test_decimals_of_equal_value_share_an_id(kit):
    schema = kit.schema(kit.field("d", DataType.BIG_DECIMAL))
    column = kit.open(schema, kit.config(), {"d": ["1.00", "2", "1.0", "-0.5", "1.000", "10"]}).column("d")
    assert kit.plain(column.dictionary.values) == [Decimal("-0.5"), 1, 2, 10]
    assert column.ids(0, 6).tolist() == [1, 2, 1, 0, 1, 3]
    assert column.dictionary.id_of(Decimal("1.0000")) == 1


def test_huge_decimals_keep_every_digit(kit):
    text = "1" * 400 + "." + "3" * 400
    schema = kit.schema(kit.field("d", DataType.BIG_DECIMAL))
    segment = kit.open(schema, kit.config(), {"d": [text, "0"]})
    assert kit.plain(segment.column("d").values(0, 1)) == [Decimal(text)]
    assert segment.column("d").stats.maximum == Decimal(text)


def test_text_is_ordered_by_its_utf8_bytes(kit):
    values = ["\ue000", "😀", "a", "é", "", "Z"]
    schema = kit.schema(kit.field("s", DataType.STRING))
    column = kit.open(schema, kit.config(), {"s": values}).column("s")
    assert kit.plain(column.dictionary.values) == ["", "Z", "a", "é", "\ue000", "😀"]


def test_float_literals_are_rounded_like_the_column(kit):
    schema = kit.schema(kit.field("f", DataType.FLOAT))
    dictionary = kit.open(schema, kit.config(), {"f": [0.1, 0.5, 2.0]}).column("f").dictionary
    assert dictionary.id_of(0.1) == 0
    assert dictionary.id_range(0.1, None, False, True) == (1, 3)


def test_bounds_outside_the_type_are_no_error(kit):
    schema = kit.schema(kit.field("i", DataType.INT))
    dictionary = kit.open(schema, kit.config(), {"i": [1, 2, 3]}).column("i").dictionary
    assert dictionary.id_of(2**40) == -1
    assert dictionary.id_range(-(2**40), 2**40, True, True) == (0, 3)
    assert dictionary.id_range(1.5, None, True, True) == (1, 3)
    assert dictionary.id_range(3, 1, True, True) == (2, 2)


def test_without_null_handling_there_is_no_null_vector(kit):
    schema = kit.schema(kit.field("i", DataType.INT))
    column = kit.open(schema, kit.config(null_handling=False), {"i": [None, 1]}).column("i")
    assert column.null_docs is None
    assert column.stats.num_nulls == 1
    assert kit.plain(column.values(0, 2)) == [-(2**31), 1]


def test_default_null_value_of_the_schema_is_used(kit):
    schema = kit.schema(
        kit.field("i", DataType.INT, default_null_value=7), kit.field("m", DataType.LONG, role=FieldRole.METRIC)
    )
    segment = kit.open(schema, kit.config(), {"i": [None, 1], "m": [None, 5]})
    assert kit.plain(segment.column("i").values(0, 2)) == [7, 1]
    assert kit.plain(segment.column("m").values(0, 2)) == [0, 5]


def time_schema(kit, data_type, date_format, **more):
    from gamay.model.schema.datetime_format import DateTimeFormat

    spec = kit.field("ts", data_type, role=FieldRole.DATE_TIME, format=DateTimeFormat.parse(date_format), **more)
    return kit.schema(spec)


TIME = {"timeColumnName": "ts"}


@pytest.mark.parametrize(
    ("data_type", "date_format", "present"),
    [
        (DataType.LONG, "1:MILLISECONDS:EPOCH", 1_700_000_000_000),
        (DataType.INT, "1:DAYS:EPOCH", 19_675),
        (DataType.STRING, "1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd", "2023-11-14"),
        (DataType.INT, "1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd", 20231114),
        (DataType.TIMESTAMP, "TIMESTAMP", 1_700_000_000_000),
    ],
)
def test_missing_time_is_the_present_time(kit, data_type, date_format, present):
    segment = kit.open(time_schema(kit, data_type, date_format), kit.config(segments=TIME), {"ts": [None, None]})
    column = segment.column("ts")
    assert kit.plain(column.values(0, 2)) == [present] * 2
    assert list(column.null_docs) == [0, 1]
    assert segment.info.start_time_raw == present
    assert segment.info.start_time_ms is not None
    assert segment.info.start_time_ms <= 1_700_000_000_000


def test_missing_time_with_a_sane_default_is_the_default(kit):
    schema = time_schema(kit, DataType.INT, "1:DAYS:EPOCH", default_null_value=15_000)
    segment = kit.open(schema, kit.config(segments=TIME), {"ts": [None, 16_000]})
    assert kit.plain(segment.column("ts").values(0, 2)) == [15_000, 16_000]
    assert (segment.info.start_time_ms, segment.info.end_time_ms) == (15_000 * 86_400_000, 16_000 * 86_400_000)
    assert (segment.info.start_time_raw, segment.info.end_time_raw) == (15_000, 16_000)


def test_optimize_dictionary_drops_what_does_not_pay(kit):
    n = 1000
    schema = kit.schema(
        kit.field("unique", DataType.INT), kit.field("repeated", DataType.LONG), kit.field("text", DataType.STRING)
    )
    columns = {"unique": list(range(n))[::-1], "repeated": [i % 5 for i in range(n)], "text": [f"v{i}" for i in range(n)]}
    config = kit.config(optimizeDictionary=True, noDictionaryCardinalityRatioThreshold=0.9)
    segment = kit.open(schema, config, columns)
    assert segment.column("unique").dictionary is None
    assert segment.column("repeated").dictionary is not None
    assert segment.column("text").dictionary is None
    assert segment.column("unique").stats.cardinality == n
    strict = kit.open(schema, kit.config(optimizeDictionary=True, noDictionarySizeRatioThreshold=0.5), columns)
    assert strict.column("unique").dictionary is not None
    for name, values in columns.items():
        assert kit.plain(segment.column(name).values(0, n)) == values


def test_metrics_are_raw_where_a_dictionary_would_outgrow_the_cache(kit, monkeypatch):
    monkeypatch.setattr(forms, "CACHED_BYTES", 4000)
    n = 2000
    names = ("unique", "repeated", "half", "dimension", "asked", "whole")
    roles = {name: {"role": FieldRole.METRIC} for name in names if name != "dimension"}
    types = {"whole": DataType.LONG}
    schema = kit.schema(*(kit.field(name, types.get(name, DataType.DOUBLE), **roles.get(name, {})) for name in names))
    values = [i / 7 for i in range(n)][::-1]  # no decimals, which would have a frame
    columns = dict.fromkeys(names, values)
    columns |= {"repeated": [float(i % 500) for i in range(n)], "half": [(i % 600) / 7 for i in range(n)]}
    columns |= {"whole": list(range(n))}
    config = kit.config([{"name": "asked", "encodingType": "DICTIONARY"}])
    segment = kit.open(schema, config, columns)
    assert [name for name in names if segment.column(name).dictionary is None] == ["unique"]
    monkeypatch.setattr(forms, "RAW_MOST", 3)
    segment = kit.open(schema, config, columns, name="roomy")
    assert [name for name in names if segment.column(name).dictionary is None] == ["unique", "half"]
    for name in names:
        assert kit.plain(segment.column(name).values(0, n)) == columns[name]
        assert segment.column(name).stats.cardinality == len(set(columns[name]))


def test_equal_rows_give_equal_bytes_whatever_the_batches(kit):
    rng = np.random.default_rng(7)
    n = 5000
    columns = {"i": rng.integers(0, 100, n).tolist(), "s": [[f"x{v}" for v in rng.integers(0, 50, 2)] for _ in range(n)]}
    schema = kit.schema(kit.field("i", DataType.INT), kit.field("s", DataType.STRING, False))
    config = kit.config(invertedIndexColumns=["i", "s"], rangeIndexColumns=["i"], bloomFilterColumns=["s"])
    a = kit.build(schema, config, columns, clock=ManualClock(1))
    b = kit.build(schema, config, columns, batch_rows=999, clock=ManualClock(2), name="other")
    assert (a / "columns.bin").read_bytes() == (b / "columns.bin").read_bytes()
    assert read_metadata(a).crc == read_metadata(b).crc
    assert read_metadata(a).creation_time_ms != read_metadata(b).creation_time_ms
    columns["i"][17] += 1
    assert read_metadata(kit.build(schema, config, columns)).crc != read_metadata(a).crc


def test_build_is_all_or_nothing(kit, tmp_path):
    schema = time_schema(kit, DataType.STRING, "1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd")
    builder = SegmentBuilder(schema, kit.config(segments=TIME), "s", tmp_path, clock=ManualClock())
    builder.append(kit.batch(schema, {"ts": ["not a day"]}))
    with pytest.raises(RecordError, match="the time column 'ts': 'not a day' does not match the pattern"):
        builder.build()
    assert list(tmp_path.iterdir()) == []


def test_a_segment_is_never_overwritten(kit, tmp_path):
    schema = kit.schema(kit.field("i", DataType.INT))
    for _ in range(2):
        builder = SegmentBuilder(schema, kit.config(), "s", tmp_path)
        builder.append(kit.batch(schema, {"i": [1]}))
        if not (tmp_path / "s").exists():
            builder.build()
    with pytest.raises(ConflictError, match="exists already"):
        builder.build()
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


def test_a_batch_that_is_not_conformed_is_refused(kit, tmp_path):
    builder = SegmentBuilder(kit.schema(kit.field("i", DataType.INT)), kit.config(), "s", tmp_path)
    with pytest.raises(ValueError, match="not conformed"):
        builder.append(pa.RecordBatch.from_pydict({"i": pa.array([1], pa.int64())}))


def test_an_unknown_column_is_named_with_the_nearest(kit):
    segment = kit.open(kit.schema(kit.field("origin", DataType.STRING)), kit.config(), {"origin": ["JFK"]})
    with pytest.raises(KeyError, match="Did you mean 'origin'"):
        segment.column("orgin")


def test_arrays_outlive_the_segment(kit):
    segment = kit.open(kit.schema(kit.field("i", DataType.INT)), kit.config(), {"i": [3, 1, 2]})
    ids = segment.column("i").ids(0, 3)
    segment.close()
    assert ids.tolist() == [2, 0, 1]


def test_metadata_survives_json(kit):
    schema = kit.schema(*(kit.field(t.value, t) for t in kit.STORED_TYPES))
    columns = {t.value: [None] for t in kit.STORED_TYPES}
    path = kit.build(schema, kit.config(), columns)
    info = read_metadata(path)
    assert type(info).from_json(info.to_json()) == info
    assert open_segment(path).metadata["numDocs"] == 1


def test_corrupt_error_is_raised_for_a_folder_that_is_no_segment(tmp_path):
    with pytest.raises(CorruptSegmentError, match=r"metadata\.json is missing"):
        open_segment(tmp_path)


def test_threads_read_one_raw_column_at_once(kit):
    from concurrent.futures import ThreadPoolExecutor

    n = 20_000
    rows = [f"row {i}" for i in range(n)]
    config = kit.config(
        [
            {
                "name": "s",
                "encodingType": "RAW",
                "indexes": {"forward": {"targetDocsPerChunk": 100, "compressionCodec": "GZIP"}},
            }
        ]
    )
    column = kit.open(kit.schema(kit.field("s", DataType.STRING)), config, {"s": rows}).column("s")

    def read(seed):
        docs = np.sort(np.random.default_rng(seed).integers(0, n, 200)).astype(np.int32)
        return kit.plain(column.values_at(docs)) == [rows[doc] for doc in docs]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(100)))
