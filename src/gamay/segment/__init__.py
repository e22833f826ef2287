"""Columnar segments: the column interface, the builder, the reader, and the indexes."""
