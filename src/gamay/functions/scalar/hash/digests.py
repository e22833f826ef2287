"""Digests and checksums. Digests are lower-case hexadecimal; text is hashed as its UTF-8 bytes."""

import hashlib
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from gamay.functions.convert import by_distinct, convert_values
from gamay.functions.scalar.define import ANY, scalar
from gamay.functions.vector import Vector
from gamay.model.types import DataType

STRING, INT = DataType.STRING, DataType.INT


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
