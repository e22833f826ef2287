"""UltraLogLog (O. Ertl, arXiv:2308.16862): as accurate as HyperLogLog with 28 % less memory.

A sketch of precision p has 2**p registers of one byte, which are its serialised form, as in the hash4j library: update
value u of a register, the position of the first one bit after the first p bits of a hash, is stored in the upper 6 bits
as u + p - 2; the lower two indicate whether u - 1 and u - 2 occurred too. 0 is the empty register.

Hashes are the low halves of 128-bit MurmurHash3, seed 0, of numbers as 64 bits, of text as UTF-8. Sketches of libraries
with other hashes can be merged with each other, but not with those made here. Estimates are maximum-likelihood ones.
"""

import base64
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.sketch.hashing import value_hashes
from gamay.functions.sketch.registers import histograms, most_likely, rounded
from gamay.functions.vector import Vector
from gamay.kernels.sketch.registers import rank_candidates

DEFAULT_PRECISION = 12
PRECISION_RANGE = range(3, 19)
_PARSED_RANGE = range(3, 27)
_UPDATES = 64
_BIAS = 0.4814737652772  # of the estimate, times the number of registers: the first-order bias that the paper derives


@dataclass(frozen=True, slots=True)
class UllKind:
    """UltraLogLog; see `RegisterKind`."""

    precision: int = DEFAULT_PRECISION
    name: str = "UltraLogLog"

    @property
    def table(self) -> Array:
        return _merge_table()

    def candidates(self, vector: Vector) -> tuple[Array, Array]:
        hashes = value_hashes(vector, 0)[0]
        positions, ranks = np.empty(len(hashes), np.uint32), np.empty(len(hashes), np.uint8)
        rank_candidates(hashes, self.precision, positions, ranks)
        return positions, ((ranks + np.uint8(self.precision - 2)) << np.uint8(2)).astype(np.uint8)

    def estimate(self, registers: Array) -> Array:
        m = registers.shape[1]
        return rounded(most_likely(histograms(registers), *_likelihood(m.bit_length() - 1)) / (1 + _BIAS / m))

    def serialize(self, registers: Array) -> bytes:
        return registers.tobytes()

    def parse(self, data: bytes) -> Array:
        precision = len(data).bit_length() - 1
        if len(data) != 1 << precision or precision not in _PARSED_RANGE:
            raise ValueError(f"the number of bytes must be a power of 2 from 8 to {1 << _PARSED_RANGE[-1]}")
        registers = np.frombuffer(data, np.uint8)
        if not _possible(precision)[registers].all():
            raise ValueError(f"a register has a value that does not occur with precision {precision}")
        return registers

    def to_text(self, data: bytes) -> str:
        return base64.b64encode(data).decode()


def _unpacked(registers: Array) -> Array:
    """Return the updates that registers imply as bits: uint64, bit u + p - 2 for update u."""
    bits = (registers & np.uint64(3)) | np.uint64(4)
    shift = (registers >> np.uint64(2)).astype(np.int64) - 2
    shifted = np.where(
        shift >= 0, bits << np.maximum(shift, 0).astype(np.uint64), bits >> np.maximum(-shift, 0).astype(np.uint64)
    )
    return np.asarray(np.where(registers == 0, np.uint64(0), shifted))


@lru_cache(maxsize=1)
def _merge_table() -> Array:
    """Return the register value that combines the updates of two: uint8 [256, 256]."""
    unpacked = _unpacked(np.arange(256, dtype=np.uint64))
    both = unpacked[:, None] | unpacked[None, :]
    highest = np.zeros(both.shape, np.uint64)
    for bit in range(64):
        highest[(both >> np.uint64(bit)) & np.uint64(1) == 1] = bit
    down = np.maximum(highest, 2) - np.uint64(2)
    low = np.where(highest >= 2, both >> down, both << (np.uint64(2) - np.minimum(highest, 2))) & np.uint64(3)
    merged = np.where(both == 0, 0, highest * np.uint64(4) + low).astype(np.uint8)
    merged.setflags(write=False)
    return merged


@lru_cache(maxsize=32)
def _possible(precision: int) -> Array:
    """Return which register values can occur: bool [256]."""
    update = np.arange(256) // 4 - (precision - 2)
    low = np.arange(256) & 3
    possible = (update >= 1) & (update <= 65 - precision)
    possible &= ~((update == 1) & (low != 0)) & ~((update == 2) & (low & 1 != 0))
    possible[0] = True
    return possible


@lru_cache(maxsize=32)
def _likelihood(precision: int) -> tuple[Array, Array, Array]:
    """Return what each register value implies: which updates occurred, and the probability of those that did not."""
    last = 65 - precision
    halvings = np.minimum(np.arange(_UPDATES), last - 1).astype(np.float64)
    occurs, idle = np.zeros((256, _UPDATES), np.int64), np.zeros(256)
    idle[0] = 1.0
    for register in np.flatnonzero(_possible(precision))[1:].tolist():
        update = register // 4 - (precision - 2)
        occurs[register, update] = 1
        idle[register] = 2.0**-update if update < last else 0.0
        for lower, came in ((update - 1, register & 2), (update - 2, register & 1)):
            if lower >= 1:
                occurs[register, lower] += came > 0
                idle[register] += 0.0 if came else 2.0**-lower
    return occurs, idle, halvings
