"""Streams: where the rows of realtime tables come from, by partition and offset, and how messages become columns."""
