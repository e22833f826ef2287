"""Avro, CSV, Protobuf and Arrow messages, also with a preceding schema id."""

import base64
import http.server
import io
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gamay.base.errors import InvalidConfigError
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.offsets import IntegerOffset
from gamay.ingest.stream.plugins import open_decoder
from gamay.ingest.stream.spi import (
    ALL_FIELDS,
    DecodedBatch,
    InputFields,
    MessageBatch,
    MessageDecoder,
    PermanentStreamError,
    TransientStreamError,
)
from gamay.model.types import DataType


def decoder(name: str, fields: InputFields = ALL_FIELDS, **properties: str) -> MessageDecoder:
    named = {key.replace("__", "."): value for key, value in properties.items()}
    return open_decoder(StreamConfig("log", "t", decoder_name=name, decoder_properties=named), fields)


def batch(messages: list[bytes | None]) -> MessageBatch:
    offsets = pa.array(np.arange(len(messages), dtype=np.int64))
    return MessageBatch(pa.array(messages, pa.binary()), offsets, np.full(len(messages), 5), IntegerOffset(len(messages)))


def bad(decoded: DecodedBatch) -> list[int]:
    return [u.message for u in decoded.undecodable]


# -- Avro

FLAT = {
    "type": "record", "name": "R", "fields": [
        {"name": "i", "type": "int"}, {"name": "l", "type": ["null", "long"]}, {"name": "s", "type": ["string", "null"]},
        {"name": "b", "type": "boolean"}, {"name": "f", "type": "float"}, {"name": "d", "type": ["null", "double"]},
        {"name": "x", "type": "bytes"}, {"name": "h", "type": {"type": "fixed", "name": "H", "size": 3}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}}, {"name": "n", "type": "null"},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}  # fmt: skip
NESTED = {
    "type": "record", "name": "R", "fields": [
        {"name": "i", "type": "int"}, {"name": "a", "type": {"type": "array", "items": "string"}},
        {"name": "m", "type": {"type": "map", "values": "long"}},
    ],
}  # fmt: skip
RECORDS = st.fixed_dictionaries(
    {
        "i": st.integers(-(2**31), 2**31 - 1), "l": st.none() | st.integers(-(2**63), 2**63 - 1),
        "s": st.none() | st.text(max_size=9), "b": st.booleans(), "f": st.floats(width=32, allow_nan=False),
        "d": st.none() | st.floats(allow_nan=False), "x": st.binary(max_size=5), "h": st.binary(min_size=3, max_size=3),
        "e": st.sampled_from("AB"), "n": st.none(), "t": st.integers(0, 2**41),
    }
)  # fmt: skip


def avro(schema: Any, record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return out.getvalue()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.none() | RECORDS, max_size=12))
def test_flat_avro_records_come_back_as_they_were(records: list[dict[str, Any] | None]) -> None:
    messages = batch([None if r is None else avro(FLAT, r) for r in records])
    decoded = decoder("avro", schema=json.dumps(FLAT)).decode(messages)
    assert not decoded.undecodable
    rows = decoded.rows
    if rows.num_rows:
        at = rows.schema.get_field_index("t")
        assert rows.schema.types[at] == pa.timestamp("ms", "UTC")
        rows = rows.set_column(at, "t", rows.column(at).cast(pa.int64()))
        rows.validate(full=True)
    assert rows.to_pylist() == [r for r in records if r is not None]
    assert decoded.message_of_row.tolist() == [i for i, r in enumerate(records) if r is not None]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(RECORDS, st.data())
def test_damaged_avro_messages_never_read_beyond_themselves(record: dict[str, Any], data: st.DataObject) -> None:
    whole = avro(FLAT, record)
    cut = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    messages = [whole, whole[:cut], whole, whole + b"x", bytes(changed), whole]
    decoded = decoder("avro", schema=json.dumps(FLAT)).decode(batch(messages))
    assert set(bad(decoded)) in ({1, 3}, {1, 3, 4})
    kept = decoded.message_of_row.tolist()
    assert sorted(kept + bad(decoded)) == list(range(6))
    assert decoded.rows.column("i").filter(pa.array([k in (0, 2, 5) for k in kept])).to_pylist() == [record["i"]] * 3
    if 4 in kept:
        fastavro.schemaless_reader(io.BytesIO(bytes(changed)), fastavro.parse_schema(FLAT), None)


