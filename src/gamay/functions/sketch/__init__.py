"""Sketches as values: how each is built of hashes, merged, estimated from and written as bytes."""
