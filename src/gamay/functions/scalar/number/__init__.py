"""Arithmetic, rounding, bits, random numbers."""
