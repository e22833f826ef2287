"""Streams, from which realtime tables consume rows by partition and offset, and the decoding of messages into columns."""
