"""Streams: the sources of realtime tables' rows, by partition and offset, and the decoding of messages to columns."""
