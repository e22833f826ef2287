"""Binary forms of JSON, and BSON: the rows of the same objects as text.

`json_formats.jsonl` has messages that Jackson's Smile generator (with and without shared names and texts, raw binary, an end
marker) and SQLite's `jsonb` have written, with the objects they were given.
"""

import base64
import builtins
import contextlib
import json
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gamay.base.errors import InvalidConfigError, RecordError
from gamay.ingest.read.readers import format_of, open_reader
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.decode.smile import read_smile
from gamay.ingest.stream.decode.sqlite_jsonb import read_sqlite_jsonb
from gamay.ingest.stream.offsets import IntegerOffset
from gamay.ingest.stream.plugins import open_decoder
from gamay.ingest.stream.spi import DecodedBatch, InputFields, MessageBatch
from gamay.model.types import DataType

TYPES = {"i": DataType.LONG, "d": DataType.DOUBLE, "s": DataType.STRING, "j": DataType.JSON, "b": DataType.BOOLEAN}
FIELDS = InputFields(frozenset({*TYPES, "ss"}), TYPES | {"ss": DataType.STRING}, frozenset({"ss"}))
KNOWN = [json.loads(line) for line in (Path(__file__).parent / "json_formats.jsonl").read_text("utf-8").splitlines()]
READERS = {"SMILE": read_smile, "SQLITE_JSONB": read_sqlite_jsonb}


def decode(
    messages: list[bytes | None], name: str = "json", fields: InputFields = FIELDS, **properties: str
) -> DecodedBatch:
    made = open_decoder(StreamConfig("log", "t", decoder_name=name, decoder_properties=properties), fields)
    offsets = pa.array(np.arange(len(messages), dtype=np.int64))
    payloads = pa.array(messages, pa.binary())
    return made.decode(MessageBatch(payloads, offsets, np.full(len(messages), 5), IntegerOffset(len(messages))))


