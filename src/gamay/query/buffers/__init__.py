"""Columns and group tables as raw buffers, for inter-process frames and for spill files."""
