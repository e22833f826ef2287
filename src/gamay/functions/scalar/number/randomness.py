"""rand(): numbers in [0, 1). Calls are neither folded to constants nor shared between rows with equal arguments."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gamay.functions.arguments import check_count, wrong
from gamay.functions.convert import convert, to_vector
from gamay.functions.expression import Call
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.define import type_of
from gamay.functions.vector import Operand, Scalar, Vector
from gamay.model.types import DataType

_MULTIPLIER, _ADDEND, _MASK = 0x5DEECE66D, 0xB, (1 << 48) - 1


def first_random(seeds: Any) -> Any:
    """Return the result of `new java.util.Random(seed).nextDouble()` for each seed: int64 [n] to float64 [n].

    The class documents its generator: state' = (state * 0x5DEECE66D + 11) mod 2^48; a double is composed of the upper 26
    bits of one state and the upper 27 of the next.
    """
    multiplier, addend, mask = np.uint64(_MULTIPLIER), np.uint64(_ADDEND), np.uint64(_MASK)
    state = (seeds.astype(np.uint64) ^ multiplier) & mask
    first = (state * multiplier + addend) & mask  # wraps at 2^64, which does not affect the lower 48 bits
    second = (first * multiplier + addend) & mask
    return (((first >> np.uint64(22)) << np.uint64(27)) + (second >> np.uint64(21))).astype(np.float64) * 2.0**-53


def _result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    check_count("rand", len(types), 0, 1)
    if types and (types[0][1] or types[0][0].is_binary):
        raise wrong("rand", "the seed must be a whole number")
    return DataType.DOUBLE, False


def _rand(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    """Return random numbers; without a seed, each batch of rows has its own generator, seeded by the operating system."""
    _result_type(call, [type_of(arg) for arg in args])
    if not args:
        numbers = np.random.default_rng().random(num_rows)
        # one row has one value; in a query without a table it must be a constant
        return Scalar(float(numbers[0]), DataType.DOUBLE) if num_rows == 1 else Vector(DataType.DOUBLE, numbers)
    seed = args[0]
    if isinstance(seed, Scalar):
        number = convert(seed, DataType.LONG)
        assert isinstance(number, Scalar)
        known = None if number.value is None else float(first_random(np.array([number.value], np.int64))[0])
        return Scalar(known, DataType.DOUBLE)
    seeds = to_vector(convert(seed, DataType.LONG), num_rows)
    return Vector(DataType.DOUBLE, first_random(seeds.values), None, seeds.nulls)


register_scalar(["rand"], ScalarFunction("rand", 0, 1, _result_type, _rand, is_deterministic=False))
