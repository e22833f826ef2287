"""UUIDs: as text, as 16 bytes, their version and time, and generation. Arguments are STRING, BYTES of 16, or UUID."""

import os
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gamay.base.clock import SYSTEM_CLOCK
from gamay.functions.arguments import check_count, wrong
from gamay.functions.convert import array_of
from gamay.functions.distinct import distinct
from gamay.functions.expression import Call
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.define import ANY, ResultRule, scalar
from gamay.functions.scalar.values import of_distinct
from gamay.functions.vector import Operand, Vector, take
from gamay.model.types import DataType

STRING, BYTES, UUID, BOOLEAN, INT, LONG = (
    DataType.STRING,
    DataType.BYTES,
    DataType.UUID,
    DataType.BOOLEAN,
    DataType.INT,
    DataType.LONG,
)
_TEXT_LENGTH = 36
_GREGORIAN_TO_EPOCH_MS = 12_219_292_800_000


def parse_uuid(value: str | bytes) -> uuid.UUID:
    """Parse a UUID from its canonical text (any case) or its 16 bytes; raises ValueError."""
    if isinstance(value, bytes):
        if len(value) != 16:
            raise ValueError(f"a UUID has 16 bytes, not {len(value)}")
        return uuid.UUID(bytes=value)
    parsed = uuid.UUID(value) if len(value) == _TEXT_LENGTH else None
    if parsed is None or str(parsed) != value.lower():
        raise ValueError(f"'{value}' is not a UUID such as 6ba7b810-9dad-11d1-80b4-00c04fd430c8")
    return parsed


def _of_uuid(name: str, returns: DataType) -> ResultRule:
    """Return the type rule of a function of a UUID, which must not be a number."""

    def rule(call: Call, types: Sequence[ValueType]) -> ValueType:
        data_type, _ = types[0]
        if not (data_type.is_text or data_type.is_binary or data_type is DataType.UNKNOWN):
            raise wrong(name, f"argument 1 must be STRING, BYTES or UUID, not {data_type.value}")
        return returns, False

    return rule


def _register(*names: str, returns: DataType) -> Callable[[Callable[[uuid.UUID], Any]], None]:
    """Register a function of a UUID; invalid UUIDs are errors."""

    def decorate(function: Callable[[uuid.UUID], Any]) -> None:
        def body(vector: Vector) -> Vector:
            return of_distinct(names[0], vector, lambda value: function(parse_uuid(value)), returns)

        body.__doc__ = function.__doc__
        scalar(*names, params=(ANY,), returns=_of_uuid(names[0], returns))(body)

    return decorate


_register("toUuid", "bytesToUuid", returns=UUID)(lambda value: value.bytes)
_register("uuidToString", "fromUUIDBytes", returns=STRING)(str)
_register("uuidToBytes", returns=BYTES)(lambda value: value.bytes)


@_register("uuidVersion", returns=INT)
def uuid_version(value: uuid.UUID) -> int:
    """The version: four bits of the UUID, regardless of its variant."""
    return value.bytes[6] >> 4


@_register("uuidTimestamp", returns=LONG)
def uuid_timestamp(value: uuid.UUID) -> int:
    """The milliseconds since 1970 in a UUID of version 1 or 7; others are an error."""
    version = value.bytes[6] >> 4
    if version == 7:
        return value.int >> 80
    if version == 1:
        return value.time // 10_000 - _GREGORIAN_TO_EPOCH_MS
    raise ValueError(f"a UUID of version {version} has no time, only those of version 1 and 7")


def _is_uuid(value: str | bytes) -> bool:
    try:
        parse_uuid(value)
    except ValueError:
        return False
    return True


@scalar("isUuid", params=(ANY,), returns=_of_uuid("isUuid", BOOLEAN))
def is_uuid(vector: Vector) -> Any:
    return of_distinct("isUuid", vector, _is_uuid, BOOLEAN)


@scalar("toUUIDBytes", params=(ANY,), returns=_of_uuid("toUUIDBytes", BYTES))
def to_uuid_bytes(vector: Vector) -> Vector:
    """The 16 bytes, null for an invalid UUID."""
    codes, entries = distinct(vector)
    found = [parse_uuid(v).bytes if _is_uuid(v) else None for v in entries.values.to_pylist()]
    missing = np.array([value is None for value in found], np.bool_)
    values = take(array_of([value or b"" for value in found], BYTES), codes)
    return Vector(BYTES, values, None, missing[codes] if missing.any() else None)


# -- generation


def random_uuids(random: bytes) -> list[bytes]:
    """Return UUIDs of version 4, made of 16 random bytes each."""
    words = np.frombuffer(random, np.uint8).reshape(-1, 16).copy()
    words[:, 6] = (words[:, 6] & 0x0F) | 0x40
    words[:, 8] = (words[:, 8] & 0x3F) | 0x80
    return [bytes(word) for word in words]


def timed_uuids(now_ms: int, random: bytes) -> list[bytes]:
    """Return UUIDs of version 7 (RFC 9562): 48 bits of time, then random bits; `random` has 16 bytes for each."""
    words = np.frombuffer(random, np.uint8).reshape(-1, 16).copy()
    words[:, :6] = np.frombuffer(now_ms.to_bytes(6, "big"), np.uint8)
    words[:, 6] = (words[:, 6] & 0x0F) | 0x70
    words[:, 8] = (words[:, 8] & 0x3F) | 0x80
    return [bytes(word) for word in words]


def _generator(name: str, make: Callable[[int], list[bytes]]) -> None:
    def result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
        check_count(name, len(types), 0, 0)
        return UUID, False

    def compute(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
        return Vector(UUID, array_of(make(num_rows), UUID))

    register_scalar([name], ScalarFunction(name, 0, 0, result_type, compute, is_deterministic=False, can_fold=False))


_generator("uuidV4", lambda count: random_uuids(os.urandom(16 * count)))
_generator("uuidV7", lambda count: timed_uuids(SYSTEM_CLOCK.now_ms(), os.urandom(16 * count)))
