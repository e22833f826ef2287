"""Bounds of the parameters of sketches, which queries and table configs give alike."""

LOG2M_RANGE = range(2, 17)
"""HyperLogLog: the logarithm of the number of registers."""

HLL_PLUS_PRECISION_RANGE = range(4, 19)
SPARSE_PRECISION_MAX = 32
"""HyperLogLog++: `p`, and the most that `sp` may be."""
