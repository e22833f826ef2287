"""Numba functions over NumPy arrays; no classes, no I/O, no other Gamay package."""
