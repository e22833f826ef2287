"""Rows of segments as a partition takes them: keys, valid docs, the segments it knows, merging, rollback."""
