"""Columns and group tables as raw buffers, for frames between processes and for files of spilled groups."""
