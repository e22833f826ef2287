"""Decoders of batches of messages into columns."""
