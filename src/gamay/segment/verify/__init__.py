"""Structural verification of segments that come from elsewhere.

Right checksums say that a file is what its writer wrote, not that readers may rely on it. In: `metadata.json` and the
buffers of a segment. Out: nothing, or CorruptSegmentError that names the column and the buffer. Start at `structure`
(buffers); `shape` has the types and ranges of the metadata's fields.
"""
