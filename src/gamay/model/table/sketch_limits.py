"""Bounds of sketch parameters, in queries as well as in table configs."""

LOG2M_RANGE = range(2, 17)
"""HyperLogLog: the logarithm of the number of registers."""

HLL_PLUS_PRECISION_RANGE = range(4, 19)
SPARSE_PRECISION_MAX = 32
"""HyperLogLog++: `p`, and the maximum of `sp`."""
