"""Structural verification of untrusted segments.

Correct checksums prove that a file is what its writer wrote, not that it is safe to read. In: `metadata.json` and the
buffers of a segment. Out: nothing, or CorruptSegmentError that names the column and the buffer. Start at `structure`
(buffers); `shape` has the types and ranges of the metadata's fields.
"""
