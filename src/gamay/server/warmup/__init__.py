"""Compiling what queries and upserts run before a user waits for it."""
