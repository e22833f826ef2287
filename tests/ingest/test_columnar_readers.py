"""Avro, Parquet, ORC and Arrow files, whole and damaged."""

import datetime as dt
import gzip
from decimal import Decimal

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from gamay.base.errors import RecordError
from gamay.ingest.read.readers import format_of, open_reader

TABLE = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int32()),
        "s": pa.array(["a", "é", None]),
        "l": pa.array([[1, 2], [], None], pa.list_(pa.int64())),
        "t": pa.array([0, 1, None], pa.timestamp("ms")),
    }
)


def rows_of(path, data_format, config=None, **options):
    reader = open_reader(str(path), data_format, config, **options)
    return [row for batch in reader for row in batch.to_pylist()], reader


def write(path, data_format):
    match data_format:
        case "parquet":
            pq.write_table(TABLE, path, row_group_size=2)
        case "orc":
            orc.write_table(TABLE, path)
        case "arrow":
            with pa.ipc.new_file(path, TABLE.schema) as out:
                out.write_table(TABLE)
        case "stream":
            with pa.ipc.new_stream(path, TABLE.schema) as out:
                out.write_table(TABLE)


@pytest.mark.parametrize("data_format", ["parquet", "orc", "arrow", "stream"])
def test_columnar_formats(tmp_path, data_format):
    path = tmp_path / "data"
    write(path, data_format)
    rows, reader = rows_of(path, "arrow" if data_format == "stream" else data_format)
    expected = TABLE.to_pylist()
    assert [{**r, "t": r["t"] and r["t"].replace(tzinfo=None)} for r in rows] == expected
    assert reader.position(2) == "record 3"


@pytest.mark.parametrize("data_format", ["parquet", "orc", "arrow"])
def test_a_foreign_file_is_told(tmp_path, data_format):
    path = tmp_path / "data"
    path.write_bytes(b"this is not what it says it is, by far not" * 10)
    with pytest.raises(RecordError, match=f"{path} cannot be read as"):
        rows_of(path, data_format)


def test_what_follows_damage_is_one_error(tmp_path):
    path = tmp_path / "data.arrows"
    batch = pa.RecordBatch.from_pydict({"i": list(range(1000))})
    with pa.ipc.new_stream(path, batch.schema) as out:
        for _ in range(3):
            out.write_batch(batch)
    path.write_bytes(path.read_bytes()[:-4000])
    with pytest.raises(RecordError, match="record 2001 and all after it: the file is damaged"):
        rows_of(path, "arrow")
    rows, reader = rows_of(path, "arrow", continue_on_error=True)
    assert len(rows) == 2000
    assert reader.num_errors == 1


SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "i", "type": ["null", "int"]},
        {"name": "s", "type": "string"},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "l", "type": {"type": "array", "items": "string"}},
        {"name": "m", "type": {"type": "map", "values": "int"}},
    ],
}
RECORDS = [
    {"i": i or None, "s": f"s{i}", "t": i * 1000, "d": Decimal("1.50"), "l": ["x"] * (i % 3), "m": {"k": i}}
    for i in range(100)
]


@pytest.fixture
def avro(tmp_path):
    path = tmp_path / "data.avro"
    with path.open("wb") as out:
        fastavro.writer(out, SCHEMA, RECORDS, sync_interval=500)
    return path


def test_avro(avro):
    rows, _ = rows_of(avro, "avro")
    assert len(rows) == 100
    assert rows[2]["t"] == dt.datetime(1970, 1, 1, 0, 0, 2, tzinfo=dt.UTC)
    assert rows[2]["d"] == Decimal("1.50")
    assert (rows[0]["i"], rows[2]["i"], rows[2]["l"], rows[2]["m"]) == (None, 2, ["x", "x"], '{"k":2}')


def test_avro_raw_times_and_gzip(avro, tmp_path):
    rows, _ = rows_of(avro, "avro", {"extractRawTimeValues": True})
    assert rows[2]["t"] == 2000
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(avro.read_bytes()))
    assert len(rows_of(packed, "gzipped_avro")[0]) == 100


def test_damaged_avro(avro):
    data = avro.read_bytes()
    avro.write_bytes(data[: len(data) * 2 // 3])
    with pytest.raises(RecordError, match=r"record \d+ and all after it: the file is damaged"):
        rows_of(avro, "avro")
    rows, reader = rows_of(avro, "avro", continue_on_error=True)
    assert 0 < len(rows) < 100
    assert reader.num_errors == 1
    assert reader.errors[0].position == f"record {len(rows) + 1} and all after it"
    avro.write_bytes(b"nothing of the kind")
    with pytest.raises(RecordError, match="is not an Avro file"):
        rows_of(avro, "avro")


def test_format_of_names():
    assert [format_of(n) for n in ("a.csv.gz", "/x/b.jsonl", "s3://b/c.PARQUET")] == ["csv", "json", "parquet"]
