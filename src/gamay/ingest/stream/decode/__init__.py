"""Decoders: from batches of messages to columns."""
