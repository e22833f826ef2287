"""Rows of segments in a partition: keys, valid docs, the registry of segments, merging, rollback."""
