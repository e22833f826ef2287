"""Inspection of files and topics before their tables exist."""

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import InvalidConfigError, RecordError
from gamay.ingest import inspect
from gamay.ingest.inspect import Inspection, inspect_file, inspect_topic
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.log.producer import Producer
from gamay.ingest.stream.log.topic import TopicConfig, create_topic
from gamay.ingest.stream.spi import StreamContext

ROWS = {
    "city": ["Oslo", "Rome", "Oslo", None],
    "fare": [10.5, 9.0, None, 100.0],
    "n": [1, 2, 3, 10],
    "day": ["2024-05-01", "2024-05-02", "2024-05-03", "2024-05-04"],
    "tags": [["a", "b"], [], None, ["c"]],
}


def column(found: Inspection, name: str) -> dict[str, Any]:
    return next(one for one in found.columns if one["name"] == name)


def types(found: Inspection) -> dict[str, str]:
    return {field.name: field.data_type.name for field in found.schema.fields}


def test_the_same_rows_are_told_alike_of_parquet_csv_and_json(tmp_path: Path) -> None:
    table = pa.table(ROWS)
    pq.write_table(table, tmp_path / "rides.parquet")
    lines = [",".join("" if v is None else str(v) for v in row) for row in zip(*list(ROWS.values())[:4], strict=True)]
    (tmp_path / "rides.csv").write_text("\n".join(["city,fare,n,day", *lines]))
    (tmp_path / "rides.json").write_bytes(b"\n".join(map(orjson.dumps, table.to_pylist())))
    for name in ("parquet", "csv", "json"):
        found = inspect_file("rides", str(tmp_path / f"rides.{name}"), name)
        assert (found.rows, found.is_all) == (4, True)
        assert {key: value for key, value in types(found).items() if key in ("city", "fare")} == {
            "city": "STRING",
            "fare": "DOUBLE",
        }
        city = column(found, "city")
        assert (city["numNulls"], city["numDistinct"], city["common"][0]) == (1, 2, ["Oslo", 2]), name
        fare = column(found, "fare")
        assert (fare["numNulls"], fare["min"], fare["max"]) == (1, 9.0, 100.0), name  # as numbers, of text too
        assert (column(found, "n")["max"], column(found, "n")["numDistinct"]) == (10, 4)
    assert column(inspect_file("rides", str(tmp_path / "rides.parquet"), "parquet"), "tags") == {
        "name": "tags",
        "numNulls": 1,
    }
    csv = inspect_file("rides", str(tmp_path / "rides.csv"), "csv", time_column="day")
    assert types(csv)["day"] == "TIMESTAMP"
    with pytest.raises(InvalidConfigError, match="not times"):
        inspect_file("rides", str(tmp_path / "rides.csv"), "csv", time_column="city")


def test_only_the_first_rows_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect, "ROWS_MAX", 100)
    pq.write_table(pa.table({"n": range(1000), "text": ["x" * 500] * 1000}), tmp_path / "n.parquet")
    found = inspect_file("n", str(tmp_path / "n.parquet"), "parquet")
    assert (found.rows, found.is_all, column(found, "n")["max"]) == (100, False, 99)
    assert len(column(found, "text")["max"]) == 61
    (tmp_path / "none.json").write_text("")
    with pytest.raises(InvalidConfigError, match="no rows"):
        inspect_file("none", str(tmp_path / "none.json"), "json")


def test_a_topic_is_told_of_by_its_first_messages(tmp_path: Path) -> None:
    context = StreamContext(tmp_path)
    keys = {"streamType": "log", "stream.log.topic.name": "rides", "stream.log.decoder.class.name": "json"}
    config = StreamConfig.parse(keys)
    topic = create_topic(tmp_path, "rides", TopicConfig(partitions=2))
    with pytest.raises(InvalidConfigError, match="topic 'rides' has no messages"):
        inspect_topic("rides", config, context)
    producer = Producer(topic, SYSTEM_CLOCK)
    messages = [
        b'{"city": "Bern", "n": 1, "at": 1700000000000}',
        b'{"city": "Oslo", "n": 2.5, "at": 1700000001000}',
        b"none",
    ]
    producer.send(pa.array(messages))
    producer.close()
    found = inspect_topic("rides", config, context, "at")
    assert types(found) == {"city": "STRING", "n": "DOUBLE", "at": "LONG"}
    assert found.schema.field("at").to_json()["format"] == "1:MILLISECONDS:EPOCH"
    assert (found.rows, column(found, "n")["min"], column(found, "n")["max"]) == (2, 1.0, 2.5)
    assert "not a JSON object" in found.undecodable[0]


def test_damaged_arrow_files_are_refused_before_they_are_read_beyond_their_ends(tmp_path: Path) -> None:
    offsets = pa.py_buffer(np.array([0, 1, 1 << 30, 3], np.int32).tobytes())
    texts = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"abc")])
    batch = pa.record_batch([texts], ["city"])
    with pa.ipc.new_file(tmp_path / "t.arrow", batch.schema) as sink:
        sink.write_batch(batch)
    with pytest.raises(RecordError, match=r"t\.arrow cannot be read as Arrow"):
        inspect_file("t", str(tmp_path / "t.arrow"), "arrow")


def test_names_of_columns_that_are_no_text_are_damage(tmp_path: Path) -> None:
    orc.write_table(pa.table({"city": ["Oslo"]}), tmp_path / "t.orc")
    damaged = (tmp_path / "t.orc").read_bytes().replace(b"city", b"c\xdaty")
    (tmp_path / "t.orc").write_bytes(damaged)
    with pytest.raises(RecordError, match=r"t\.orc cannot be read as ORC"):
        inspect_file("t", str(tmp_path / "t.orc"), "orc")