def test_nested_avro_records_and_a_schema_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "r.avsc").write_text(json.dumps(NESTED))
    fields = InputFields(frozenset({"i", "a"}), {"i": DataType.INT, "a": DataType.STRING}, frozenset({"a"}))
    message = avro(NESTED, {"i": 1, "a": ["x", "y"], "m": {"k": 2}})
    made = decoder("SimpleAvroMessageDecoder", fields, schema=str(tmp_path / "r.avsc"), leading__bytes__to__strip="2")
    decoded = made.decode(batch([b"##" + message, b"##" + message[:-1], b"#"]))
    assert decoded.rows.to_pylist() == [{"i": 1, "a": ["x", "y"]}]
    assert bad(decoded) == [1, 2]
    every = decoder("avro", schema=json.dumps(NESTED)).decode(batch([message])).rows
    assert json.loads(every.column("m")[0].as_py()) == {"k": 2}


def test_text_that_is_not_utf8_is_listed() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "s", "type": "string"}]}
    decoded = decoder("avro", schema=json.dumps(schema)).decode(batch([b"\x02a", b"\x02\xff", b"\x02b"]))
    assert bad(decoded) == [1]
    assert "'s' is not UTF-8" in decoded.undecodable[0].reason
    assert decoded.rows.column("s").to_pylist() == ["a", "b"]


# -- the registry


class Registry:
    """A schema registry, as far as consumers ask it."""

    def __init__(self) -> None:
        self.schemas: dict[int | str, Any] = {7: {"schema": json.dumps(FLAT)}, 8: {"schema": json.dumps(NESTED)}}
        self.asked: list[str] = []
        self.status = 200
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                path, _, query = self.path.partition("?")
                key = path.rpartition("/")[2] if path.startswith("/schemas/ids/") else path
                found = registry.schemas.get(int(key) if key.isdecimal() else key)
                if found and "serialized" in found:
                    assert query == "format=serialized"
                    found = {**found, "schema": base64.b64encode(found["serialized"]).decode()}
                    del found["serialized"]
                body = json.dumps(found or {"error_code": 40403}).encode()
                self.send_response(registry.status if registry.status != 200 else 200 if found else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def registry() -> Iterator[Registry]:
    found = Registry()
    yield found
    found.server.shutdown()
    found.server.server_close()


RECORD = {"i": 1, "l": None, "s": "x", "b": True, "f": 1.0, "d": None, "x": b"", "h": b"abc", "e": "A", "n": None, "t": 5}


def prefixed(number: int, message: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + message


def test_schemas_are_asked_for_once(registry: Registry) -> None:
    made = decoder(
        "org.apache.pinot.plugin.inputformat.avro.confluent.KafkaConfluentSchemaRegistryAvroMessageDecoder",
        InputFields(frozenset({"i"})), schema__registry__rest__url=registry.url,
    )  # fmt: skip
    flat, nested = prefixed(7, avro(FLAT, RECORD)), prefixed(8, avro(NESTED, {"i": 2, "a": [], "m": {}}))
    messages: list[bytes | None] = [
        flat,
        flat,
        nested,
        None,
        flat,
        b"\x01junk..",
        prefixed(9, b"x"),
        prefixed(7, b"x"),
        nested,
    ]
    for _ in range(2):
        decoded = made.decode(batch(messages))
        assert decoded.rows.column("i").to_pylist() == [1, 1, 2, 1, 2]
        assert decoded.message_of_row.tolist() == [0, 1, 2, 4, 8]
        assert bad(decoded) == [5, 6, 7]
        assert "no schema 9" in decoded.undecodable[1].reason
    assert registry.asked.count("/schemas/ids/7") == registry.asked.count("/schemas/ids/8") == 1


def test_a_registry_that_does_not_answer_stops_the_batch(registry: Registry) -> None:
    made = decoder("avro-registry", schema__registry__rest__url=registry.url)
    message = prefixed(7, avro(FLAT, RECORD))
    registry.status = 500
    with pytest.raises(TransientStreamError, match="does not answer: status 500"):
        made.decode(batch([message]))
    registry.status = 401
    with pytest.raises(PermanentStreamError, match="refuses access"):
        made.decode(batch([message]))
    registry.status = 200
    assert made.decode(batch([message])).rows.num_rows == 1


def test_json_behind_a_schema_id() -> None:
    made = decoder("KafkaConfluentSchemaRegistryJsonMessageDecoder", schema__registry__rest__url="http://unused")
    decoded = made.decode(batch([prefixed(1, b'{"a": 1}'), None, b'{"a": 2}', prefixed(2, b"{")]))
    assert decoded.rows.to_pylist() == [{"a": 1}]
    assert bad(decoded) == [2, 3]


# -- CSV


def test_csv_records() -> None:
    made = decoder("csv", header="a,b,c", delimiter=",")
    decoded = made.decode(batch([b"1, x ,", b"2,y,z", None]))
    assert decoded.rows.to_pylist() == [{"a": "1", "b": "x", "c": None}, {"a": "2", "b": "y", "c": "z"}]
    decoded = made.decode(batch([b"1,2", b'"a,""b""",2,3\r\n', b'"open,2,3', b"", b"1,2,3,4", b"\xff,1,2", b"p,q,r"]))
    assert decoded.rows.to_pylist() == [{"a": 'a,"b"', "b": "2", "c": "3"}, {"a": "p", "b": "q", "c": "r"}]
    assert bad(decoded) == [0, 2, 4, 5]
    assert decoded.message_of_row.tolist() == [1, 6]


CELLS = st.text(alphabet='ab ",;\t\n', max_size=4)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(CELLS, min_size=1, max_size=4).map(",".join), min_size=1, max_size=5))
def test_csv_messages_are_read_alone_as_among_others(lines: list[str]) -> None:
    made = decoder("csv", header="a,b", nullStringValue="a")
    together = made.decode(batch([line.encode() for line in lines]))
    alone = [made.decode(batch([line.encode()])) for line in lines]
    assert bad(together) == [i for i, d in enumerate(alone) if d.undecodable]
    assert together.rows.to_pylist() == [row for d in alone for row in d.rows.to_pylist()]


