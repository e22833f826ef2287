"""Conversions between texts, bytes and numbers: character sets, base64, hexadecimal.

As in Java, characters that a character set lacks become `?`, and invalid bytes become U+FFFD.
"""

import base64
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa

from gamay.functions.arguments import wrong
from gamay.functions.convert import by_distinct, convert_values
from gamay.functions.scalar.define import by_value, const, each, scalar
from gamay.functions.scalar.text.encoded import base64_bytes, bytes_of_decimal, decimal_of_bytes
from gamay.model.types import DataType

STRING, BYTES, LONG, BIG_DECIMAL = DataType.STRING, DataType.BYTES, DataType.LONG, DataType.BIG_DECIMAL

# Java's names in upper case, to Python's; Java writes UTF-16 with a byte order mark, and big-endian
_CHARSETS = {
    "UTF-8": "utf-8",
    "UTF8": "utf-8",
    "UTF-16": "utf-16",
    "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le",
    "UTF-32": "utf-32-be",
    "UTF-32BE": "utf-32-be",
    "UTF-32LE": "utf-32-le",
    "US-ASCII": "ascii",
    "ASCII": "ascii",
    **{f"ISO-8859-{n}": f"iso8859-{n}" for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 15)},
    **{f"WINDOWS-{n}": f"cp{n}" for n in range(1250, 1259)},
    "LATIN1": "iso8859-1",
    "SHIFT_JIS": "shift_jis",
    "EUC-JP": "euc_jp",
    "EUC-KR": "euc_kr",
    "GBK": "gbk",
    "GB18030": "gb18030",
    "BIG5": "big5",
    "KOI8-R": "koi8_r",
}
_HEXADECIMAL = re.compile("-?[0-9a-f]+")
_BIG_ENDIAN_MARK = b"\xfe\xff"


def _charset(name: str, charset: str) -> str:
    codec = _CHARSETS.get(charset.strip().upper())
    if codec is None:
        raise wrong(name, f"'{charset}' is not a supported character set; supported are {', '.join(_CHARSETS)}")
    return codec


def _encode(text: str, codec: str) -> bytes:
    if codec == "utf-16":
        return _BIG_ENDIAN_MARK + text.encode("utf-16-be")
    return text.encode(codec, errors="replace")


def _decode(value: bytes, codec: str) -> str:
    if codec == "utf-16" and value[:2] not in (_BIG_ENDIAN_MARK, b"\xff\xfe"):
        codec = "utf-16-be"
    return value.decode(codec, errors="replace")


@scalar("toBytes", params=(each(STRING), const(STRING, lambda charset: _charset("toBytes", charset))), returns=BYTES)
def to_bytes(text: Any, charset: str) -> Any:
    """Encode in a character set such as `UTF-8` or `ISO-8859-1`."""
    codec = _charset("toBytes", charset)
    return by_distinct(text, lambda value: _encode(value, codec), BYTES)


@scalar("fromBytes", params=(each(BYTES), const(STRING, lambda charset: _charset("fromBytes", charset))), returns=STRING)
def from_bytes(values: Any, charset: str) -> Any:
    """Decode from a character set such as `UTF-8` or `ISO-8859-1`."""
    codec = _charset("fromBytes", charset)
    return by_distinct(values, lambda value: _decode(value, codec), STRING)


@scalar("toUtf8", params=(each(STRING),), returns=BYTES)
def to_utf8(text: Any) -> Any:
    return text.cast(pa.binary())


@by_value("fromUtf8", params=(BYTES,), returns=STRING)
def from_utf8(value: bytes) -> str:
    return _decode(value, "utf-8")


@by_value("toAscii", params=(STRING,), returns=BYTES)
def to_ascii(text: str) -> bytes:
    return _encode(text, "ascii")


@by_value("fromAscii", params=(BYTES,), returns=STRING)
def from_ascii(value: bytes) -> str:
    return _decode(value, "ascii")


# -- base64


@by_value("toBase64", params=(BYTES,), returns=STRING)
def to_base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


@by_value("fromBase64", params=(STRING,), returns=BYTES)
def from_base64(text: str) -> bytes:
    return base64_bytes(text)


@by_value("base64Encode", params=(BYTES,), returns=BYTES)
def base64_encode(value: bytes) -> bytes:
    """The base64 text of bytes, as bytes."""
    return base64.b64encode(value)


@by_value("base64Decode", params=(BYTES,), returns=BYTES)
def base64_decode(value: bytes) -> bytes:
    """The bytes that a base64 text, given as bytes, encodes."""
    return base64_bytes(value)


# -- hexadecimal


@scalar("bytesToHex", params=(each(BYTES),), returns=STRING)
def bytes_to_hex(values: Any) -> Any:
    return convert_values(values, BYTES, STRING)


@scalar("hexToBytes", params=(each(STRING),), returns=BYTES)
def hex_to_bytes(text: Any) -> Any:
    return convert_values(text, STRING, BYTES)


@by_value("hexDecimalToLong", params=(STRING,), returns=LONG)
def hex_to_long(text: str) -> int:
    """Sixteen digits may have the highest bit set: `ffffffffffffffff` is -1, the inverse of `longToHexDecimal`."""
    digits = text.strip().lower().removeprefix("0x")
    if _HEXADECIMAL.fullmatch(digits) is None:
        raise ValueError("it is not a hexadecimal number")
    number = int(digits, 16)
    if not -(2**63) <= number < 2**64:
        raise ValueError("it does not fit 64 bits")
    return number - 2**64 if number >= 2**63 else number


@by_value("longToHexDecimal", params=(LONG,), returns=STRING)
def long_to_hex(number: int) -> str:
    """The hexadecimal text; negative numbers as their two's complement of 64 bits."""
    return format(number & (2**64 - 1), "x")


# -- BIG_DECIMAL


@by_value("bigDecimalToBytes", params=(BIG_DECIMAL,), returns=BYTES)
def big_decimal_to_bytes(number: Decimal) -> bytes:
    """Two bytes of scale, then the unscaled value: both big-endian two's complement."""
    return bytes_of_decimal(number)


@by_value("bytesToBigDecimal", params=(BYTES,), returns=BIG_DECIMAL)
def bytes_to_big_decimal(value: bytes) -> Decimal:
    """The inverse of `bigDecimalToBytes`."""
    return decimal_of_bytes(value)
