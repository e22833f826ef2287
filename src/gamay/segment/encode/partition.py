"""Partition functions: map the text form of a value to its partition, as producers and brokers do."""

import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from gamay.base.errors import InvalidConfigError, nearest
from gamay.functions.vector import Vector
from gamay.kernels.hash import hashing
from gamay.model.index.indexing import column_values
from gamay.model.types import DataType
from gamay.segment.encode.storage_form import binary_buffers, from_arrow, to_values
from gamay.segment.encode.value_text import values_text
from gamay.segment.spi import PartitionInfo

Hashes: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Hasher: TypeAlias = Callable[[pa.Array], Hashes]

_MIN = {32: -(1 << 31), 64: -(1 << 63)}
_MURMUR3_VARIANTS = {"x86_32": hashing.murmur3_x86_32, "x64_32": hashing.murmur3_x64_32}
_FNV_VARIANTS = {"fnv1a_32": (True, False), "fnv1_32": (False, False), "fnv1a_64": (True, True), "fnv1_64": (False, True)}


class PartitionFunction:
    """A hash of texts and the rule that turns it into 0 … num_partitions - 1. Made by `partition_function`."""

    def __init__(
        self, name: str, num_partitions: int, config: Mapping[str, str], hasher: Hasher, bits: int, normalizer: str
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.config = config
        self._hasher = hasher
        self._bits = bits
        self._normalizer = normalizer
        self._raw_bytes = name.lower() in _OF_RAW_BYTES and config.get("useRawBytes", "").lower() == "true"
        self._is_remainder = hasher is _integers and normalizer == "POSITIVE_MODULO"

    def partitions_of(self, vector: Vector) -> "np.ndarray[Any, np.dtype[np.int32]]":
        """Return int32 [n]: the partition of each single value; raises ValueError for a value the function cannot take."""
        if self._raw_bytes and vector.type.is_binary:
            return self._normalise(self._hasher(vector.values))
        return self.partitions_of_texts(values_text(vector))

    def partition_of(self, text: str) -> int:
        """Return the partition of a value in its text form (`value_text`); raises ValueError where it has none."""
        if self._is_remainder and _SHORT_INTEGER.fullmatch(text):
            return int(text) % self.num_partitions  # for a single value of a query, arrays would take ten times as long
        return int(self.partitions_of_texts(pa.array([text], pa.string()))[0])

    def hash_of(self, text: str) -> int:
        """Return the signed hash of a text before it is turned into a partition."""
        return int(self._hasher(self._bytes_of(pa.array([text], pa.string())))[0])

    def partitions_of_texts(self, texts: pa.Array) -> "np.ndarray[Any, np.dtype[np.int32]]":
        """Return int32 [n]: the partition of each text form; raises ValueError for a value the function cannot take."""
        return self._normalise(self._hasher(self._bytes_of(texts)))

    def _bytes_of(self, texts: pa.Array) -> pa.Array:
        if not self._raw_bytes:
            return texts
        return pa.array(map(_raw_bytes, texts.to_pylist()), pa.binary())

    def _normalise(self, hashes: Hashes) -> "np.ndarray[Any, np.dtype[np.int32]]":
        return NORMALIZERS[self._normalizer](hashes, self.num_partitions, self._bits).astype(np.int32)


def _raw_bytes(text: str) -> bytes:
    """Return the bytes of the text form of a BYTES or UUID value; raises ValueError."""
    try:
        return uuid.UUID(text).bytes if _UUID.fullmatch(text) else bytes.fromhex(text)
    except ValueError:
        raise ValueError(f"'{text}' is not hexadecimal, so useRawBytes cannot convert it to the bytes to hash") from None


def partition_function(name: str, num_partitions: int, config: Mapping[str, str] | None = None) -> PartitionFunction:
    """Return the partition function of a name (any case), number of partitions and `functionConfig`.

    Raises InvalidConfigError for an unknown name, variant or normalizer, or a number of partitions that does not fit.
    """
    settings = dict(config or {})
    maker = _MAKERS.get(name.lower())
    if maker is None:
        raise InvalidConfigError(
            f"partition function '{name}' is not known; expected one of {', '.join(_NAMES)}.{nearest(name, _NAMES)}"
        )
    if num_partitions < 1:
        raise InvalidConfigError(f"numPartitions of partition function '{name}' is {num_partitions}; expected at least 1")
    hasher, bits, normalizer = maker(settings, num_partitions)
    if name.lower() == "fnv":  # which has its own key for mask and abs
        normalizer = settings.get("negativePartitionHandling", normalizer)
    chosen = settings.get("partitionIdNormalizer", normalizer).upper()
    if chosen not in NORMALIZERS:
        raise InvalidConfigError(
            f"partitionIdNormalizer '{chosen}' is not known; expected one of {', '.join(NORMALIZERS)}."
            f"{nearest(chosen, NORMALIZERS)}"
        )
    return PartitionFunction(name, num_partitions, settings, hasher, bits, chosen)


def partitions_of_column(
    function: PartitionFunction, column: pa.Array, data_type: DataType, of_null: int
) -> "np.ndarray[Any, np.dtype[np.int32]]":
    """Return int32 [n]: the partition of each value of a conformed column; raises ValueError as `partitions_of`."""
    valid = np.asarray(column.is_valid())
    result = np.full(len(column), of_null, np.int32)
    values = from_arrow(column.drop_null(), data_type)
    result[valid] = function.partitions_of(Vector(data_type, to_values(values, data_type)))
    return result


def partition_info(function: PartitionFunction, values: Vector) -> PartitionInfo:
    """Return the partitions that a segment's values belong to; `values` may omit duplicates."""
    found = np.unique(function.partitions_of(values))
    return PartitionInfo(function.name, function.num_partitions, tuple(found.tolist()), function.config)


# From hash to partition; `hashes`: int64, 32-bit hashes sign-extended


def _positive_modulo(hashes: Hashes, n: int, bits: int) -> Hashes:
    return np.mod(hashes, n)


def _abs(hashes: Hashes, n: int, bits: int) -> Hashes:
    return np.abs(np.fmod(hashes, n))


def _mask(hashes: Hashes, n: int, bits: int) -> Hashes:
    return (hashes & ((1 << (bits - 1)) - 1)) % n


def _pre_modulo_abs(hashes: Hashes, n: int, bits: int) -> Hashes:
    return np.where(hashes == _MIN[bits], 0, np.abs(hashes)) % n


def _no_op(hashes: Hashes, n: int, bits: int) -> Hashes:
    return hashes


NORMALIZERS: dict[str, Callable[[Hashes, int, int], Hashes]] = {
    "POSITIVE_MODULO": _positive_modulo,
    "ABS": _abs,
    "MASK": _mask,
    "PRE_MODULO_ABS": _pre_modulo_abs,
    "NO_OP": _no_op,
}


# The functions: (functionConfig, number of partitions) -> (hasher, bits of the hash, default normalizer)


def _hasher(kernel: Callable[..., None], *arguments: Any) -> Hasher:
    def hash_all(strings: pa.Array) -> Hashes:
        offsets, data = binary_buffers(strings)
        out = np.empty(len(strings), np.int64)
        kernel(data, offsets, *arguments, out)
        return out

    return hash_all


def _variant(config: Mapping[str, str], function: str, default: str, known: Mapping[str, Any]) -> Any:
    variant = config.get("variant", default).lower()
    if variant not in known:
        raise InvalidConfigError(
            f"variant '{variant}' of partition function {function} is not known; expected one of {', '.join(known)}"
        )
    return known[variant]


def _integers(texts: pa.Array) -> Hashes:
    try:
        parsed: Hashes = texts.cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid as reason:
        raise ValueError(f"partition function Modulo takes 64-bit integers only: {reason}") from None
    return parsed


def _make_modulo(config: Mapping[str, str], n: int) -> tuple[Hasher, int, str]:
    return _integers, 64, "POSITIVE_MODULO"


def _make_murmur2(config: Mapping[str, str], n: int) -> tuple[Hasher, int, str]:
    return _hasher(hashing.murmur2), 32, "MASK"


def _make_murmur3(config: Mapping[str, str], n: int) -> tuple[Hasher, int, str]:
    kernel = _variant(config, "Murmur3", "x86_32", _MURMUR3_VARIANTS)
    try:
        seed = int(config.get("seed", "0"))
    except ValueError:
        raise InvalidConfigError(f"seed '{config['seed']}' of partition function Murmur3 is not an integer") from None
    return _hasher(kernel, np.int64(seed)), 32, "MASK"


def _make_fnv(config: Mapping[str, str], n: int) -> tuple[Hasher, int, str]:
    xor_first, wide = _variant(config, "FNV", "fnv1a_32", _FNV_VARIANTS)
    return _hasher(hashing.fnv, xor_first, wide), 64 if wide else 32, "MASK"


def _make_hash_code(config: Mapping[str, str], n: int) -> tuple[Hasher, int, str]:
    return _hasher(hashing.java_string_hash), 32, "PRE_MODULO_ABS"


def _make_byte_array(config: Mapping[str, str], n: int) -> tuple[Hasher, int, str]:
    return _hasher(hashing.java_bytes_hash), 32, "PRE_MODULO_ABS"


def _make_bounded(config: Mapping[str, str], n: int) -> tuple[Hasher, int, str]:
    missing = [key for key in ("columnValues", "columnValuesDelimiter") if not config.get(key)]
    if missing:
        raise InvalidConfigError(
            f"partition function BoundedColumnValue needs {' and '.join(missing)} in its functionConfig"
        )
    names = [_fold(name) for name in column_values(config["columnValues"], config["columnValuesDelimiter"])]
    if n != len(names) + 1:
        raise InvalidConfigError(
            f"numPartitions of BoundedColumnValue is {n}; expected {len(names) + 1}: one for each of the {len(names)} "
            "columnValues and one for all others"
        )
    ids = {name: position for position, name in reversed(list(enumerate(names, 1)))}

    def look_up(texts: pa.Array) -> Hashes:
        encoded = texts.dictionary_encode()
        by_entry = np.array([ids.get(_fold(entry), 0) for entry in encoded.dictionary.to_pylist()], np.int64)
        partitions: Hashes = by_entry[encoded.indices.to_numpy()]
        return partitions

    return look_up, 64, "NO_OP"


def _fold(text: str) -> str:
    """Fold case character by character, as `equalsIgnoreCase` does (`ß` stays one letter)."""
    return "".join(c.upper() if len(c.upper()) == 1 else c for c in text).lower()


_OF_RAW_BYTES = frozenset({"murmur", "murmur2", "murmur3", "fnv"})
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHORT_INTEGER = re.compile("-?[0-9]{1,18}")
_NAMES = ("Modulo", "Murmur", "Murmur2", "Murmur3", "FNV", "HashCode", "ByteArray", "BoundedColumnValue")
_MAKERS: dict[str, Callable[[Mapping[str, str], int], tuple[Hasher, int, str]]] = {
    "modulo": _make_modulo,
    "murmur": _make_murmur2,
    "murmur2": _make_murmur2,
    "murmur3": _make_murmur3,
    "fnv": _make_fnv,
    "hashcode": _make_hash_code,
    "bytearray": _make_byte_array,
    "boundedcolumnvalue": _make_bounded,
}
