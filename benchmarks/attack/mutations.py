"""Mutations of valid bytes."""

import random
from collections.abc import Sequence

_EXTREMES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1)
_CHANGES_MAX = 4
_PIECE_MAX = 64


def mutated(data: bytes, rng: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """Return bytes with one to four changes: bits, numbers, or parts removed, repeated, inserted, truncated or foreign."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, _CHANGES_MAX)):
        _change(changed, rng, others)
    return bytes(changed)


def _change(data: bytearray, rng: random.Random, others: Sequence[bytes]) -> None:
    at = rng.randrange(len(data) + 1)
    end = min(len(data), at + rng.randint(1, _PIECE_MAX))
    kind = rng.randrange(7)
    if kind == 0 and at < len(data):
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        width = rng.choice((1, 2, 4, 8))
        value = rng.choice(_EXTREMES) % (1 << 8 * width)
        data[at : at + width] = value.to_bytes(width, rng.choice(("little", "big")))
    elif kind == 2:
        del data[at:end]
    elif kind == 3:
        data[at:at] = data[at:end] * rng.choice((1, 2, 50))
    elif kind == 4:
        data[at:at] = rng.randbytes(rng.randint(1, 8))
    elif kind == 5:
        del data[at:]
    elif others:
        other = rng.choice(others)
        begin = rng.randrange(len(other) + 1)
        data[at:end] = other[begin : begin + rng.randint(1, _PIECE_MAX)]