def as_json(value: Any) -> Any:
    """Return the file's notation for values without a JSON form."""
    if isinstance(value, dict):
        return {name: as_json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [as_json(item) for item in value]
    return value.hex() if isinstance(value, bytes) else str(value) if isinstance(value, Decimal) else value


def test_messages_that_others_have_written() -> None:
    assert {known["format"] for known in KNOWN} == set(READERS)
    for known in KNOWN:
        message = base64.b64decode(known["message"])
        assert as_json(READERS[known["format"]](message)) == known["json"]


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damaged_messages_are_values_or_a_value_error(data: st.DataObject) -> None:
    known = data.draw(st.sampled_from(KNOWN))
    message = bytearray(base64.b64decode(known["message"]))
    for _ in range(data.draw(st.integers(1, 3))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError, RecursionError):
        READERS[known["format"]](bytes(message[: data.draw(st.integers(0, len(message)))]))


# -- a small writer of each form


def sqlite_element(value: Any) -> bytes:
    if value is None or isinstance(value, bool):
        kind, payload = {None: 0, True: 1, False: 2}[value], b""
    elif isinstance(value, int | float):
        kind, payload = (3 if isinstance(value, int) else 5), repr(value).encode()
    elif isinstance(value, str):
        kind, payload = 10, value.encode()
    elif isinstance(value, list):
        kind, payload = 11, b"".join(map(sqlite_element, value))
    else:
        kind, payload = 12, b"".join(sqlite_element(part) for item in value.items() for part in item)
    size = len(payload)
    return (bytes([size << 4 | kind]) if size < 12 else bytes([0xE0 | kind]) + size.to_bytes(4, "big")) + payload


def smile_message(record: dict[str, Any]) -> bytes:
    """Long forms only, without references."""
    return b":)\n\x00" + smile_value(record)


def smile_value(value: Any) -> bytes:
    if value is None or isinstance(value, bool):
        return {None: b"\x21", True: b"\x23", False: b"\x22"}[value]
    if isinstance(value, int):
        number = value << 1 ^ (value >> 63)
        groups = [0x80 | number & 0x3F]
        number >>= 6
        while number:
            groups.append(number & 0x7F)
            number >>= 7
        return b"\x25" + bytes(reversed(groups))
    if isinstance(value, float):
        bits = int.from_bytes(np.array(value, ">f8").tobytes(), "big")
        return b"\x29" + bytes(bits >> shift & 0x7F for shift in range(63, -1, -7))
    if isinstance(value, str):
        return b"\xe4" + value.encode() + b"\xfc"
    if isinstance(value, list):
        return b"\xf8" + b"".join(map(smile_value, value)) + b"\xf9"
    names = ((b"\x34" + name.encode() + b"\xfc", item) for name, item in value.items())
    return b"\xfa" + b"".join(name + smile_value(item) for name, item in names) + b"\xfb"


def cbor_message(record: dict[str, Any]) -> bytes:
    cbor2 = pytest.importorskip("cbor2")
    return bytes(cbor2.dumps(cbor2.CBORTag(55799, record)))


WRITERS = {
    "TEXT": orjson.dumps,
    "POSTGRES_JSONB": lambda record: b"\x01" + orjson.dumps(record),
    "SQLITE_JSONB": sqlite_element,
    "SMILE": smile_message,
    "CBOR": cbor_message,
}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NESTED = st.recursive(
    st.none() | st.integers(-9, 9) | TEXTS, lambda part: st.lists(part, max_size=3) | st.dictionaries(TEXTS, part)
)
RECORDS = st.fixed_dictionaries(
    {},
    optional={
        "i": st.none() | st.integers(-(2**63), 2**63 - 1),
        "d": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "s": st.none() | TEXTS,
        "b": st.none() | st.booleans(),
        "j": NESTED,
        "ss": st.lists(TEXTS, max_size=3),
        "other": st.integers(0, 9),
    },
)  # fmt: skip


def rows_of(decoded: DecodedBatch) -> list[dict[str, Any]]:
    assert not decoded.undecodable
    return [{name: row.get(name) for name in (*TYPES, "ss")} for row in decoded.rows.to_pylist()]


@pytest.mark.parametrize("form", WRITERS)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(records=st.lists(RECORDS | st.none(), max_size=12))
def test_rows_are_those_of_the_text(form: str, records: list[dict[str, Any] | None]) -> None:
    expected = decode([None if record is None else orjson.dumps(record) for record in records])
    messages = [None if record is None else WRITERS[form](record) for record in records]
    for used in (form, form.lower(), "AUTO"):
        found = decode(messages, jsonFormat=used)
        assert rows_of(found) == rows_of(expected)
        assert found.message_of_row.tolist() == expected.message_of_row.tolist()


def test_auto_tells_messages_apart() -> None:
    forms = [form for form in WRITERS if form != "CBOR"]
    records = [{"i": n, "s": "é" * n} for n in range(40)]
    messages: list[bytes | None] = [WRITERS[forms[n % len(forms)]](record) for n, record in enumerate(records)]
    messages[5:5] = [None, b"\x01", b":)\n", b"[1]", b"\x0c", b""]
    decoded = decode(messages, jsonFormat="AUTO")
    assert [undecodable.message for undecodable in decoded.undecodable] == [6, 7, 8, 10]
    rows = [(row["i"], row["s"]) for row in decoded.rows.to_pylist()]
    assert [row for row in rows if row != (None, None)] == [(record["i"], record["s"]) for record in records]
    assert decoded.message_of_row.tolist() == [n for n in range(46) if n not in (5, 6, 7, 8, 10)]


@pytest.mark.parametrize(
    ("form", "message", "reason"),
    [
        ("POSTGRES_JSONB", b"\x01[1]", "not a JSON object"),
        ("POSTGRES_JSONB", b'\x02{"i": 1}', "there is no version 1 before the text"),
        ("SQLITE_JSONB", b"\x3b\x13\x31", "it ends too early"),
        ("SQLITE_JSONB", b"\x0d", "there is no type 13"),
        ("SQLITE_JSONB", b"\x2c\x13\x31", "a name of an object is no text"),
        ("SQLITE_JSONB", b"\x0b", "not an object in SQLite's JSONB: it is '[]'"),
        ("SMILE", b'{"i": 1}', "does not begin with the header"),
        ("SMILE", b":)\n\x10\xfa\xfb", "its version is 1"),
        ("SMILE", b":)\n\x00\xfa\xfb\x21", "bytes behind the value"),
        ("SMILE", b":)\n\x03\xfa\x40\xc2\xfb", "refers to text 0 of 0"),
        ("SMILE", b":)\n\x03\xfa\x80", "it ends too early"),
        ("SMILE", b":)\n\x00\xf0", "0xf0 begins no value"),
    ],
)
def test_what_is_no_object_is_told(form: str, message: bytes, reason: str) -> None:
    (undecodable,) = decode([message], jsonFormat=form).undecodable
    assert reason in undecodable.reason


def test_values_that_json_has_no_form_for() -> None:
    cbor2 = pytest.importorskip("cbor2")
    types = {
        "t": DataType.TIMESTAMP,
        "x": DataType.BYTES,
        "n": DataType.BIG_DECIMAL,
        "u": DataType.STRING,
        "v": DataType.LONG,
    }
    fields = InputFields(frozenset(types), types)
    record = {
        "t": datetime(2026, 1, 31, 10, tzinfo=UTC), "x": b"\x00\xff", "n": Decimal("1.50"), "u": uuid.UUID(int=7),
        "v": cbor2.undefined, 5: 1,
    }  # fmt: skip
    (row,) = decode([cbor2.dumps(record)], fields=fields, jsonFormat="CBOR").rows.to_pylist()
    assert (row["t"], row["x"], row["u"], row["v"]) == (record["t"], "00ff", str(record["u"]), None)
    assert Decimal(row["n"]) == Decimal("1.5")


# -- BSON


def test_bson_messages() -> None:
    bson = pytest.importorskip("bson")
    types = {
        "id": DataType.STRING, "t": DataType.TIMESTAMP, "n": DataType.BIG_DECIMAL, "l": DataType.LONG, "x": DataType.BYTES,
        "re": DataType.STRING, "j": DataType.JSON, "max": DataType.STRING, "u": DataType.STRING, "ts": DataType.TIMESTAMP,
    }  # fmt: skip
    fields = InputFields(frozenset(types), types)
    number = bson.ObjectId("0123456789abcdef01234567")
    when = datetime(2026, 1, 31, 10, 0, 0, 5000, tzinfo=UTC)
    document = {
        "id": number, "t": when, "n": bson.Decimal128("12.50"), "l": bson.Int64(2**40), "x": b"\x01\x02",
        "re": bson.Regex("^a.*", "i"), "j": {"in": [number, {"l": bson.Int64(3)}]}, "max": bson.MaxKey(),
        "u": bson.Binary.from_uuid(uuid.UUID(int=7)), "ts": bson.Timestamp(1_700_000_000, 3),
    }  # fmt: skip
    whole = bson.encode(document)
    decoded = decode([whole, whole[:-2], None, whole + b"\x00", bson.encode({})], "BSONMessageDecoder", fields)
    assert [undecodable.message for undecodable in decoded.undecodable] == [1, 3]
    first, empty = decoded.rows.to_pylist()
    assert set(empty.values()) == {None}
    assert json.loads(first.pop("j")) == {"in": [str(number), {"l": 3}]}
    assert first == {
        "id": str(number), "t": when, "n": Decimal("12.50"), "l": 2**40, "x": "0102", "re": "^a.*", "max": None,
        "u": str(uuid.UUID(int=7)), "ts": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
    }  # fmt: skip


def test_bson_files(tmp_path: Path) -> None:
    bson = pytest.importorskip("bson")
    documents = [bson.encode({"i": n, "s": str(n)}) for n in range(20_000)]
    bad = len(documents[7]).to_bytes(4, "little") + b"\x7f" * (len(documents[7]) - 4)
    path = tmp_path / "dump.bson"
    path.write_bytes(b"".join([*documents[:7], bad, *documents[7:]]) + documents[0][:-3])
    assert format_of(str(path)) == "bson"
    reader = open_reader(str(path), "BSON", continue_on_error=True)
    assert [row["i"] for batch in reader for row in batch.to_pylist()] == list(range(20_000))
    assert [error.position for error in reader.errors] == ["record 8", "record 20002 and all after it"]
    assert (reader.position(6), reader.position(7)) == ("record 7", "record 9")
    with pytest.raises(RecordError, match="record 8: not a BSON document"):
        list(open_reader(str(path), "bson"))


# -- what is refused


@pytest.mark.parametrize(
    ("name", "properties", "missing", "words"),
    [
        ("json", {"jsonFormat": "SMIEL"}, "", "'SMIEL' is not a format of JSON; .*Did you mean 'SMILE'"),
        ("json", {"jsonFormat": "CBOR"}, "cbor2", r"jsonFormat: CBOR needs cbor2: pip install 'gamay\[cbor\]'"),
        ("json-registry", {"jsonFormat": "SMILE"}, "", "no such property"),
        ("bson", {}, "bson", r"the BSON decoder needs pymongo: pip install 'gamay\[bson\]'"),
        ("bson", {"schema": "x"}, "", "no such property"),
        ("ProtoBufCodeGenMessageDecoder", {"jarFile": "x"}, "", "not supported: .*ProtoBufMessageDecoder"),
        ("KafkaAvroMessageDecoder", {}, "", "not supported: .*SchemaRegistryAvroMessageDecoder"),
    ],
)
def test_what_cannot_be_is_said(
    name: str, properties: dict[str, str], missing: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported = builtins.__import__

    def refuse(module: str, *more: Any) -> Any:
        if missing and module.partition(".")[0] == missing:
            raise ImportError(module)
        return imported(module, *more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InvalidConfigError, match=words):
        open_decoder(StreamConfig("log", "t", decoder_name=name, decoder_properties=properties))
