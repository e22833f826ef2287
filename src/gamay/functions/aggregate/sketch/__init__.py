"""Approximate distinct counts, frequent items, and set operations on sketches."""
