"""Registers of HyperLogLog-like sketches: candidates of hashes, merging by a table, maximum-likelihood estimates.

A sketch of precision p has 2**p registers of one byte. `table` (uint8 [256, 256]) tells what two register values make.
"""

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel

_NEWTON_STEPS = 60


@kernel
def rank_candidates(hashes: Array, precision: int, positions: Array, ranks: Array) -> None:
    """Write for each uint64 hash its register, the first bits, and the place of the first one bit in the rest, from 1.

    positions: uint32; ranks: uint8, at most 65 - precision.
    """
    bits = np.uint64(precision)
    for i in range(len(hashes)):
        positions[i] = hashes[i] >> (np.uint64(64) - bits)
        rest = (hashes[i] << bits) | (np.uint64(1) << (bits - np.uint64(1)))
        rank = 1
        while rest >> np.uint64(63) == 0:
            rest <<= np.uint64(1)
            rank += 1
        ranks[i] = rank


@kernel
def add_candidates(
    groups: Array, rows: Array, positions: Array, values: Array, precision: int, table: Array, out: Array
) -> None:
    """Merge the candidate of each row into its group; rows[i] tells which candidate row i has.

    out: uint8 [number of groups << precision].
    """
    bits = np.uint64(precision)
    for i in range(len(rows)):
        row = np.uint64(rows[i])
        cell = (np.uint64(groups[i]) << bits) + np.uint64(positions[row])
        out[cell] = table[out[cell], values[row]]


@kernel
def merge_sketches(groups: Array, rows: Array, sketches: Array, table: Array, out: Array) -> None:
    """Merge whole sketches, uint8 [n, m]: row i of the batch is sketches[rows[i]] and goes to out[groups[i]]."""
    for i in range(len(rows)):
        source = sketches[rows[i]]
        target = out[groups[i]]
        for j in range(source.size):
            target[j] = table[target[j], source[j]]


@kernel
def estimate_rates(counts: Array, idle: Array, halvings: Array, out: Array) -> None:
    """Write the rate x of each sketch that makes its registers most likely, by Newton's method.

    The logarithm of the likelihood is sum_k counts[i, k] * ln(1 - exp(-x / 2**halvings[k])) - idle[i] * x. Its derivative
    is convex and falls, so that Newton's method climbs from any point on its left without passing the solution.
    """
    for i in range(len(idle)):
        total = 0.0
        weighted = 0.0
        for k in range(counts.shape[1]):
            total += counts[i, k]
            weighted += counts[i, k] * 2.0 ** -halvings[k]
        if total == 0:
            out[i] = 0.0
            continue
        if idle[i] == 0:
            out[i] = np.inf
            continue
        x = total / (idle[i] + 0.5 * weighted)
        for _ in range(_NEWTON_STEPS):
            value = -idle[i]
            slope = 0.0
            for k in range(counts.shape[1]):
                if counts[i, k] > 0:
                    unit = 2.0 ** -halvings[k]
                    grown = np.expm1(x * unit)
                    value += counts[i, k] * unit / grown
                    slope -= counts[i, k] * unit * unit * (grown + 1.0) / (grown * grown)
            if slope == 0.0:
                break
            step = -value / slope
            x += step
            if step <= 1e-12 * x:
                break
        out[i] = x