# -- Arrow


def ipc(table: pa.Table) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table, max_chunksize=2)
    return out.getvalue()


def test_arrow_messages_hold_many_rows() -> None:
    first = ipc(pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]}))
    second = ipc(pa.table({"a": [1.5], "c": pa.array(["d"]).dictionary_encode()}))
    decoded = decoder("arrow").decode(
        batch([first, None, b"junk", first[:-20], second, ipc(pa.table({"a": pa.array([], "int8")}))])
    )
    assert decoded.rows.column("a").to_pylist() == ["1", "2", "3", "1.5"]  # types that differ are JSON text
    assert decoded.rows.column("b").to_pylist() == ["x", None, "z", None]
    assert decoded.rows.column("c").to_pylist() == [None, None, None, "d"]
    assert decoded.message_of_row.tolist() == [0, 0, 0, 4]
    assert 2 in bad(decoded)


# -- Protobuf


@pytest.fixture
def protobuf(tmp_path: Path) -> tuple[Path, Callable[..., bytes]]:
    """A descriptor file of `shop.Order`, and a function that encodes messages of it."""
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    kind = file.message_type.add(name="Order")
    add = kind.field.add
    field = descriptor_pb2.FieldDescriptorProto
    add(name="id", number=1, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL)
    add(name="name", number=2, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    add(name="tags", number=3, type=field.TYPE_STRING, label=field.LABEL_REPEATED)
    add(name="state", number=4, type=field.TYPE_ENUM, type_name=".shop.State", label=field.LABEL_OPTIONAL)
    add(name="parent", number=5, type=field.TYPE_MESSAGE, type_name=".shop.Order", label=field.LABEL_OPTIONAL)
    state = file.enum_type.add(name="State")
    for number, name in enumerate(("NEW", "DONE")):
        state.value.add(name=name, number=number)
    path = tmp_path / "order.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    return path, lambda **values: order(**values).SerializeToString()


def test_protobuf_messages(protobuf: tuple[Path, Callable[..., bytes]]) -> None:
    path, order = protobuf
    types = {"id": DataType.LONG, "name": DataType.STRING, "tags": DataType.STRING, "state": DataType.STRING}
    fields = InputFields(frozenset({*types, "parent"}), {**types, "parent": DataType.JSON}, frozenset({"tags"}))
    made = decoder("ProtoBufMessageDecoder", fields, descriptorFile=str(path), protoClassName="shop.Order")
    whole = order(id=5, name="a", tags=["x", "y"], state=1)
    decoded = made.decode(batch([whole, whole[:-1], order(), None, b"\xff"]))
    assert decoded.rows.select(["id", "name", "tags", "state"]).to_pylist() == [
        {"id": 5, "name": "a", "tags": ["x", "y"], "state": "DONE"}, {"id": 0, "name": "", "tags": [], "state": "NEW"},
    ]  # fmt: skip
    assert decoded.rows.column("parent").to_pylist() == [None, None]
    assert bad(decoded) == [1, 4]
    with pytest.raises(InvalidConfigError, match=r"no message type 'Order'; known are shop\.Order"):
        decoder("protobuf", descriptorFile=str(path), protoClassName="Order")


@pytest.fixture
def shop(registry: Registry) -> Callable[..., bytes]:
    """Types shop.Money, and shop.Order with Order.Line in a file that imports it and a well-known one; makes messages."""
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

    field = descriptor_pb2.FieldDescriptorProto
    money = descriptor_pb2.FileDescriptorProto(name="money.proto", package="shop", syntax="proto3")
    money.message_type.add(name="Money").field.add(name="cents", number=1, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL)
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.dependency.extend(["money.proto", "google/protobuf/timestamp.proto"])
    file.message_type.add(name="Zero")
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL)
    order.field.add(name="sum", number=2, type=field.TYPE_MESSAGE, type_name=".shop.Money", label=field.LABEL_OPTIONAL)
    stamp = ".google.protobuf.Timestamp"
    order.field.add(name="at", number=3, type=field.TYPE_MESSAGE, type_name=stamp, label=field.LABEL_OPTIONAL)
    line = order.nested_type.add(name="Line")
    line.field.add(name="id", number=1, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL)
    references = [{"name": "money.proto", "subject": "the/money", "version": 3}]
    registry.schemas |= {
        20: {"schemaType": "PROTOBUF", "serialized": file.SerializeToString(), "references": references},
        21: {"schemaType": "PROTOBUF", "serialized": money.SerializeToString()},
        22: {"schemaType": "PROTOBUF", "schema": "syntax = proto3;"},
        "/subjects/the%2Fmoney/versions/3": {"schemaType": "PROTOBUF", "serialized": money.SerializeToString()},
    }
    pool = descriptor_pool.DescriptorPool()
    for each in (descriptor_pb2.FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb), money, file):
        pool.Add(each)

    def make(name: str, **values: Any) -> bytes:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))(**values).SerializeToString()

    return make


