"""Bitwise functions of INT and LONG. Shift counts wrap as in Java: only the lowest 5 or 6 bits of a count matter."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gamay.functions.expression import Call
from gamay.functions.registry import ValueType
from gamay.functions.scalar.define import each, scalar
from gamay.functions.scalar.types import single_values, whole_number
from gamay.model.types import DataType

LONG, INT = DataType.LONG, DataType.INT
_EACH = each(None)
_WIDTH_MASK = {4: 31, 8: 63}

for _name, _operation in (("bitAnd", np.bitwise_and), ("bitOr", np.bitwise_or), ("bitXor", np.bitwise_xor)):
    scalar(_name, params=(_EACH, _EACH), returns=whole_number)(_operation)


@scalar("bitNot", params=(_EACH,), returns=whole_number)
def bit_not(values: Any) -> Any:
    return ~values


def _shifted(call: Call, types: Sequence[ValueType]) -> ValueType:
    """Return INT if the shifted value is INT, regardless of the type of the count."""
    return (INT if single_values(call, types)[0] is INT else LONG), False


def _count(values: Any, count: Any) -> Any:
    return (count & _WIDTH_MASK[values.dtype.itemsize]).astype(values.dtype)


@scalar("bitShiftLeft", params=(_EACH, each(LONG)), returns=_shifted)
def bit_shift_left(values: Any, count: Any) -> Any:
    return np.left_shift(values, _count(values, count))


@scalar("bitShiftRight", params=(_EACH, each(LONG)), returns=_shifted)
def bit_shift_right(values: Any, count: Any) -> Any:
    """Shift with sign extension."""
    return np.right_shift(values, _count(values, count))


@scalar("bitShiftRightUnsigned", "bitShiftRightLogical", params=(_EACH, each(LONG)), returns=_shifted)
def bit_shift_right_unsigned(values: Any, count: Any) -> Any:
    unsigned = np.dtype(f"u{values.dtype.itemsize}")
    return np.right_shift(values.astype(unsigned), _count(values, count).astype(unsigned)).astype(values.dtype)


@scalar("bitMask", params=(each(LONG),), returns=LONG)
def bit_mask(position: Any) -> Any:
    """The number with only that bit set; 0 if the position is not from 0 to 63."""
    inside = (position >= 0) & (position <= 63)
    return np.where(inside, np.left_shift(np.int64(1), np.where(inside, position, 0)), 0)


@scalar("bitExtract", "extractBit", params=(each(LONG), each(LONG)), returns=INT)
def bit_extract(values: Any, position: Any) -> Any:
    """The bit at a position, 0 if the position is not from 0 to 63."""
    inside = (position >= 0) & (position <= 63)
    return np.where(inside, np.right_shift(values, np.where(inside, position, 0)) & 1, 0)


@scalar("bitCount", params=(each(LONG),), returns=INT)
def bit_count(values: Any) -> Any:
    """The number of set bits of 64; an INT is extended to LONG, so -1 has 64."""
    return np.bitwise_count(values.astype(np.uint64))


@scalar("byteswapInt", params=(each(INT),), returns=INT)
def byteswap_int(values: Any) -> Any:
    return values.byteswap()


@scalar("byteswapLong", params=(each(LONG),), returns=LONG)
def byteswap_long(values: Any) -> Any:
    return values.byteswap()
