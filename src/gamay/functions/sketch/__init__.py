"""Sketches as values: building from hashes, merging, estimating and serialising."""