def test_protobuf_of_a_registry(registry: Registry, shop: Callable[..., bytes]) -> None:
    types = {"id": DataType.LONG, "sum": DataType.JSON, "cents": DataType.LONG, "at": DataType.JSON}
    made = decoder(
        "org.apache.pinot.plugin.inputformat.protobuf.KafkaConfluentSchemaRegistryProtoBufMessageDecoder",
        InputFields(frozenset(types), types), schema__registry__rest__url=registry.url,
    )  # fmt: skip
    order = shop("shop.Order", id=5, sum={"cents": 7}, at={"seconds": 9})
    messages = [
        prefixed(20, b"\x02\x02" + order),  # one step: type 1
        prefixed(20, b"\x04\x02\x00" + shop("shop.Order.Line", id=6)),  # two steps: type 0 of type 1
        prefixed(21, b"\x00" + shop("shop.Money", cents=8)),  # the first type
        None,
        prefixed(20, b"\x02\x08" + order),  # no such type
        prefixed(20, b"\x02"),  # cut off
        prefixed(20, b"\x02\x02" + order[:-1]),
        prefixed(22, b"\x00"), prefixed(7, b"\x00"), prefixed(99, b"\x00"), b"\x01", b"",
    ]  # fmt: skip
    for _ in range(2):
        decoded = made.decode(batch(messages))
        assert decoded.rows.column("id").to_pylist() == [5, 6, None]
        assert decoded.rows.column("cents").to_pylist() == [None, None, 8]
        assert [json.loads(text or "null") for text in decoded.rows.column("sum").to_pylist()] == [{"cents": 7}, None, None]
        assert json.loads(decoded.rows.column("at").to_pylist()[0])["seconds"] == 9
        assert bad(decoded) == [4, 5, 6, 7, 8, 9, 10, 11]
    reasons = " ".join(undecodable.reason for undecodable in decoded.undecodable)
    for words in (
        "no message type at [4]",
        "cut off",
        "no serialized file",
        "7 of the registry is not Protobuf",
        "no schema 99",
    ):
        assert words in reasons
    assert registry.asked.count("/schemas/ids/20?format=serialized") == 1
    registry.status = 500
    with pytest.raises(TransientStreamError, match="does not answer: status 500"):
        made.decode(batch([prefixed(98, b"\x00")]))


# -- what is wrong


@pytest.mark.parametrize(
    ("name", "properties", "words"),
    [
        ("avro", {}, r"stream\.log\.decoder\.prop\.schema is required"),
        ("avro", {"schema": "{}"}, "not an Avro schema"),
        ("avro", {"schema": '"string"'}, "must be of a record"),
        ("avro", {"schema": "/no/such/file"}, "cannot be read"),
        ("avro-registry", {}, r"schema\.registry\.rest\.url is required"),
        ("csv", {}, "header is required"),
        ("csv", {"headr": "a"}, "Did you mean 'header'"),
        ("arrow", {"limit": "1"}, "no such property"),
        ("json", {"jsonFromat": "TEXT"}, "no such property.*Did you mean 'jsonFormat'"),
        ("avro-registry", {"schema.registry.url": "x"}, "no such property"),
        ("protobuf", {"descriptorFile": "x"}, "protoClassName are both required"),
        ("protobuf", {"descriptorFile": "/no", "protoClassName": "x"}, "is not a set of file descriptors"),
        ("jsn", {}, "unknown decoder 'jsn'.*Did you mean 'json'"),
    ],
)
def test_a_wrong_property_is_named(name: str, properties: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfigError, match=words):
        open_decoder(StreamConfig("log", "t", decoder_name=name, decoder_properties=properties))
