"""Digests, checksums and encodings. Digests are lower-case hexadecimal; text is hashed as its UTF-8 bytes."""

import base64
import hashlib
import urllib.parse
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from gamay.functions.scalar.convert import by_distinct, convert_values
from gamay.functions.scalar.define import ANY, by_value, each, scalar
from gamay.functions.vector import Vector
from gamay.model.types import DataType

STRING, BYTES, INT, LONG = DataType.STRING, DataType.BYTES, DataType.INT, DataType.LONG


def _on_bytes(function: Callable[[bytes], Any], result: DataType) -> Callable[[Vector], Any]:
    def compute(vector: Vector) -> Any:
        text = vector.values if vector.type.is_binary else convert_values(vector.values, vector.type, STRING)
        return by_distinct(text.cast(pa.binary()), function, result)

    return compute


def _digest(algorithm: str) -> Callable[[bytes], str]:
    return lambda value: hashlib.new(algorithm, value, usedforsecurity=False).hexdigest()


def _signed32(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value


for _name, _algorithm in (
    ("md5", "md5"),
    ("sha", "sha1"),
    ("sha224", "sha224"),
    ("sha256", "sha256"),
    ("sha512", "sha512"),
):
    scalar(_name, params=(ANY,), returns=STRING)(_on_bytes(_digest(_algorithm), STRING))

scalar("crc32", params=(ANY,), returns=INT)(_on_bytes(lambda value: _signed32(zlib.crc32(value)), INT))
scalar("adler32", params=(ANY,), returns=INT)(_on_bytes(lambda value: _signed32(zlib.adler32(value)), INT))


# -- encodings


@scalar("toUtf8", params=(each(STRING),), returns=BYTES)
def to_utf8(text: Any) -> Any:
    return text.cast(pa.binary())


@by_value("fromUtf8", params=(BYTES,), returns=STRING)
def from_utf8(value: bytes) -> str:
    return value.decode()


@by_value("toBase64", params=(BYTES,), returns=STRING)
def to_base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


@by_value("fromBase64", params=(STRING,), returns=BYTES)
def from_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


@scalar("bytesToHex", params=(each(BYTES),), returns=STRING)
def bytes_to_hex(values: Any) -> Any:
    return convert_values(values, BYTES, STRING)


@scalar("hexToBytes", params=(each(STRING),), returns=BYTES)
def hex_to_bytes(text: Any) -> Any:
    return convert_values(text, STRING, BYTES)


@by_value("hexDecimalToLong", params=(STRING,), returns=LONG)
def hex_to_long(text: str) -> int:
    return int(text, 16)


@by_value("longToHexDecimal", params=(LONG,), returns=STRING)
def long_to_hex(number: int) -> str:
    return format(number & (2**64 - 1), "x")


@by_value("encodeUrl", "urlEncode", params=(STRING,), returns=STRING)
def encode_url(text: str) -> str:
    """Form encoding: a blank is a plus."""
    return urllib.parse.quote_plus(text, safe="*")


@by_value("decodeUrl", "urlDecode", params=(STRING,), returns=STRING)
def decode_url(text: str) -> str:
    return urllib.parse.unquote_plus(text, errors="strict")
